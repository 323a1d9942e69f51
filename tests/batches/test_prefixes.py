"""The distinct prefixes of a batch, against a set of tuples."""

import numpy as np
import pytest
import torch

from structviews.batches.prefixes import prefixes

SENTENCES = {
    "one word": [[3]],
    "the same": [[1, 2, 3]] * 4,
    "all different": [[0], [1, 0], [2, 0, 0]],
    "shared": [[1, 2, 3], [1, 2], [1, 2, 4, 4], [2, 2, 3], [1, 2, 3, 300], [1], [1, 2, 3]],
    # The first number takes two bytes, the second only the higher one of them.
    "high bytes": [[257, 255], [256, 255], [257, 0], [256, 65535, 1], [255, 255]],
    "random": [
        np.random.default_rng(seed).integers(0, 3, length).tolist() for seed, length in enumerate([1, 5, 9, 2, 7] * 20)
    ],
}


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize("sentences", SENTENCES.values(), ids=SENTENCES)
def test_each_prefix_is_there_once(sentences, backwards):
    lengths = np.array([len(each) for each in sentences])
    found = prefixes(np.concatenate(sentences), lengths, backwards)
    read = [each[::-1] if backwards else each for each in sentences]

    steps: list[list[tuple[int, ...]]] = []  # the words of each prefix, from its parent's and its own
    for words, parents in zip(found.word.split(found.sizes), found.parent.split(found.sizes), strict=True):
        above = steps[-1] if steps else [()]
        steps.append([(*above[p], w) for p, w in zip(parents.tolist(), words.tolist(), strict=True)])
    together = [prefix for step in steps for prefix in step]
    assert len(together) == len(set(together))
    assert set(together) == {tuple(each[: i + 1]) for each in read for i in range(len(each))}

    in_text_order = [
        tuple(each[: i + 1]) for each in read for i in (range(len(each))[::-1] if backwards else range(len(each)))
    ]
    assert [together[i] for i in found.of_word] == in_text_order

    assert sorted(found.sentence.tolist()) == list(range(len(sentences)))
    ends = zip(found.sentence.split(found.ended), found.last.split(found.ended), steps, strict=True)
    assert {
        s: step[row] for sentences_, rows, step in ends for s, row in zip(sentences_.tolist(), rows, strict=True)
    } == {i: tuple(each) for i, each in enumerate(read)}
    assert found.word.dtype == found.parent.dtype == torch.int64
