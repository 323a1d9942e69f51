"""Devices by name; imports PyTorch only to try one."""

from structviews.errors import InputError


def check_device(name: str) -> None:
    """Raise InputError if PyTorch cannot use a device; an empty name leaves the choice to others."""
    if not name:
        return
    import torch  # noqa: PLC0415 - slow to import

    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0]
        if reason.startswith(("Expected one of", "Invalid device string")):
            reason = "no such device"
        raise InputError(
            f"--device {name}: {reason[:120]}: give cpu, or cuda or cuda:1 on a machine with GPUs"
        ) from None
