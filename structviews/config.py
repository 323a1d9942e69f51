"""Settings of a training run: checked, written to ``config.toml``, read back."""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from structviews import kernels, objectives, shipped, views
from structviews.cache import MODELS, ParsedCorpus, write_whole
from structviews.device import PRECISIONS
from structviews.errors import InputError
from structviews.initialisation import SCHEMES
from structviews.objectives.consensus import AGREEMENTS, TEMPERATURES
from structviews.representation import Representation
from structviews.word_vectors import WordVectors

CONFIG = "config.toml"
# The key of config.toml that says what kind of run it is, where it is not a trained one.
KIND = "kind"
# The table of config.toml that says what the corpus was; not a setting.
PARSED = "parsed"
TRAINED, FIXED = CHANNELS = ("trained", "fixed")


@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides what is trained.

    Attributes:
        corpus: folder of the parsed corpus.
        views: names of the views; one may stand twice.
        out: the run's folder; ``runs/`` and the views' names by default.
        init_from: a run whose weights and words training begins with; none by default.
        channels: where word vectors come from: ``trained``, ``fixed``, or both, each a complete model.
        vectors: file of the word vectors of ``fixed``.
        objective: name of the objective.
        context: how far apart in a document two sentences are one another's context.
        self_score: what an anchor's score with itself is (``masked`` or ``zero``).
        mask_duplicates: sentences that equal the anchor or one of its contexts are no candidates.
        agreement: of which views' cosines agreement is the sum (``multi``, ``single``, ``multi+single``,
            ``within`` or ``skip``).
        include_self: a sentence is among its own contexts and candidates.
        temperature: what agreement is divided by, or where that starts if it is learnt.
        learn_temperature: whether it is.
        power_iterations: to find the first principal component, which is removed; 0 leaves it in.
        negatives: how many words stand against each word that is predicted.
        parseval: strength of the step that keeps the decoder orthonormal; 0 for none.
        hidden: length of each view's vector.
        words_dim: length of a word vector of ``trained``; those of ``fixed`` have the file's.
        words_spread: word vectors start uniformly between its negative and it; 0 for Xavier's, which
            those of ``bow`` have in any case.
        initialisation: how the weights of views start, ``xavier`` or ``he``.
        gate_bias: where the biases of a GRU's reset and update gates start.
        vocabulary: how many words are learnt, the most frequent ones.
        batch_size: consecutive sentences in a batch.
        accumulate: batches a step; each is scored by itself, and their gradients are averaged.
        gather_negatives: whether an anchor's candidates are the sentences of all ranks' batches.
        epochs: passes over the corpus.
        steps: stop after so many steps, if the epochs are not over before; 0 for no such limit.
        lr: learning rate of Adam.
        clip: largest norm of a channel's gradient.
        seed: of everything random.
        precision: ``fp32``, ``bf16``, or ``auto``: bf16 where the machine gains from it.
        tree_backend: what runs the tree encoders, see ``kernels.run``; their vectors are the same.
        held_out: share of the documents that validation gets.
        validate_every: steps between validations; each epoch's end and the last step have one too.
        log_every: steps between lines of the log.
        checkpoint_minutes: time between checkpoints; an interruption always leaves one.
        tensorboard: write TensorBoard's event files beside the log.
        eval_every: steps between scores of ``eval_task``; 0 for none.
        eval_task: a similarity task, such as ``STS14``.
        eval_data: folder with SentEval's tasks.
        eval_parsed: parsed corpus with the task's sentences; they are parsed where there is none.
        pooling, remove_component, normalise, join, similarity_pooling, similarity_join: which vectors the
            trained run gives, see ``Representation``.
    """

    corpus: str
    views: tuple[str, ...]
    out: str = field(default="", compare=False)  # where a run lies is not what it is
    init_from: str = ""
    channels: tuple[str, ...] = (TRAINED,)
    vectors: str = field(default="", compare=False)  # where a file lies is not what it is
    objective: str = "pairwise"
    context: int = 1
    self_score: str = "masked"
    mask_duplicates: bool = False
    agreement: str = "multi"
    include_self: bool = True
    temperature: float = 1.0
    learn_temperature: bool = True
    power_iterations: int = 5
    negatives: int = 1
    parseval: float = 0.01
    hidden: int = 600
    words_dim: int = 300
    words_spread: float = 0.5
    initialisation: str = "xavier"
    gate_bias: float = 0.0
    vocabulary: int = 50_000
    batch_size: int = 400
    accumulate: int = 1
    gather_negatives: bool = False
    epochs: int = 5
    steps: int = 0
    lr: float = 5e-4
    clip: float = 5.0
    seed: int = 1
    precision: str = "auto"
    tree_backend: str = field(default="level", compare=False)  # how it is computed is not what it is
    held_out: float = 0.05
    validate_every: int = 500
    log_every: int = 10
    checkpoint_minutes: float = 10.0
    # What is looked at changes nothing.
    tensorboard: bool = field(default=False, compare=False)
    eval_every: int = field(default=0, compare=False)
    eval_task: str = field(default="STS14", compare=False)
    eval_data: str = field(default="", compare=False)
    eval_parsed: str = field(default="", compare=False)
    pooling: str = "vector"
    remove_component: bool = False
    normalise: bool = False
    join: str = "concatenation"
    similarity_pooling: str = ""
    similarity_join: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "views", tuple(self.views))
        object.__setattr__(self, "channels", tuple(self.channels))
        object.__setattr__(self, "lr", float(self.lr))
        object.__setattr__(self, "out", self.out or f"runs/{'-'.join(self.views)}")
        for name in self.views:
            if name not in views.names():
                raise InputError(f"unknown view {name!r}: the views are {', '.join(views.names())}")
        self._check_channels()
        if self.objective not in objectives.names():
            raise InputError(f"unknown objective {self.objective!r}: one of {', '.join(objectives.names())}")
        self._check_objective_options()
        _one_of("precision", self.precision, PRECISIONS)
        _one_of("self_score", self.self_score, ("masked", "zero"))
        _one_of("agreement", self.agreement, tuple(AGREEMENTS))
        _one_of("initialisation", self.initialisation, SCHEMES)
        _one_of("tree_backend", self.tree_backend, tuple(kernels.BACKENDS))
        for name in ("context", "hidden", "words_dim", "vocabulary", "accumulate", "epochs"):
            _at_least(name, getattr(self, name), 1)
        for name in ("validate_every", "log_every"):
            _at_least(name, getattr(self, name), 1)
        _at_least("negatives", self.negatives, 1)
        _at_least("batch_size", self.batch_size, 2)
        _at_least("steps", self.steps, 0)
        self._check_evaluation()
        _at_least("seed", self.seed, 0)
        _at_least("power_iterations", self.power_iterations, 0)
        lowest, highest = TEMPERATURES
        if not lowest <= self.temperature <= highest:
            raise InputError(f"temperature = {self.temperature}: give a number from {lowest} to {highest}")
        if not 0 <= self.parseval < 1:
            raise InputError(f"parseval = {self.parseval}: give a number below 1, or 0 for no such step")
        for name in ("lr", "clip", "checkpoint_minutes"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InputError(f"{name} = {getattr(self, name)}: give a number above 0")
        if not abs(self.gate_bias) < float("inf"):
            raise InputError(f"gate_bias = {self.gate_bias}: give a number, such as 1")
        if not 0 <= self.words_spread < float("inf"):
            raise InputError(f"words_spread = {self.words_spread}: give 0 for Xavier's, or a number above")
        if not 0 <= self.held_out < 1:
            raise InputError(f"held_out = {self.held_out}: give a share of the documents, from 0 to below 1")
        _ = self.representation  # checks its own fields

    def _check_evaluation(self) -> None:
        _at_least("eval_every", self.eval_every, 0)
        if self.eval_every and not self.eval_data:
            raise InputError(f"eval_every = {self.eval_every}: name the folder of SentEval's tasks with --eval-data")

    @property
    def representation(self) -> Representation:
        """Which vectors the trained run gives."""
        shared = {each.name for each in fields(Representation)} & vars(self).keys()
        return Representation(**{name: getattr(self, name) for name in shared})

    @property
    def objective_options(self) -> dict[str, Any]:
        """What the objective's constructor is given."""
        return {name: getattr(self, name) for name in objectives.options(self.objective)}

    def _check_channels(self) -> None:
        for name in self.channels:
            _one_of("channel", name, CHANNELS)
        if not self.channels or len(set(self.channels)) < len(self.channels):
            raise InputError(f"channels = {','.join(self.channels)!r}: name each that is wanted, once")
        if FIXED in self.channels and not self.vectors:
            raise InputError(
                f"channels = {','.join(self.channels)}: the channel {FIXED!r} needs word vectors: give a file with "
                "--vectors, from elsewhere or from `structviews vectors`"
            )
        if self.vectors and FIXED not in self.channels:
            raise InputError(
                f"vectors = {self.vectors}: only the channel {FIXED!r} reads them: give --channels {FIXED}, or "
                f"{FIXED},{TRAINED}, too"
            )

    def _check_objective_options(self) -> None:
        """Refuse settings that only other objectives have."""
        defaults = {f.name: f.default for f in fields(self)}
        for name in objectives.names():
            for option in set(objectives.options(name)) - set(self.objective_options):
                if getattr(self, option) != defaults[option]:
                    having = [other for other in objectives.names() if option in objectives.options(other)]
                    raise InputError(
                        f"{option} = {getattr(self, option)!r}: the objective {self.objective!r} has no such setting; "
                        f"leave it out, or take {' or '.join(having)} as the objective"
                    )

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], place: str) -> Self:
        """From names and values, as a TOML file or flags give them.

        Args:
            settings: the table ``[parsed]`` and the kind of run in a run's file are passed over.
            place: file that they are from, for messages.

        Raises:
            InputError: for an unknown name, a missing one, or a value of the wrong type.
        """
        known = {f.name: f.type for f in fields(cls)}
        settings = {name: value for name, value in settings.items() if name not in (PARSED, KIND)}
        for name, value in settings.items():
            if name not in known:
                raise InputError(f"{place}: unknown setting {name!r}: the settings are {', '.join(known)}")
            if not _fits(value, known[name]):
                raise InputError(f"{place}: {name} = {value!r} is not of type {_type_name(known[name])}")
        for name in ("corpus", "views"):
            if name not in settings:
                raise InputError(f"{place}: the setting {name!r} is missing")
        return cls(**settings)


