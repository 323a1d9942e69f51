"""Sentence analogies mined from a parsed corpus with a list of word analogies.

The analogies of the Quick-Thoughts paper (Logeswaran and Lee 2018, appendix A) combine pairs of sentences that differ
in about one word by means of word analogies. Here they differ in exactly one word, ignoring case and tokens without
letters or digits.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.errors import InputError
from structviews.runtime.arrays import placed, row_sums, word_hashes
from structviews.runtime.files import text_lines, write_output
from structviews.runtime.wording import counted

WordPair = tuple[str, str]
MOST = 10


@dataclass(frozen=True)
class WordAnalogy:
    """A word analogy, ``first[0]`` is to ``first[1]`` as ``second[0]`` is to ``second[1]``, with its category."""

    first: WordPair
    second: WordPair
    category: str


@dataclass(frozen=True)
class Mined:
    """The results for one category: its number of word analogies, and tuples of four sentences."""

    analogies: int
    tuples: list[tuple[str, str, str, str]]


def read_word_analogies(path: Path) -> list[WordAnalogy]:
    """Read word analogies in Google's format: four words per line; a line ``: name`` starts a category.

    Words are lower-cased.

    Raises:
        InputError: if the file cannot be read or has no analogies, or a line does not have four words; the message
            names file and line.
    """
    found, category = [], "all"
    for number, line in enumerate(text_lines(path), 1):
        if line.startswith(":"):
            category = line[1:].strip()
            continue
        words = line.lower().split()
        if len(words) != 4:
            raise InputError(f"{path}:{number}: {counted(len(words), 'word')}, not 4: fix the line")
        found.append(WordAnalogy((words[0], words[1]), (words[2], words[3]), category))
    if not found:
        raise InputError(f"{path}: no analogies: give lines of four words")
    return found


def mine(corpus: ParsedCorpus, analogies: list[WordAnalogy], seed: int = 0) -> dict[str, Mined]:
    """Tuples of sentences by category, at most ``MOST`` for each word analogy.

    A word analogy a : b :: c : d needs a sentence with ``a`` that also occurs with ``b`` in its place, and another such
    pair with ``c`` and ``d``. Pairs are combined at random, each at most once per word analogy.

    Args:
        corpus: the corpus to search for sentences.
        analogies: the word analogies.
        seed: random seed.

    Raises:
        InputError: if no sentences are found for any analogy.
    """
    pairs = sentence_pairs(corpus, {pair: None for each in analogies for pair in (each.first, each.second)})
    rng = np.random.default_rng(seed)
    counts = {each.category: 0 for each in analogies}
    tuples: dict[str, list[tuple[str, str, str, str]]] = {category: [] for category in counts}
    for each in analogies:
        counts[each.category] += 1
        first, second = pairs[each.first], pairs[each.second]
        n = min(len(first), len(second), MOST)
        for i, j in zip(rng.permutation(len(first))[:n], rng.permutation(len(second))[:n], strict=True):
            rows = (*first[i], *second[j])
            if len(set(rows)) == 4:
                a, b, c, d = (" ".join(corpus.sentence(row).tokens) for row in rows)
                tuples[each.category].append((a, b, c, d))
    if not any(tuples.values()):
        raise InputError(
            f"{corpus.path}: no sentences that differ only in the words of one of the {len(analogies):,} analogies: "
            "give a larger corpus or another list"
        )
    return {category: Mined(counts[category], tuples[category]) for category in counts}


def sentence_pairs(corpus: ParsedCorpus, wanted: dict[WordPair, None]) -> dict[WordPair, list[tuple[int, int]]]:
    """For each pair of words, the sentences that differ only in these words, as rows of the corpus.

    Of repeated sentences, only the first counts. A sentence's hash is a sum over its words and their positions, so the
    hash after replacing a word can be computed from it.
    """
    ids = {word: i for i, word in enumerate({word: None for pair in wanted for word in pair})}
    hashes, found = _index(corpus, ids)
    sums, firsts = np.unique(hashes, return_index=True)
    word, row, place = (column[np.argsort(found[0], kind="stable")] for column in found)
    starts = np.searchsorted(word, np.arange(len(ids) + 1))
    keys = word_hashes(pa.array(list(ids), pa.string()))
    result = {}
    for a, b in wanted:
        of_a = slice(starts[ids[a]], starts[ids[a] + 1])
        with np.errstate(over="ignore"):
            other = hashes[row[of_a]] - placed(keys[ids[a]], place[of_a]) + placed(keys[ids[b]], place[of_a])
        at = np.minimum(np.searchsorted(sums, other), len(sums) - 1)
        mine = np.searchsorted(sums, hashes[row[of_a]])
        there = (sums[at] == other) & (firsts[mine] == row[of_a])
        result[a, b] = list(zip(row[of_a][there].tolist(), firsts[at[there]].tolist(), strict=True))
    return result


def _index(corpus: ParsedCorpus, ids: dict[str, int]) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """The hash of each sentence; and the word id, sentence and position of each occurrence of a wanted word."""
    hashes, occurrences, before = [], [], 0
    for number in range(corpus.n_shards):
        lists = corpus.shard(number)["tokens"].chunk(0)
        spelling = [word.lower() for word in lists.values.dictionary.to_pylist()]
        plain = np.array([any(map(str.isalnum, word)) for word in spelling], dtype=bool)
        indices = lists.values.indices.to_numpy()
        offsets = np.concatenate([[0], np.cumsum(plain[indices])])[lists.offsets.to_numpy()]
        indices = indices[plain[indices]]
        hashes.append(row_sums(word_hashes(pa.array(spelling, pa.string()))[indices], offsets))
        word = np.array([ids.get(each, -1) for each in spelling], dtype=np.int64)[indices]
        known = np.flatnonzero(word >= 0)
        row = np.searchsorted(offsets, known, side="right") - 1
        occurrences.append((word[known], row + before, known - offsets[row]))
        before += len(lists)
    return np.concatenate(hashes), tuple(np.concatenate(column) for column in zip(*occurrences, strict=True))


def write_tuples(path: Path, mined: dict[str, Mined]) -> None:
    """Write tuples of sentences as :func:`structviews.evaluation.retrieval.analogy.read_tuples` reads them."""
    lines = []
    for category, found in mined.items():
        if found.tuples:
            lines += [f": {category}", *("\t".join(sentences) for sentences in found.tuples)]
    text = "\n".join(lines) + "\n"
    write_output(path, lambda file: file.write(text.encode()))
