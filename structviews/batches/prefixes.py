"""The distinct beginnings of a batch's sentences, which a recurrent network at rest reads once.

``A man is eating`` and ``A man is cooking`` share three steps. In running text, a window of thousands of sentences has
7 % fewer prefixes than words; in tasks of paraphrases, 60 % fewer.

Shapes: n words, B sentences, N prefixes, S steps, that is, words of the longest sentence.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from structviews.runtime.arrays import Array, starts_of


@dataclass(frozen=True)
class Prefixes:
    """The distinct prefixes of a batch's sentences by their length; those of one length are a step.

    Attributes:
        word: ``(N,)`` last word of each prefix.
        parent: ``(N,)`` row, in the step before, of the prefix without that word; 0 in the first step.
        sizes: ``(S,)`` number of prefixes of each step.
        of_word: ``(n,)`` the prefix that ends with each word, in text order.
        sentence: ``(B,)`` the sentences in the order of their lengths.
        last: ``(B,)`` row in its last step of each of these sentences.
        ended: ``(S,)`` how many of these sentences end with each step.
    """

    word: Tensor
    parent: Tensor
    sizes: list[int]
    of_word: Tensor
    sentence: Tensor
    last: Tensor
    ended: list[int]


def prefixes(words: Array, lengths: Array, backwards: bool = False) -> Prefixes:
    """The prefixes of sentences; ``backwards`` those of the sentences read from their ends, that is, their suffixes.

    Args:
        words: ``(n,)`` integers from 0, equal for equal words.
        lengths: ``(B,)`` number of words of each sentence, at least 1.
        backwards: read from the end.
    """
    step = np.arange(lengths.max())
    inside = step < lengths[:, None]
    place = (starts_of(lengths)[:, None] + (lengths[:, None] - 1 - step if backwards else step))[inside]
    grid = np.zeros(inside.shape, dtype=">u4")
    grid[inside] = words[place] + 1
    # In alphabetical order, as it were (high bytes first), sentences stand beside those that they share most with.
    order = grid.view(f"S{4 * len(step)}").ravel().argsort(kind="stable")
    grid = grid[order]
    first = inside[order]
    first[1:] &= ~np.logical_and.accumulate(grid[1:] == grid[:-1], axis=1)
    row = np.empty(first.shape, dtype=np.int64)  # of each sentence's prefix within the step
    row[order] = first.cumsum(axis=0) - 1
    steps, sorted_sentence = np.nonzero(first.T)
    sizes = np.bincount(steps, minlength=len(step))
    of_word = np.empty(len(words), dtype=np.int64)
    of_word[place] = (row + starts_of(sizes))[inside]
    by_length = lengths.argsort(kind="stable")
    return Prefixes(
        torch.from_numpy(grid[sorted_sentence, steps].astype(np.int64) - 1),
        torch.from_numpy(row[order[sorted_sentence], np.maximum(steps, 1) - 1] * (steps > 0)),
        sizes.tolist(),
        torch.from_numpy(of_word),
        torch.from_numpy(by_length),
        torch.from_numpy(row[by_length, lengths[by_length] - 1]),
        np.bincount(lengths - 1, minlength=len(step)).tolist(),
    )
