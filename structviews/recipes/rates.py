"""How fast this machine is at the stages of a reproduction, measured on the beginning of its corpus."""

import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.encoding.sentence_vectors import write_sentences
from structviews.errors import InputError
from structviews.parsing.pipeline import parse_corpus
from structviews.recipes.beginning import first_documents, write_first_lines, write_first_rows
from structviews.recipes.reproduction import Reproduction, text_source
from structviews.runs.config import TrainConfig
from structviews.runtime.device import best_device
from structviews.runtime.documents import checksum, converted, read_sealed, write_json
from structviews.runtime.files import temporary_name, writing
from structviews.training.estimate import estimate
from structviews.training.trainer import BYTES_PER_PARAMETER
from structviews.views import VIEWS
from structviews.words import TRAINED
from structviews.words.learning import learn_model, save_model
from structviews.words.learning_settings import Word2VecConfig
from structviews.words.vocabulary import count_words

# Sentences that the rates are measured on, or some batches if these have more.
SAMPLE, BATCHES = 2000, 4


@dataclass(frozen=True)
class TrainingRate:
    """What training a run takes.

    Attributes:
        seconds: for a sentence.
        parameters: number of trainable parameters, with as many words as the settings allow.
    """

    seconds: float
    parameters: int

    @property
    def bytes(self) -> int:
        """Of weights, gradients and Adam's moments, without activations."""
        return BYTES_PER_PARAMETER * self.parameters


@dataclass(frozen=True)
class Rates:
    """What the stages take.

    Attributes:
        of: what they were measured for.
        sentences: of the corpus; of a text they are estimated from the beginning.
        parsing: seconds for a sentence.
        learning: seconds for a sentence and a pass; 0 if no word vectors are learnt.
        sentence_bytes: of a parsed sentence on disk.
        training: by run.
    """

    of: str
    sentences: int
    parsing: float
    learning: float
    sentence_bytes: float
    training: Mapping[str, TrainingRate]

    @classmethod
    def of_job(cls, job: Reproduction, keep: bool) -> Self:
        """The rates of a reproduction: those of an earlier call, or measured now and, if ``keep``, kept."""
        file = job.out / f"{job.recipe.name}.rates.json"
        found = cls.read(file)
        if found and found.of == identity(job):
            return found
        if not keep:
            with TemporaryDirectory(prefix="structviews-") as temporary:
                return cls.measured(job, Path(temporary))
        job.make_folder()
        with writing(file):
            folder = temporary_name(file)
            try:
                folder.mkdir()
                found = cls.measured(job, folder)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            write_json(file, asdict(found))
        return found

    @classmethod
    def read(cls, file: Path) -> Self | None:
        """Rates that were kept; None if there are none, or they are damaged."""
        try:
            return converted(read_sealed(file, dict[str, Any], ""), cls, file, "")
        except InputError:
            return None

    @classmethod
    def measured(cls, job: Reproduction, folder: Path) -> Self:
        """Measure them, in a folder for what that takes."""
        largest = max(config.optimisation.batch_size for config in job.configs.values())
        size = max(SAMPLE, BATCHES * largest)
        parsed = folder / "sample.parsed"
        sentences, parsing = _sample(job, min(size, job.sentences or size), parsed)
        sample = ParsedCorpus.open(parsed)
        learning, words = _learning(job, sample, folder / "sample.bin")
        training = {}
        for run, config in job.configs.items():
            given = {"corpus": str(parsed), "held_out": 0.0, "out": str(folder / run.name)}
            given |= {"vectors": str(words)} if config.words.vectors else {}
            training[run.name] = _training(config.replaced(**given), sample)
        used = sum(path.stat().st_size for path in parsed.iterdir()) / len(sample)
        return cls(identity(job), sentences, parsing, learning, used, training)

    def passes(self, config: TrainConfig) -> float:
        """Sentences that a run trains on, each counted once a pass."""
        c = config.optimisation
        sentences = c.epochs * self.sentences * (1 - config.data.held_out)
        return min(sentences, c.steps * c.accumulate * c.batch_size) if c.steps else sentences

    def disk(self, job: Reproduction) -> float:
        """Bytes that a reproduction takes on disk, about."""
        runs = sum(rate.bytes for rate in self.training.values())
        learnt = max((config.words.vocabulary for config in job.configs.values()), default=0) * bool(self.learning)
        return (not job.is_parsed) * self.sentences * self.sentence_bytes + runs + 2 * 4 * job.word_dim * learnt


def identity(job: Reproduction) -> str:
    """What the rates depend on, as a checksum."""
    configs = {run.name: config.table() for run, config in job.configs.items()}
    return checksum({"configs": configs, "corpus": job.stem, "device": str(best_device())})


def _sample(job: Reproduction, size: int, out: Path) -> tuple[int, float]:
    """Write a parsed sample; the sentences of the whole corpus, and the seconds that parsing one takes."""
    text = out.with_suffix(".txt")
    if job.is_parsed:
        corpus = ParsedCorpus.open(job.corpus)
        write_first_rows(corpus, size, out)
        write_sentences(text, (row.sentence.tokens for row in ParsedCorpus.open(out)))
        sentences, to_parse = len(corpus), out.with_name("again.parsed")
    else:
        source = text_source(job.corpus)
        write_first_lines(source, size, text)
        first = [each for document in first_documents(source.sentences(), size) for each in document]
        sentences, to_parse = round(source.lines * len(first) / first[-1].line), out
    began = time.perf_counter()
    corpus, _ = parse_corpus(text_source(text, lines=True), to_parse)
    return min(sentences, job.sentences or sentences), (time.perf_counter() - began) / len(corpus)


def _learning(job: Reproduction, sample: ParsedCorpus, out: Path) -> tuple[float, Path | None]:
    """Seconds for a sentence and a pass of learning word vectors, 0 if none are; and the vectors to train on."""
    if job.vectors or not job.word_file:
        return 0.0, job.vectors
    config = Word2VecConfig(dim=job.word_dim, min_count=1, epochs=1)
    began = time.perf_counter()
    model = learn_model(sample, config, out.with_suffix(".state"))
    seconds = (time.perf_counter() - began) / len(sample)
    save_model(out, model)
    return seconds, out


def _training(config: TrainConfig, sample: ParsedCorpus) -> TrainingRate:
    """What a run takes, by a few steps on the sample."""
    found = estimate(config)
    words = min(len(count_words(sample)), config.words.vocabulary)
    learning = sum(VIEWS[name].learns for name in config.views.names)
    tables = learning * config.words.dim * (TRAINED in config.words.channels)
    return TrainingRate(1 / found.sentences_per_second, found.parameters + tables * (config.words.vocabulary - words))
