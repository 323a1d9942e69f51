"""What structured views claims, as differences that the study tests."""

from collections.abc import Sequence
from dataclasses import dataclass

from pairs.draws import MEAN, Draws, Estimate
from pairs.plan import CONTROL, MAIN, SHAPES, Plan, Row
from structviews.evaluation.scores.intervals import holm

# Below it, a corrected p-value decides.
LEVEL = 0.05


@dataclass(frozen=True)
class Claim:
    """A claim, and the difference that is above 0 if it holds.

    Attributes:
        section: of the paper; empty for what the study asks beside it.
        text: the claim.
        terms: signs, rows and scores of the difference.
    """

    section: str
    text: str
    terms: tuple[tuple[float, Row, str], ...]


@dataclass(frozen=True)
class Verdict:
    """A claim, its difference, the p-value corrected by Holm's method for all claims, and what follows."""

    claim: Claim
    difference: Estimate
    p: float

    @property
    def word(self) -> str:
        """Decided by the corrected p-value and the sign."""
        if self.p >= LEVEL:
            return "does not show"
        return "shows" if self.difference.value > 0 else "reversed"


def claims(plan: Plan) -> list[Claim]:
    """All claims, the main one first."""
    own = {row.title: row for row in plan.table}

    def above(section: str, text: str, better: str | Row, worse: str | Row, score: str = MEAN) -> Claim:
        first, second = (own[each] if isinstance(each, str) else each for each in (better, worse))
        return Claim(section, text, ((1, first, score), (-1, second, score)))

    gains = tuple(
        (sign * side, own[views], score)
        for side, score in ((1, "SICK-R"), (-1, "MR"))
        for sign, views in ((1, MAIN), (-1, CONTROL))
    )
    return [
        above("1, 4.3", "two different structures are better than one sequence seen twice", MAIN, CONTROL),
        above("4.3", "so are dependencies with sequences", "dep,seq", CONTROL),
        above("4.3", "so are sequences with constituents", "seq,const", CONTROL),
        above("1", "two different trees are better than one seen twice: dependencies", MAIN, "dep,dep"),
        above("1", "two different trees are better than one seen twice: constituents", MAIN, "const,const"),
        above("table 1", "two kinds of tree are better than dependencies with sequences", MAIN, "dep,seq"),
        above("table 1", "two kinds of tree are better than sequences with constituents", MAIN, "seq,const"),
        above("4.3", "structure helps on SICK-R", MAIN, CONTROL, "SICK-R"),
        above("4.3", "structure helps on SUBJ", MAIN, CONTROL, "SUBJ"),
        Claim("4.3", "structure helps more on SICK-R than on MR", gains),
        *(
            above("1", f"syntax is better than {SHAPES[row.trees]} trees: {row.views}", plan.usual(row), row)
            for row in plan.shape
            if row.trees in SHAPES
        ),
        above("", "a third structure helps", "dep,const,seq", MAIN),
        above("", "training helps", MAIN, f"{MAIN}, untrained"),
        above("", "training brings more than the words alone", MAIN, "words: sif"),
    ]


def claim_between(first: Row, second: Row) -> Claim:
    """The difference of two rows in the mean of the tasks."""
    return Claim("", f"{first.title} - {second.title}", ((1, first, MEAN), (-1, second, MEAN)))


def verdicts(draws: Draws, found: Sequence[Claim]) -> list[Verdict]:
    """Verdicts on the claims whose rows have scores."""
    testable = [each for each in found if all(draws.has(row) and score in draws.scores for _, row, score in each.terms)]
    differences = [draws.difference(each.terms) for each in testable]
    adjusted = holm([each.p for each in differences]) if differences else []
    return [Verdict(*each) for each in zip(testable, differences, adjusted, strict=True)]


def against(draws: Draws, rows: Sequence[Row], other: Row) -> dict[Row, Verdict]:
    """How far rows are above another one on the mean of the tasks, corrected for all these rows."""
    found = verdicts(draws, [claim_between(row, other) for row in rows if row != other])
    return {verdict.claim.terms[0][1]: verdict for verdict in found}
