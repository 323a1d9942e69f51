"""Tasks of word order and roles, which bags of words cannot see; each is one tab-separated file with a header line.

PAWS-X (Yang et al., 2019): two sentences of nearly the same words, and whether they are paraphrases. SugarCrepe++
(Dumpala et al., 2024), text only: a caption, a paraphrase, and a caption with two words swapped or one replaced; the
paraphrases have to be nearer to each other than either is to the third. SemAntoNeg (Vahtola et al., 2022): a sentence
and three others, of which one means the same and two are its negations.
"""

from collections.abc import Callable, Sequence

import numpy as np

from structviews.evaluation.senteval.tasks import TASKS
from structviews.evaluation.senteval.tasks.reading import PUBLISHED, Examples, Task, TaskFolder, class_of
from structviews.parsing.tokenising import tokenise_all

SUGARCREPE = {"swap_obj": 122, "swap_att": 333, "replace_rel": 703, "replace_obj": 826, "replace_att": 394}
# The file of each task, and its number of examples.
FILES = {
    "PAWS-X": ("paws-x-dev.tsv", 2000),
    **{name: (f"sugarcrepe++-{name}.tsv", count) for name, count in SUGARCREPE.items()},
    "SemAntoNeg": ("semantoneg.tsv", 1576),
}
PUBLISHED |= FILES.values()


def reader(
    columns: int, pairs: Sequence[tuple[int, int]], target: Callable[[Sequence[str], str], int], metric: str
) -> Callable[[str, TaskFolder], Task]:
    """A reader of files with so many columns, of which ``pairs`` of sentences are compared.

    ``target`` gives the class of a row, or the number of the pair with the highest cosine.
    """
    of_sentences = range(1 + max(map(max, pairs)))

    def read(name: str, folder: TaskFolder) -> Task:
        file, _ = FILES[name]
        rows = list(folder.rows(file, columns, header=True))
        folder.check_complete(file, len(rows))
        targets = np.array([target(row, where) for where, row in rows])
        # The files have running text, unlike SentEval's.
        sides = zip(*(tokenise_all([row[a] for _, row in rows], "en") for a in of_sentences), strict=True)
        first, second = zip(*((row[a], row[b]) for row in sides for a, b in pairs), strict=True)
        examples = Examples(first, second, targets)
        return folder.task(name, "structure", {"test": examples}, metrics=(metric,), choices=len(pairs))

    return read


TASKS.register("PAWS-X", reader(3, [(0, 1)], lambda row, where: class_of(row[2], ("0", "1"), where), "ap"))
for name in SUGARCREPE:
    TASKS.register(name, reader(3, [(0, 1), (0, 2), (1, 2)], lambda row, where: 0, "accuracy"))
numbered = reader(5, [(0, 1), (0, 2), (0, 3)], lambda row, where: class_of(row[4], ("0", "1", "2"), where), "accuracy")
TASKS.register("SemAntoNeg", numbered)
