"""Tasks and vectors for benchmarks and checks of the evaluation, and scikit-learn's fits."""

from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from structviews.evaluation.senteval.protocols.protocol import Vectors
from structviews.evaluation.senteval.tasks.reading import Examples, Task, Tokens
from structviews.words.vector_files import WordVectors

# Examples of each split, classes (0: scores) and whether they are pairs, as published.
SIZES = {
    "MR": ({"all": 10_662}, 2, False),
    "CR": ({"all": 3_772}, 2, False),
    "SUBJ": ({"all": 10_000}, 2, False),
    "MPQA": ({"all": 10_604}, 2, False),
    "SST2": ({"train": 67_349, "dev": 872, "test": 1_821}, 2, False),
    "SST5": ({"train": 8_544, "dev": 1_101, "test": 2_210}, 5, False),
    "TREC": ({"train": 5_452, "test": 500}, 6, False),
    "MRPC": ({"train": 4_076, "test": 1_725}, 2, True),
    "SICK-E": ({"train": 4_500, "dev": 500, "test": 4_927}, 3, True),
    "SICK-R": ({"train": 4_500, "dev": 500, "test": 4_927}, 0, True),
    "STS-B": ({"train": 5_749, "dev": 1_500, "test": 1_379}, 0, True),
}


def random_task(name: str, dim: int) -> tuple[Task, dict[str, Vectors]]:
    """A task of the published size whose examples are random vectors (n, dim), on which the targets depend.

    As with real encoders, the vectors have a norm of about 10 and variances that fall as 1 / rank, which matters to a
    solver. White noise would be linearly separable in so many dimensions, whatever the labels.
    """
    sizes, classes, pairs = SIZES[name]
    rng = np.random.default_rng(0)
    scale = np.arange(1, dim + 1, dtype=np.float32) ** -0.5
    scale *= 10 / np.linalg.norm(scale)
    direction = rng.standard_normal((dim, max(classes, 1))).astype(np.float32)
    examples, vectors = {}, {}
    for split, n in sizes.items():
        first, second = (rng.standard_normal((m, dim), dtype=np.float32) for m in (n, n if pairs else 0))
        first *= scale  # in place: the largest take 4 GB
        second *= scale
        signal = (first * second if pairs else first) @ direction
        signal /= signal.std()
        noisy = signal + rng.standard_normal(signal.shape)
        targets = noisy.argmax(1) if classes else np.clip(3 + noisy[:, 0], 1, 5)
        sentences = (("w",),) * n
        examples[split] = Examples(sentences, sentences if pairs else (), targets)
        vectors[split] = first, second
    kind = "classification" if classes else "relatedness"
    metrics = ("accuracy", "f1") if name == "MRPC" else ("accuracy",)
    return Task(name, kind, examples, {}, {}, metrics), vectors


def word_features(task: Task, dim: int, words: Path | None) -> dict[str, Vectors]:
    """Vectors (n, dim) of a task's sentences: mean, maximum and minimum of word vectors, then random features of them.

    Args:
        task: whose sentences.
        dim: up to three times the words' dimension are plain, the rest is ``max(0, .)`` of random projections.
        words: a file of word vectors; without it each word has a random one of 300 numbers.
    """
    vocabulary = sorted({word for sentence in task.sentences() for word in sentence})
    rng = np.random.default_rng(0)
    table = rng.standard_normal((len(vocabulary), 300), dtype=np.float32) / 10
    if words:
        file = WordVectors.open(words)
        table = file.rows(file.find(vocabulary))
    places = {word: row for row, word in enumerate(vocabulary)}
    pooled_dim = 3 * table.shape[1]
    projection = rng.standard_normal((pooled_dim, max(0, dim - pooled_dim)), dtype=np.float32) / np.float32(
        np.sqrt(pooled_dim)
    )

    def encode(sentences: tuple[Tokens, ...]) -> np.ndarray:
        if not sentences:
            return np.empty((0, dim), dtype=np.float32)
        found = [table[[places[word] for word in sentence]] for sentence in sentences]
        pooled = np.array([np.concatenate([x.mean(0), x.max(0), x.min(0)]) for x in found], dtype=np.float32)
        return np.concatenate([pooled[:, :dim], np.maximum(pooled @ projection, 0)], axis=1)

    return {split: (encode(examples.first), encode(examples.second)) for split, examples in task.splits.items()}


def scikit_fit(
    features: np.ndarray, labels: np.ndarray, strength: float, tolerance: float, steps: int = 100_000
) -> tuple[LogisticRegression, float]:
    """scikit-learn's fit of features (n, d), and its objective: log losses and ``|w|^2 / (2 C)``."""
    model = LogisticRegression(C=strength, tol=tolerance, max_iter=steps).fit(features, labels)
    losses = -model.predict_log_proba(features)[np.arange(len(labels)), labels]
    return model, float(losses.sum() + (model.coef_**2).sum() / (2 * strength))
