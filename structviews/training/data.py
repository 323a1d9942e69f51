"""What a run learns from: its corpus, the words, what is held out, and the batches of each step.

Shapes: U distinct words of a step.
"""

import math
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
import torch
from torch import Tensor

from structviews.batches.batch import Batch
from structviews.batches.pairs import Pairs
from structviews.batches.reader import CorpusReader, epoch_batches, held_out, indivisible, n_batches
from structviews.corpus.layout import SURE
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import CONFIDENCE
from structviews.errors import InputError
from structviews.model import Model
from structviews.pretrained.loading import Blueprint
from structviews.pretrained.sentence_models import Teacher
from structviews.pretrained.states import ContextualWords, FrozenEncoder
from structviews.pretrained.stored_states import StoredStates
from structviews.runs.config import TrainConfig
from structviews.runs.settings_file import Parsed
from structviews.runtime.terminal import OnProgress
from structviews.runtime.wording import counted
from structviews.training.checkpoint import Progress
from structviews.training.ranks import Ranks, deal
from structviews.words import CONTEXTUAL, FIXED
from structviews.words.vector_files import WordVectors, fixed_words
from structviews.words.vocabulary import Vocabulary
from structviews.words.word_settings import RANDOM


class Inputs:
    """The files that a run reads, opened once: its corpus, vectors and encoder, and ``parsed``, which identifies them.

    The vectors are those of the fixed channel, the encoder is what the contextual channel reads or a view begins from,
    the pairs are perturbed sentences; None if they are not read. Raises InputError if one is missing or invalid, if the
    encoder lacks a layer, or if the pairs are of another corpus.
    """

    def __init__(self, config: TrainConfig, progress: OnProgress | None = None) -> None:
        words = config.words
        self.vectors = WordVectors.open(words.vectors, progress) if FIXED in words.channels else None
        self.encoder = FrozenEncoder.open(words.encoder, words.pooling) if words.encoder else None
        named = getattr(config.objective.options[config.objective.name], "teacher", None)
        if named == "":
            wanted = "the folder of a sentence-transformers model, or its id on the Hugging Face Hub, with --teacher"
            raise InputError(f"objective = {config.objective.name}: give {wanted}")
        self.teacher = Teacher.open(named) if named else None
        self.corpus = ParsedCorpus.open(config.data.corpus)
        perturbed, seed = config.data.perturbed, config.optimisation.seed
        self.pairs = Pairs(ParsedCorpus.open(perturbed), self.corpus, seed) if perturbed else None
        encoder = self.encoder.identity if self.encoder else None
        teacher = self.teacher.described if self.teacher else None
        self.parsed = Parsed.of(self.corpus, self.vectors, encoder, teacher, self.pairs.corpus if self.pairs else None)

    def words(self, config: TrainConfig) -> tuple[dict[str, Vocabulary], Tensor | None]:
        """The vocabulary of each channel, and the fixed channel's table ``(words, dim)``."""
        words = config.words
        unknown = np.random.default_rng(config.optimisation.seed) if words.unknown_words == RANDOM else None
        vocabularies: dict[str, Vocabulary] = {}
        table = None
        for name in words.channels:
            if name == FIXED and self.vectors:
                vocabularies[name], fixed = fixed_words(self.corpus, self.vectors, unknown)
                table = torch.from_numpy(fixed)
            elif name == CONTEXTUAL and self.encoder:
                vocabularies[name] = ContextualWords(self.encoder)
            else:
                vocabularies[name] = Vocabulary.of_corpus(self.corpus, words.vocabulary)
        return vocabularies, table


class Step(NamedTuple):
    """The data of one step: the run's progress after it, and the batches, on the device.

    ``words`` has for each channel the ids ``(U,)`` of its word table that occur in them, ascending, on the CPU.
    """

    progress: Progress
    batches: list[Batch]
    words: dict[str, np.ndarray]


def confident(corpus: ParsedCorpus, least: float) -> np.ndarray:
    """Which sentences ``(n,)`` have trees that the parser was sure of; InputError if the corpus does not say."""
    if not least:
        return np.ones(len(corpus), dtype=bool)
    if SURE not in corpus.kept:
        fault = f"{corpus.path} does not say how sure its parser was"
        raise InputError(f"min_confidence = {least:g}: {fault}: parse the text again with --confidence")
    rows = [pc.list_flatten(table[SURE]).to_numpy().reshape(-1, len(CONFIDENCE)) for table in corpus.tables()]
    means = np.concatenate(rows)[:, [name.endswith("mean") for name in CONFIDENCE]]
    return (np.isnan(means) | (means >= least)).all(axis=1)


