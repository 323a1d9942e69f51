"""Choose a classifier's settings with scikit-learn: a pipeline with a run in it, and a grid search.

`SentenceVectorizer` makes a run a step of a pipeline, whose settings are searched with those of the classifier after
it. A sentence is parsed once for all of them, and what the pipeline keeps in `memory` is there when the program is run
again with the same `--out`. The questions of `data/` are made up, and 72 of them say little about a setting; the folder
of SentEval's own tasks can be given instead.
"""

import argparse
from pathlib import Path
from tempfile import mkdtemp

from sklearn.linear_model import LogisticRegression
from sklearn.metrics import classification_report
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from structviews.adapters.sklearn import SentenceVectorizer

SENTEVAL = Path(__file__).parents[1] / "data" / "senteval"
GRID = {"vectors__pooling": ["vector", "mean"], "vectors__view": ["dep-rel", "const", None], "classifier__C": [0.01, 1]}
QUESTIONS = ["How many legs does a spider have?", "Where do penguins live?"]


def read(file: Path) -> tuple[list[str], list[str]]:
    """The questions of a file of TREC, and what they ask for: lines such as `NUM:count How many legs ... ?`."""
    lines = [line.split(" ", 1) for line in file.read_text("latin-1").splitlines()]
    return [question for _, question in lines], [label.partition(":")[0] for label, _ in lines]


def main() -> None:
    """Search, test, ask."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("senteval", type=Path, nargs="?", default=SENTEVAL, help="folder that holds TREC/")
    arguments.add_argument("--out", type=Path, help="folder that keeps the vectors; by default a temporary one")
    given = arguments.parse_args()
    out = given.out or Path(mkdtemp(prefix="structviews-"))

    questions, labels = read(given.senteval / "TREC" / "train_5500.label")
    pipeline = Pipeline(
        [
            ("vectors", SentenceVectorizer("default")),
            ("scaler", StandardScaler()),
            ("classifier", LogisticRegression(max_iter=1000)),
        ],
        memory=str(out / "memory"),
    )
    search = GridSearchCV(pipeline, GRID, cv=3).fit(questions, labels)
    found = search.cv_results_
    print(f"{len(found['params'])} settings, {len(questions)} questions, in three folds:")
    for row in found["rank_test_score"].argsort(kind="stable"):
        chosen = ", ".join(f"{name.partition('__')[2]} {value}" for name, value in found["params"][row].items())
        print(f"  {100 * found['mean_test_score'][row]:5.1f} %  {chosen}")

    test_questions, test_labels = read(given.senteval / "TREC" / "TREC_10.label")
    print(f"\n{classification_report(test_labels, search.predict(test_questions), zero_division=0)}")
    for question, label in zip(QUESTIONS, search.predict(QUESTIONS), strict=True):
        print(f"{question} -> {label}")


if __name__ == "__main__":
    main()
