"""MRPC: paraphrase detection in news."""

from structviews.evaluation.senteval.tasks import TASKS
from structviews.evaluation.senteval.tasks.reading import PUBLISHED, Task, TaskFolder, class_of, pairs_of, tokens_of

PUBLISHED |= {
    "MRPC/msr_paraphrase_train.txt": 4076,
    "MRPC/msr_paraphrase_test.txt": 1725,
}


@TASKS.register("MRPC")
def mrpc(name: str, folder: TaskFolder) -> Task:
    """Read MRPC; scored by accuracy and F1."""
    splits = {}
    for split in ("train", "test"):
        file = f"MRPC/msr_paraphrase_{split}.txt"
        rows = [
            (tokens_of(row[3]), tokens_of(row[4]), class_of(row[0], ("0", "1"), place))
            for place, row in folder.rows(file, 5, header=True)
        ]
        folder.check_complete(file, len(rows))
        splits[split] = pairs_of(rows)
    return Task(name, "classification", splits, folder.checksums, folder.partial, metrics=("accuracy", "f1"))