class Data:
    """The sentences that a run trains and validates on, and this rank's batches of them.

    ``train_rows`` and ``held_out_rows`` are ascending indices in the corpus; ``states`` are the contextual channel's on
    disk, None if they are computed for each batch; ``left_out`` is the share of the training sentences that an epoch
    skips, since the ranks' shares are unequal. Raises InputError if the corpus lacks trees, or has too few documents.
    """

    def __init__(
        self,
        config: TrainConfig,
        inputs: Inputs,
        vocabularies: dict[str, Vocabulary],
        model: Model,
        blueprint: Blueprint | None,
        ranks: Ranks,
        device: torch.device,
    ) -> None:
        self.config, self.ranks, self.device = config, ranks, device
        self.corpus, self.pairs = inputs.corpus, inputs.pairs
        contextual = inputs.encoder if CONTEXTUAL in config.words.channels else None
        self.states = StoredStates.find(self.corpus, contextual) if contextual else None
        teacher = StoredStates.of_teacher(self.corpus, inputs.teacher) if inputs.teacher else None
        self.reads_neighbours = config.objective.reads_neighbours
        # Where an objective reads only the next sentence, further ones are no contexts.
        self.reach = 1 if "next" in model.context_needs else config.objective.context
        self.reader = CorpusReader(
            self.corpus,
            vocabularies,
            model.needs,
            "same" in model.context_needs,
            config.words.cut_off,
            {CONTEXTUAL: self.states} if self.states else {},
            blueprint.aligner if blueprint else None,
            config.objective.across_documents,
            teacher,
            self.pairs.corpus if self.pairs else None,
        )
        # Some of the documents are held out.
        documents = indivisible(self.reader.documents(), self.reads_neighbours)
        chosen = held_out(documents, config.optimisation.seed, config.data.held_out)
        kept = confident(self.corpus, config.data.min_confidence)
        self.train_rows, self.held_out_rows = (np.flatnonzero(own & kept).astype(np.int32) for own in (~chosen, chosen))
        if len(self.train_rows) < 2:
            found = counted(len(self.train_rows), "training sentence")
            remedy = "parse a larger corpus"
            if not kept.all():
                found, remedy = f"{found} with --min-confidence {config.data.min_confidence}", "give a lower one"
            raise InputError(f"{config.data.corpus}: {found}: {remedy}")
        firsts = np.flatnonzero(np.diff(documents[self.train_rows], prepend=-1))
        self._document_starts = np.append(firsts, len(self.train_rows))
        shares = np.diff(deal(self._document_starts, ranks.count))
        if shares.min() < 2:
            fault = f"has enough training documents for {(shares >= 2).sum()} of {ranks.count} processes"
            raise InputError(f"{config.data.corpus}: {fault}: give torchrun a smaller --nproc-per-node")
        self.left_out = 1 - ranks.count * shares.min() / shares.sum()

    def epoch_length(self, epoch: int, ranks: int | None = None) -> int:
        """Batches per rank in an epoch: the smallest number that any rank has."""
        c, shares = self.config.optimisation, np.diff(deal(self._document_starts, ranks or self.ranks.count))
        return min(n_batches(int(share), c.batch_size, c.seed, epoch) for share in shares)

    def last_step(self, start: Progress | None = None) -> int:
        """The number of the run's last step when it goes on from ``start``; by default, from the beginning."""
        c, start = self.config.optimisation, start or Progress()
        steps = sum(math.ceil(self.epoch_length(epoch) / c.accumulate) for epoch in range(start.epoch, c.epochs))
        steps += start.step - start.batch // c.accumulate
        return min(steps, c.steps) if c.steps else steps

    def batch_of(self, step: int) -> str:
        """The first batch of a step, and its epoch, for messages."""
        accumulate = self.config.optimisation.accumulate
        for epoch in range(self.config.optimisation.epochs):
            steps = math.ceil(self.epoch_length(epoch) / accumulate)
            if step <= steps:
                break
            step -= steps
        return f"batch {(step - 1) * accumulate + 1} of epoch {epoch + 1}"

    def steps(self, start: Progress) -> Iterator[Step]:
        """The data of each step from ``start`` on, from this rank's share."""
        if self.device.type == "cuda":  # each thread has its own current GPU
            torch.cuda.set_device(self.device)
        c, number, rank = self.config.optimisation, start.step, self.ranks.rank
        first, last = deal(self._document_starts, self.ranks.count)[rank : rank + 2]
        own, shuffled = self.train_rows[first:last], not self.reads_neighbours
        for epoch in range(start.epoch, c.epochs):
            count = self.epoch_length(epoch)
            done = start.batch if epoch == start.epoch else 0
            in_order = c.batch_order == "corpus"
            drawn = epoch_batches(own, c.batch_size, c.seed, epoch, shuffled=shuffled, in_order=in_order)
            rows_of = islice(drawn, done, count)
            while rows := list(islice(rows_of, c.accumulate)):
                if c.steps and number >= c.steps:
                    return
                number, done = number + 1, done + len(rows)
                following = (epoch + 1, 0) if done == count else (epoch, done)
                # Perturbed sentences train, but held-out ones are text alone.
                further = [self.pairs.drawn(each, epoch) if self.pairs else None for each in rows]
                batches = list(map(self.reader.batch, rows, further))
                words = {}
                for name in self.reader.vocabularies:
                    ids = [batch.ids[name].own.numpy() for batch in batches]
                    words[name] = ids[0] if len(ids) == 1 else np.unique(np.concatenate(ids))
                progress = Progress(number, *following, ranks=self.ranks.count)
                yield Step(progress, [batch.to(self.device) for batch in batches], words)
