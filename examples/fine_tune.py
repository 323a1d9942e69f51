"""Train the bundled model on with labels, as a module of PyTorch.

`SentenceEncoder` with a linear layer on top learns what a question asks for (the task TREC): first the layer alone,
then the encoders with it, which are saved as a run. The sample in `data/` is made up and has 72 questions, so the
accuracy says little; the folder of SentEval's own tasks can be given instead.
"""

import argparse
from pathlib import Path
from tempfile import mkdtemp

import torch
from torch import nn

from structviews import Embedder, SentenceEncoder
from structviews.evaluation.senteval.tasks.finding import read_task

SENTEVAL = Path(__file__).parents[1] / "data" / "senteval"
CLASSES = ("abbreviation", "description", "entity", "human", "location", "number")
EPOCHS = 5


def main() -> None:
    """Train, test, ask, save."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("senteval", type=Path, nargs="?", default=SENTEVAL, help="folder that holds TREC/")
    arguments.add_argument("--out", type=Path, help="folder for the tuned run; by default a temporary one")
    given = arguments.parse_args()
    out = given.out or Path(mkdtemp(prefix="structviews-"))

    # Parsing takes longest, so it is done once, before all epochs.
    prepare = Embedder.load("default").prepare
    train, test = (read_task("TREC", given.senteval, allow_partial=True).splits[part] for part in ("train", "test"))
    questions, labels = prepare(train.first), torch.from_numpy(train.targets)
    test_questions, test_labels = prepare(test.first), torch.from_numpy(test.targets)

    for trainable in (False, True):
        torch.manual_seed(0)
        encoder = SentenceEncoder.load("default", trainable=trainable)
        model = nn.Sequential(encoder, nn.Linear(encoder.dim, len(CLASSES)))
        optimiser = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=1e-3)
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(questions)).split(8):
                loss = nn.functional.cross_entropy(model([questions[row] for row in rows]), labels[rows])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
        with torch.no_grad():
            accuracy = (model(test_questions).argmax(dim=1) == test_labels).float().mean()
        what = "encoders and layer" if trainable else "layer alone"
        print(f"{what:18}  accuracy on {len(test_questions)} questions {100 * accuracy:.1f} %")

    for question in ("How many legs does a spider have?", "Where do penguins live?"):
        print(f"{question} -> {CLASSES[model([question]).argmax()]}")
    encoder.save(out / "tuned")  # an ordinary run, without the layer
    print(f"{out / 'tuned'} gives vectors of {Embedder.load(out / 'tuned').dim} dimensions")


if __name__ == "__main__":
    main()
