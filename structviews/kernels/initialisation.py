"""Parameter initialisation; by default Xavier weights and zero biases (structured views 4.1)."""

from torch import nn

from structviews.kernels.cells import TreeCell

SCHEMES = ("xavier", "he")


def xavier(module: nn.Module, gates: dict[str, int] | None = None) -> None:
    """Xavier-initialise a module's weights, each gate's matrix separately, and zero its biases.

    ``gates`` is the number of gates stacked in the rows of a parameter, by its name; 1 by default.
    """
    for name, parameter in module.named_parameters():
        if parameter.dim() < 2:
            nn.init.zeros_(parameter)
        else:
            for block in parameter.detach().chunk((gates or {}).get(name, 1)):
                nn.init.xavier_uniform_(block)


def he(module: nn.Module) -> None:
    """Reinitialise a module's weights as in He et al. 2015: normal with variance 2 / fan-in; biases are kept."""
    for parameter in module.parameters():
        if parameter.dim() >= 2:
            nn.init.kaiming_normal_(parameter, nonlinearity="relu")


def open_gates(module: nn.Module, bias: float) -> None:
    """Set the biases of the reset and update gates of a module's GRUs, and of the forget gates of its LSTMs.

    Those of Tree-LSTMs stay. PyTorch adds two biases for each gate; only the input bias is set.
    """
    for part in module.modules():
        if isinstance(part, nn.GRU | nn.LSTM):
            # The gates are r, z, n or i, f, g, o.
            gates = slice(0 if isinstance(part, nn.GRU) else part.hidden_size, 2 * part.hidden_size)
            for name, parameter in part.named_parameters():
                if name.startswith("bias_ih"):
                    nn.init.constant_(parameter.detach()[gates], bias)
        elif isinstance(part, TreeCell):
            for gate in part.gate_biases():
                nn.init.constant_(gate.detach(), bias)
