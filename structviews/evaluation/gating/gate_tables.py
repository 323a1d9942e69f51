"""What fitting a gate found, as tables for the terminal."""

from collections.abc import Sequence

from structviews.evaluation.gating.gate_fitting import BATCH, Fitted, JoinScores
from structviews.evaluation.gating.gate_sample import Sample
from structviews.evaluation.gating.trust import Trust
from structviews.runtime.terminal import Table
from structviews.runtime.wording import counted

# Characters of a sentence that is shown.
LONGEST = 160


def score_table(scores: Sequence[JoinScores], sample: Sample) -> Table:
    """A row for each join: its loss and accuracy on what is held out, and how much the gate improves on it."""
    own = "that the run was not trained on" if sample.new else "of which the run was trained on some"
    table = Table(
        title=f"Neighbours among {BATCH} sentences or more",
        caption=f"{counted(scores[0].accuracy.count, 'held-out sentence')} {own}; accuracy in per cent, with 95 % "
        "intervals over documents",
    )
    table.add_column("join")
    for heading in ("loss", "accuracy", "gate's gain", "p"):
        table.add_column(heading, justify="right", no_wrap=True)
    for each in scores:
        table.add_row(each.name, f"{each.loss:.3f}", str(each.accuracy), *_gain(each))
    return table


def _gain(scores: JoinScores) -> tuple[str, str]:
    if scores.worse is None:
        return "", ""
    gain = scores.worse
    ends = f"[{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]"
    return f"{100 * (gain.first - gain.second):+.1f} {ends}", f"{gain.p:.3f}"


def trust_table(rows: Sequence[Trust], views: Sequence[str], fitted: Fitted) -> Table:
    """A row for each group of held-out sentences: the mean weight of each view."""
    table = Table(
        title="Which view suits which sentence",
        caption="mean weight of each view in per cent ± its standard deviation over the sentences; the gate of "
        f"{counted(fitted.epochs, 'epoch')}",
    )
    table.add_column("held-out sentences")
    for heading in ("n", *views):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        cells = (f"{100 * mean:.1f} ± {100 * sd:.1f}" for mean, sd in zip(row.means, row.deviations, strict=True))
        table.add_row(row.group, f"{row.count:,}", *cells)
    return table


def examples(view: str, found: Sequence[tuple[float, str]]) -> list[str]:
    """Lines with the sentences that trust a view most."""
    return [f"trust {view} most:", *(f"  {100 * weight:.0f}  {_short(text)}" for weight, text in found)]


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
