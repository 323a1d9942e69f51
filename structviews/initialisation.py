"""How parameters start: Xavier weights and zero biases (structured views 4.1) unless a run says otherwise."""

from torch import Tensor, nn

SCHEMES = ("xavier", "he")


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


def he(module: nn.Module) -> None:
    """Draw a module's weights anew by He et al. 2015: normal, of variance 2 / inputs; biases stay."""
    for parameter in module.parameters():
        if parameter.dim() >= 2:
            nn.init.kaiming_normal_(parameter, nonlinearity="relu")


def open_gates(module: nn.Module, bias: float) -> None:
    """Set the biases of the reset and update gates of a module's GRUs.

    Of the two biases that PyTorch adds up for each gate, the input's gets it all.
    """
    for part in module.modules():
        if isinstance(part, nn.GRU):
            for name, parameter in part.named_parameters():
                if name.startswith("bias_ih"):
                    nn.init.constant_(parameter.detach()[: 2 * part.hidden_size], bias)


def _blocks(parameter: Tensor, n: int) -> tuple[Tensor, ...]:
    return parameter.detach().chunk(n)
