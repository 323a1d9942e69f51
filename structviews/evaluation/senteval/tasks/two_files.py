"""Tasks with one file per class: MR, CR, SUBJ and MPQA."""

from collections.abc import Callable

from structviews.evaluation.senteval.tasks import TASKS
from structviews.evaluation.senteval.tasks.reading import PUBLISHED, Task, TaskFolder, singles_of, tokens_of

PUBLISHED |= {
    "MR/rt-polarity.pos": 5331,
    "MR/rt-polarity.neg": 5331,
    "CR/custrev.pos": 2406,
    "CR/custrev.neg": 1366,
    "SUBJ/subj.subjective": 5000,
    "SUBJ/subj.objective": 5000,
    "MPQA/mpqa.pos": 3311,
    "MPQA/mpqa.neg": 7293,
}


def two_files(positive: str, negative: str) -> Callable[[str, TaskFolder], Task]:
    """A reader of a binary task; sentences of ``positive`` are class 1."""

    def read(name: str, folder: TaskFolder) -> Task:
        rows = []
        for file, label in ((positive, 1), (negative, 0)):
            sentences = [(tokens_of(line), label) for line in folder.lines(file, "latin-1")]
            folder.check_complete(file, len(sentences))
            rows += sentences
        return Task(name, "classification", {"all": singles_of(rows)}, folder.checksums, folder.partial)

    return read


TASKS.add("MR", two_files("MR/rt-polarity.pos", "MR/rt-polarity.neg"))
TASKS.add("CR", two_files("CR/custrev.pos", "CR/custrev.neg"))
# SentEval's order: its class 1 is "objective".
TASKS.add("SUBJ", two_files("SUBJ/subj.objective", "SUBJ/subj.subjective"))
TASKS.add("MPQA", two_files("MPQA/mpqa.pos", "MPQA/mpqa.neg"))
