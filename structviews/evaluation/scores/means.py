"""Means of several tasks, as papers print them."""

from collections.abc import Mapping
from statistics import mean
from typing import NamedTuple

BINARY = ("MR", "CR", "SUBJ", "MPQA", "TREC")


class Mean(NamedTuple):
    """A mean of tasks: of each, the mean of some of its scores."""

    name: str
    meaning: str
    parts: Mapping[str, tuple[str, ...]]  # by task, names of scores

    def of(self, scores: Mapping[str, float]) -> float | None:
        """The mean, in per cent, or None if a score is missing.

        ``scores`` are by measure, such as ``MR accuracy``, in per cent; correlations and squared errors are times 100,
        and 100 less the error counts.
        """
        values = [[(name, scores.get(f"{task} {name}")) for name in names] for task, names in self.parts.items()]
        known = [[100 - v if name == "mse" else v for name, v in of_task if v is not None] for of_task in values]
        return mean(map(mean, known)) if list(map(len, known)) == list(map(len, values)) else None


# S and T: the mean of T's table of view pairs; it is the mean of S's rows of table 1, too.
SENTEVAL = Mean(
    "SentEval mean",
    "mean of 7 tasks, the scores of MRPC and of SICK-R averaged first, squared errors as 100 - 100 mse",
    dict.fromkeys(BINARY, ("accuracy",)) | {"MRPC": ("accuracy", "f1"), "SICK-R": ("pearson", "spearman", "mse")},
)
# SimCSE (Gao et al., 2021), table 5, and those who follow it.
YEARS = ("STS12", "STS13", "STS14", "STS15", "STS16")
STS = Mean(
    "STS mean",
    "mean of Spearman's correlations x 100 of STS12 to STS16, STS-B and SICK-R by the protocol simcse",
    dict.fromkeys((*YEARS, "STS-B", "SICK-R"), ("spearman all",)),
)
TRANSFER = Mean(
    "transfer mean",
    "mean accuracy of MR, CR, SUBJ, MPQA, SST2, TREC and MRPC",
    dict.fromkeys(("MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC"), ("accuracy",)),
)
MEANS = (STS, TRANSFER, SENTEVAL)