@dataclass(frozen=True)
class Parsed:
    """What a run was trained on, so that it can be told whether something else fits.

    Attributes:
        fingerprint: hash of the corpus' manifest.
        parser: the parser's own description.
        tokeniser: the tokeniser's.
        vectors: fingerprint and dimension of the fixed channel's word vectors; empty without one.
        models: folder of the parser's models, where one was named; else empty.
    """

    fingerprint: str = ""
    parser: dict[str, Any] = field(default_factory=dict)
    tokeniser: dict[str, Any] = field(default_factory=dict)
    vectors: dict[str, Any] = field(default_factory=dict)
    models: str = ""

    def __post_init__(self) -> None:
        described = (
            each[name] for each in (self.parser, self.tokeniser) for name in ("name", "language") if name in each
        )
        for text in (self.fingerprint, self.models, *described):
            if not isinstance(text, str):
                raise TypeError(f"{text!r}: not a text")

    @classmethod
    def of(cls, corpus: ParsedCorpus, vectors: WordVectors | None = None) -> Self:
        about = {"fingerprint": vectors.fingerprint, "dim": vectors.dim} if vectors else {}
        manifest = corpus.manifest
        return cls(corpus.fingerprint, corpus.parser, manifest["tokeniser"], about, manifest.get(MODELS, ""))


