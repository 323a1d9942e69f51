"""Sentence analogies found in a parsed corpus with a list of word analogies.

The Quick-Thoughts paper's analogies (Logeswaran and Lee 2018, appendix A) come from pairs of sentences
that differ by about one word, which word analogies join to tuples. Here they differ by exactly one,
when upper and lower case are the same and tokens without a letter or a digit are passed over.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from structviews.cache import ParsedCorpus, write_whole
from structviews.errors import InputError
from structviews.hashing import placed, row_sums, word_hashes
from structviews.lines import text_lines

WordPair = tuple[str, str]
MOST = 10


@dataclass(frozen=True)
class WordAnalogy:
    """A word is to another as a third is to a fourth, and its category."""

    first: WordPair
    second: WordPair
    category: str


@dataclass(frozen=True)
class Mined:
    """What one category gave: how many word analogies it has, and tuples of four sentences."""

    analogies: int
    tuples: list[tuple[str, str, str, str]]


def read_word_analogies(path: Path) -> list[WordAnalogy]:
    """Read Google's format: four words a line; a line ``: name`` begins a category.

    Words are lower-cased.

    Raises:
        InputError: if the file cannot be read or has none, or a line does not hold four words; names file and line.
    """
    found, category = [], "all"
    for number, line in enumerate(text_lines(path), 1):
        if line.startswith(":"):
            category = line[1:].strip()
            continue
        words = line.lower().split()
        if len(words) != 4:
            raise InputError(f"{path}:{number}: {len(words)} words, not 4: mend the line")
        found.append(WordAnalogy((words[0], words[1]), (words[2], words[3]), category))
    if not found:
        raise InputError(f"{path}: no analogies: give lines of four words")
    return found


def mine(corpus: ParsedCorpus, analogies: list[WordAnalogy], seed: int = 0) -> dict[str, Mined]:
    """Tuples of sentences, ``MOST`` at most for each word analogy, by category.

    A word analogy a : b :: c : d needs a sentence with ``a`` that is in the corpus with ``b`` in its place too,
    and another such pair with ``c`` and ``d``. Which pairs go together is drawn; none is in two tuples of one
    word analogy.

    Args:
        corpus: where sentences are from.
        analogies: between words.
        seed: of the drawing.

    Raises:
        InputError: if no analogy has sentences.
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
            f"{corpus.path}: none of the {len(analogies):,} word analogies has sentences in it that differ by these "
            "words alone: give a larger corpus, or another list"
        )
    return {category: Mined(counts[category], tuples[category]) for category in counts}


def sentence_pairs(corpus: ParsedCorpus, wanted: dict[WordPair, None]) -> dict[WordPair, list[tuple[int, int]]]:
    """For each pair of words the sentences that differ by these alone, as rows of the corpus.

    A sentence that stands several times in the corpus counts where it stands first. A sentence's hash is a sum
    over its words and their places, so that of the sentence with another word in some place follows from it.
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
    """Each sentence's hash; and for each occurrence of a wanted word its id, the sentence and the place."""
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
    """Write tuples of sentences as :func:`structviews.evaluation.analogy.read_tuples` reads them."""
    lines = []
    for category, found in mined.items():
        if found.tuples:
            lines += [f": {category}", *("\t".join(sentences) for sentences in found.tuples)]
    text = "\n".join(lines) + "\n"
    write_whole(path, lambda file: file.write(text.encode()))
