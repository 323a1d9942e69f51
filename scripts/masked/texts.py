"""Texts as pieces of words, and what the model reads at once."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tokenizers import BertWordPieceTokenizer, Tokenizer

from structviews.errors import InputError
from structviews.parsing.pipeline import cut
from structviews.parsing.text import RawSentence, read_sentences, survey
from structviews.runtime.arrays import starts_of
from structviews.runtime.files import file_hash, write_bytes
from structviews.runtime.seals import read_arrays, read_head, write_arrays
from structviews.runtime.wording import counted

SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
# Ids of the pieces that begin and end a row, and of the one that hides another.
FIRST, LAST, MASK = (list(SPECIAL).index(name) for name in ("cls", "sep", "mask"))
# The most frequent characters; a word with another one is unknown.
CHARACTERS = 100
# Sentences that the vocabulary is learnt on.
LEARNT_ON = 500_000
# Of every so many documents one is held out. One is read as runs of sentences, so that the last positions learn, too;
# of the others each sentence is read alone, as encoders of sentences do.
HELD_OUT, JOINED = 200, 10
SENTENCES_AT_ONCE = 10_000
PIECES_FILE, TOKENISER_FILE = "texts.safetensors", "tokenizer.json"


class Texts(NamedTuple):
    """Sentences as pieces.

    Attributes:
        pieces: ``(n,)`` ids of all sentences' pieces, one sentence after another, without ``FIRST`` and ``LAST``.
        lengths: ``(sentences,)`` number of pieces of each, at least 1.
        documents: ``(sentences,)`` number of the document of each, ascending.
        words: ``(sentences,)`` number of words of each, as white space separates them.
    """

    pieces: np.ndarray
    lengths: np.ndarray
    documents: np.ndarray
    words: np.ndarray

    @property
    def held_out(self) -> np.ndarray:
        """Whether each sentence is held out ``(sentences,)``."""
        return np.asarray(self.documents % HELD_OUT == 0)

    def part(self, which: np.ndarray) -> "Texts":
        """Those sentences for which ``which (sentences,)`` is true."""
        columns = (column[which] for column in self[1:])
        return Texts(self.pieces[np.repeat(which, self.lengths)], *columns)

    def told(self) -> str:
        """How much there is."""
        documents = counted(len(np.unique(self.documents)), "document")
        return f"{counted(len(self.lengths), 'sentence')} of {documents}, {counted(int(self.words.sum()), 'word')}"


class Rows(NamedTuple):
    """What the model reads at once: ranges of a text's pieces, ``(rows,)`` each."""

    starts: np.ndarray
    lengths: np.ndarray


def prepared(work: Path, paths: Sequence[Path], words: float | None, settings: dict[str, Any]) -> tuple[Texts, Any]:
    """The texts as pieces, and the ``Tokenizer``; both are made once and kept.

    Args:
        work: the folder to keep them in.
        paths: the texts.
        words: how many millions of words to read, in whole documents; None for all.
        settings: of the training.

    Raises:
        InputError: if a text cannot be read, or ``work`` is damaged or holds those of other texts or settings.
    """
    remedy = f"delete {work}, or give another --out"
    for path in paths:
        if not path.is_file():
            raise InputError(f"{path}: no such file: give a text")
    asked = {**settings, "texts": [file_hash(path) for path in paths], "words": words}
    file = work / PIECES_FILE
    if not file.exists():
        for path in paths:
            survey(path, str(path))
        print("reading the texts and learning their pieces, which takes some minutes", flush=True)
        tokeniser = learn_pieces((each.text for each in sentences(paths, words)), settings["vocabulary"])
        texts = as_pieces(tokeniser, sentences(paths, words), settings["positions"])
        write_bytes(work / TOKENISER_FILE, tokeniser.to_str().encode())
        write_arrays(file, texts._asdict(), asked)
    if read_head(file, remedy).notes != asked:
        raise InputError(f"{work}: begun with other texts or settings: {remedy}")
    return Texts(**read_arrays(file, remedy)), Tokenizer.from_str((work / TOKENISER_FILE).read_text("utf-8"))


def sentences(paths: Iterable[Path], words: float | None = None) -> Iterator[RawSentence]:
    """The sentences of texts, their documents numbered on from text to text.

    Args:
        paths: the texts.
        words: in millions; the document in which they are reached is the last one.
    """
    most = math.inf if words is None else words * 1e6
    read, document, before = 0, -1, (-1, -1)
    for number, path in enumerate(paths):
        for each in read_sentences(path, "lines", tokenised=False, language="en"):
            if before != (number, each.document):
                if read >= most:
                    return
                document, before = document + 1, (number, each.document)
            read += len(each.text.split())
            yield RawSentence(document, each.position, each.line, each.text)