def save_config(run: Path, config: TrainConfig, parsed: Parsed) -> None:
    """Write ``config.toml``."""
    write_settings(run, asdict(config) | {PARSED: asdict(parsed)})


def load_config(path: Path) -> tuple[TrainConfig, Parsed]:
    """Read a ``config.toml``, of a run (with what it was trained on) or written by hand.

    Raises:
        InputError: if it cannot be read, is not TOML, or has unknown or wrong settings.
    """
    settings = _read_toml(path)
    try:
        parsed = Parsed(**settings.get(PARSED, {}))
    except (AttributeError, TypeError):
        raise InputError(f"{path}: [{PARSED}] is not what train writes: leave it out") from None
    return TrainConfig.from_settings(settings, str(path)), parsed


def run_kind(run: Path) -> str:
    """What kind of run a folder holds: ``trained``, or what its ``config.toml`` says.

    Raises:
        InputError: if it is not a run's folder.
    """
    return str(read_settings(run).get(KIND, "trained"))


def run_views(run: Path) -> list[str]:
    """The views of a run, with those that its objective left behind; of a joined run those of all its members.

    Raises:
        InputError: if it is not a run's folder, or its settings have no list ``views``.
    """
    settings = read_settings(run)
    views = settings.get("views")
    if not isinstance(views, list) or not all(isinstance(view, str) for view in views):
        raise InputError(f"{run / CONFIG}: views is {views!r}, not a list of names; restore the file or train again")
    objective = settings.get("objective")
    return [*views, *(objectives.extra_names(objective) if objective in objectives.names() else ())]


