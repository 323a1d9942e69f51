"""What a training run reports: its metrics."""

import torch
from torch import Tensor

from structviews.objectives.objective import view_letters

# Metrics shown next to the progress bar.
SHOWN = ("loss", "accuracy")


Metrics = dict[str, dict[str, Tensor]]


def mean_metrics(several: list[Metrics]) -> Metrics:
    """The mean of several batches' metrics, kept on the device."""
    return {
        channel: {name: torch.stack([m[channel][name] for m in several]).double().mean() for name in metrics}
        for channel, metrics in several[0].items()
    }


def flat(metrics: Metrics) -> dict[str, float]:
    """Metrics as floats; with several channels, names are prefixed with the channel's."""
    if len(metrics) == 1:
        return {name: float(value) for name, value in next(iter(metrics.values())).items()}
    return {f"{channel}.{name}": float(v) for channel, m in metrics.items() for name, v in m.items()}


@torch.no_grad()
def cosines(views: list[Tensor]) -> dict[str, Tensor]:
    """Mean cosine of different sentences in one view (``cos_ff``), and of the same sentence in two (``cos_fg``).

    The first tends to 1 if a view collapses. Views are named f, g, h, ... in order.
    """
    result = {}
    unit = [torch.nn.functional.normalize(v.float(), dim=1) for v in views]
    letters = view_letters(len(unit))
    for i, a in enumerate(unit):
        n = len(a)
        off_diagonal = a.sum(dim=0).square().sum() - a.square().sum()
        result[f"cos_{letters[i]}{letters[i]}"] = off_diagonal / max(n * (n - 1), 1)
        for j in range(i + 1, len(unit)):
            result[f"cos_{letters[i]}{letters[j]}"] = (a * unit[j]).sum(dim=1).mean()
    return result


def noted(metrics: dict[str, float]) -> str:
    """The metrics that stand beside the progress bar."""
    return "  ".join(f"{name} {value:.3f}" for name, value in metrics.items() if name.split(".")[-1] in SHOWN)
