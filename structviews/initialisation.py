"""How parameters start: Xavier weights, zero biases (structured views, section 4.1)."""

from torch import Tensor, nn


def xavier(module: nn.Module, gates: dict[str, int] | None = None) -> None:
    """Draw a module's own weights, each gate's matrix by itself, and zero its biases.

    Args:
        module: its matrices and vectors are set, those of its children included.
        gates: for a parameter whose rows are several gates' matrices, how many; by name.
    """
    for name, parameter in module.named_parameters():
        if parameter.dim() < 2:
            nn.init.zeros_(parameter)
        else:
            for block in _blocks(parameter, (gates or {}).get(name, 1)):
                nn.init.xavier_uniform_(block)


def _blocks(parameter: Tensor, n: int) -> tuple[Tensor, ...]:
    return parameter.detach().chunk(n)