def read_settings(run: Path) -> dict[str, Any]:
    """What a run's ``config.toml`` says.

    Raises:
        InputError: if it is not a run's folder.
    """
    if not (run / CONFIG).is_file():
        if run == shipped.FOLDER:
            raise InputError(shipped.MISSING)
        raise InputError(f"{run}: not a run: it has no {CONFIG}; give a folder that structviews train made")
    return _read_toml(run / CONFIG)


def write_settings(run: Path, settings: Mapping[str, Any]) -> None:
    """Write a run's ``config.toml``; tables within tables are TOML tables."""
    # Tuples are arrays in TOML. Written here because a training machine needs no package for it:
    # TOML's strings, numbers, booleans and arrays are JSON's.
    text = _toml(settings)
    write_whole(run / CONFIG, lambda file: file.write(text.encode("utf-8")))


def load_run(run: Path) -> tuple[TrainConfig, Parsed]:
    """The configuration of a run's folder.

    Raises:
        InputError: if it is not a run's folder.
    """
    read_settings(run)
    return load_config(run / CONFIG)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}: give a configuration that train wrote") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not TOML: {error}") from None


def _toml(table: Mapping[str, Any], name: str = "") -> str:
    lines = [f"{_key(key)} = {_text(value)}\n" for key, value in table.items() if not isinstance(value, dict)]
    text = (f"\n[{name}]\n" if name else "") + "".join(lines)
    return text + "".join(_toml(v, f"{name}.{_key(k)}".lstrip(".")) for k, v in table.items() if isinstance(v, dict))


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _text(key)


def _text(value: Any) -> str:
    # TOML has no escapes for the halves of a character beyond U+FFFF, which JSON would write.
    return json.dumps(value, ensure_ascii=False)


def _fits(value: Any, kind: Any) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind in (int, str, bool):
        return type(value) is kind
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)


def _type_name(kind: Any) -> str:
    return {int: "whole number", float: "number", str: "text", bool: "true or false"}.get(kind, "list of texts")


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"unknown {name} {value!r}: one of {', '.join(known)}")


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise InputError(f"{name} = {value}: give at least {least}")