def learn_pieces(texts: Iterable[str], vocabulary: int) -> BertWordPieceTokenizer:
    """WordPiece as BERT's, in lower case, learnt on the first texts.

    The same texts give the same pieces: the library numbers characters inside words as they come out of a hash table,
    and of pairs that are as frequent it merges the one with the lowest numbers, so it is told the numbers.
    """
    learnt_on = list(islice(texts, LEARNT_ON))
    tokeniser = BertWordPieceTokenizer(lowercase=True)
    counts: Counter[str] = Counter()
    for text in learnt_on:
        counts.update(tokeniser.normalizer.normalize_str(text))
    known = [character for character, _ in counts.most_common() if not character.isspace()][:CHARACTERS]
    tokeniser.train_from_iterator(
        learnt_on,
        vocab_size=vocabulary,
        initial_alphabet=known,
        limit_alphabet=len(known),
        special_tokens=[*SPECIAL.values(), *(f"##{character}" for character in known)],
        show_progress=False,
    )
    # Only the special ones are so.
    return BertWordPieceTokenizer(vocab=tokeniser.get_vocab(), lowercase=True)


def as_pieces(tokeniser: BertWordPieceTokenizer, read: Iterator[RawSentence], positions: int) -> Texts:
    """Sentences as pieces; of one that has more than the model reads at once, the first ones."""
    parts: list[tuple[np.ndarray, ...]] = []
    for some in cut(read, SENTENCES_AT_ONCE):
        found = [
            e.ids[: positions - 2] for e in tokeniser.encode_batch([s.text for s in some], add_special_tokens=False)
        ]
        columns = (
            np.array([id_ for ids in found for id_ in ids], np.uint16),
            np.array([len(ids) for ids in found], np.uint16),
            np.array([sentence.document for sentence in some], np.int32),
            np.array([len(sentence.text.split()) for sentence in some], np.uint16),
        )
        some_are = columns[1] > 0  # control characters have no pieces
        parts.append((columns[0], *(column[some_are] for column in columns[1:])))
    return Texts(*map(np.concatenate, zip(*parts, strict=True)))


def rows_of(texts: Texts, positions: int) -> tuple[Rows, Rows]:
    """What to train on, and what is held out: sentences, and runs of sentences of some documents.

    Args:
        texts: the texts.
        positions: that the model has.
    """
    lengths = texts.lengths.astype(np.int64)
    starts, held_out = starts_of(lengths), texts.held_out
    joined = ~held_out & (texts.documents % JOINED == 1)
    alone = ~held_out & ~joined
    runs = runs_of(starts[joined], lengths[joined], texts.documents[joined], positions - 2)
    training = Rows(*map(np.concatenate, zip((starts[alone], lengths[alone]), runs, strict=True)))
    return training, Rows(starts[held_out], lengths[held_out])


def runs_of(starts: np.ndarray, lengths: np.ndarray, documents: np.ndarray, most: int) -> Rows:
    """Runs of whole sentences of a document, each as long as ``most`` pieces allow."""
    runs: list[list[int]] = []
    before = -1
    for start, length, document in zip(starts.tolist(), lengths.tolist(), documents.tolist(), strict=True):
        if document == before and runs[-1][1] + length <= most:
            runs[-1][1] += length
        else:
            runs.append([start, length])
        before = document
    return Rows(*np.array(runs, np.int64).reshape(-1, 2).T)


def batches_of(rows: Rows, most: int, generator: np.random.Generator) -> list[np.ndarray]:
    """All rows in batches, in random order: only rows of one length together, so that nothing is padded.

    Args:
        rows: the rows.
        most: pieces in a batch, ``FIRST`` and ``LAST`` included.
        generator: of the order.

    Returns:
        The indices of each batch's rows.
    """
    made: list[np.ndarray] = []
    for length in np.unique(rows.lengths):
        same = generator.permutation(np.flatnonzero(rows.lengths == length))
        size = max(1, most // (int(length) + 2))
        made += [same[at : at + size] for at in range(0, len(same), size)]
    return [made[index] for index in generator.permutation(len(made))]


def ids_of(pieces: np.ndarray, rows: Rows, batch: np.ndarray) -> np.ndarray:
    """The ids ``(rows, length + 2)`` of a batch's rows, which are of one length."""
    length = int(rows.lengths[batch[0]])
    ids = np.empty((len(batch), length + 2), np.int64)
    ids[:, 0], ids[:, -1] = FIRST, LAST
    ids[:, 1:-1] = pieces[rows.starts[batch, None] + np.arange(length)]
    return ids
