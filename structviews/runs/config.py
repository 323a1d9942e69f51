"""The settings of a training run, in the tables of ``config.toml``.

Views and objectives declare their own settings in their modules; a run has those of the ones that it uses.
Nothing here imports PyTorch before a name is looked up, which keeps ``--help`` fast.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import partial
from typing import Any, Self, cast

from structviews.errors import InputError
from structviews.kernels import BACKENDS
from structviews.objectives import OBJECTIVES
from structviews.pretrained.encoder_name import LAST, EncoderName
from structviews.registry import Registry
from structviews.runs import RUNS
from structviews.runs.which_vectors import Representation
from structviews.settings import (
    LARGEST_SEED,
    MOST_DIMENSIONS,
    MOST_EPOCHS,
    MOST_STEPS,
    Setting,
    Settings,
    setting,
    settings_of,
)
from structviews.views import VIEWS
from structviews.words import CONTEXTUAL, FIXED, TRAINED
from structviews.words.word_settings import MEAN, ZERO, Words

# Monitoring and file locations: settings that may differ between two runs that count as the same.
loose = partial(setting, compare=False)


@dataclass(frozen=True)
class Data(Settings):
    """What the run is trained on, and where it is saved."""

    corpus: str = setting(MISSING, "Parsed corpus.", path=True, show_default="the only *.parsed here")
    out: str = loose("", "The run's folder.", path=True, show_default="runs/VIEWS", flags="-o,--out")
    init_from: str = setting("", "Start from the weights and vocabulary of this run.", path=True, run=True)
    held_out: float = setting(
        0.05, "Share of documents held out for validation; from 1 on, a number of sentences: the first ones.", least=0
    )
    min_confidence: float = setting(
        0.0,
        "Leave out sentences whose parser is less sure, see parse --confidence: the least mean probability of the "
        "heads, and of the constituents.",
        least=0,
        most=1,
        rare=True,
    )
    perturbed: str = setting(
        "", "Output of structviews perturb for the corpus: further positives, and hard negatives.", path=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.held_out >= 1 and self.held_out % 1:
            raise InputError(f"held_out = {self.held_out}: give a share below 1, or a whole number of sentences")


@dataclass(frozen=True)
class Views(Settings):
    """The encoders.

    ``options`` has, by view, the settings of its own, from a table or an instance of its ``Config``.
    """

    names: tuple[str, ...] = setting(MISSING, "Comma-separated views, such as dep,const.", flat="views")
    hidden: int = setting(600, "Dimension of each view's vector.", least=1, most=MOST_DIMENSIONS)
    initialisation: str = setting("xavier", "Weight initialisation: xavier or he.", choices=("xavier", "he"), rare=True)
    gate_bias: float = setting(
        0.0,
        "Initial bias of a GRU's reset and update gates, and of the forget gate of a sequence's LSTM.",
        least=-1000,
        most=1000,
        rare=True,
    )
    tree_backend: str = loose(
        "level",
        "Implementation of the tree encoders: level, dgl (needs structviews[dgl]) or naive (slow).",
        choices=BACKENDS,
        rare=True,
    )
    options: Mapping[str, Settings] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.names:
            raise InputError("no views: name some, such as dep,const")
        if not any(VIEWS[name].learns for name in self.names):
            raise InputError(f"views {','.join(self.names)}: learn nothing: add one that does, such as dep")
        classes = {name: VIEWS[name].Config for name in self.names}
        object.__setattr__(self, "options", _built("views", classes, self.options, "not a view of this run"))


@dataclass(frozen=True)
class ObjectiveChoice(Settings):
    """The training objective and its context.

    ``options`` has, by the objective's name, the settings of its own, from a table or an instance of its ``Config``.
    """

    name: str = setting("pairwise", "Training objective.", flat="objective")
    context: int = setting(1, "Largest distance between a sentence and its context sentences.", least=1, most=1000)
    across_documents: bool = setting(False, "Whether contexts cross the ends of documents.", file_only=True)
    options: Mapping[str, Settings] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        classes = {self.name: OBJECTIVES[self.name].Config}
        own = _built("objective", classes, self.options, f"the objective is {self.name!r}")
        object.__setattr__(self, "options", own)

    @property
    def reads_neighbours(self) -> bool:
        """Whether it learns from which sentences are neighbours in a text."""
        return bool(OBJECTIVES[self.name].reads_neighbours(self.options[self.name]))


def _built(
    table: str, classes: Mapping[str, type[Settings]], options: Mapping[str, Any], others: str
) -> dict[str, Settings]:
    """The own settings of views or an objective, by name, from tables or instances; ``others`` says what is wrong."""
    for name in options:
        if name not in classes:
            raise InputError(f"[{table}.{name}]: {others}: remove the table")
    own = {name: options.get(name, {}) for name in classes}
    return {
        name: each if isinstance(each, Settings) else classes[name].from_table(each, f"[{table}.{name}]")
        for name, each in own.items()
    }


@dataclass(frozen=True)
class Optimisation(Settings):
    """Batches, optimiser, duration and precision."""

    batch_size: int = setting(400, "Sentences per batch.", least=2, most=1_000_000)
    accumulate: int = setting(
        1,
        "Batches per step, each with its own negatives; their gradients are averaged.",
        least=1,
        most=10_000,
        rare=True,
    )
    gather_negatives: bool = setting(
        False, "With torchrun, use all ranks' sentences as negatives.", flags="--gather-negatives", rare=True
    )
    epochs: int = setting(5, "Passes over the corpus.", least=1, most=MOST_EPOCHS)
    steps: int = setting(0, "Stop after this many steps; 0 for no limit.", least=0, most=MOST_STEPS)
    lr: float = setting(5e-4, "Learning rate of Adam.", above=0, most=1000)
    dense_adam: bool = setting(
        False,
        "Plain Adam: also update vectors of words that are not in the batch, by their moments.",
        flags="--dense-adam",
        rare=True,
    )
    clip: float = setting(5.0, "Maximum gradient norm per channel.", above=0, most=1e9, rare=True)
    clip_by: str = setting(
        "channel",
        "Clip the gradient norm of each channel, or of each tensor.",
        choices=("channel", "tensor"),
        file_only=True,
    )
    batch_order: str = setting(
        "random", "Order of an epoch's batches: random, or corpus.", choices=("random", "corpus"), file_only=True
    )
    seed: int = setting(1, "Random seed.", least=0, most=LARGEST_SEED)
    precision: str = setting(
        "auto", "auto, fp32 or bf16; auto picks bf16 where it is faster.", choices=("auto", "fp32", "bf16")
    )


@dataclass(frozen=True)
class Monitoring(Settings):
    """Validation, logging and checkpoints."""

    validate_every: int = setting(
        500, "Steps between validations; each epoch also ends with one.", least=1, most=MOST_STEPS, rare=True
    )
    log_every: int = setting(10, "Steps between log lines.", least=1, most=MOST_STEPS, rare=True)
    checkpoint_minutes: float = setting(
        10.0, "Minutes between checkpoints; an interruption always saves one.", above=0, most=1_000_000, rare=True
    )
    tensorboard: bool = loose(
        False, "Also log for TensorBoard (needs structviews[tensorboard]).", flags="--tensorboard", rare=True
    )
    eval_every: int = loose(0, "Score a similarity task every N steps; 0 for never.", least=0, most=MOST_STEPS)
    eval_task: str = loose("STS14", "Task that --eval-every scores.")
    eval_data: str = loose("", "Folder with SentEval's MR/, SICK/, STS/ and so on.", path=True)
    eval_parsed: str = loose(
        "", "Parsed corpus with that task's sentences.", path=True, show_default="parse them first", rare=True
    )


@dataclass(frozen=True)
class TrainConfig:
    """All settings of a training run, in the tables of ``config.toml``.

    Settings also have flat names, unique among all tables, like the flags: ``of``, ``flat`` and ``replaced`` use them.

    Raises:
        InputError: for incompatible settings.
    """

    data: Data
    words: Words
    views: Views
    objective: ObjectiveChoice
    optimisation: Optimisation
    monitoring: Monitoring
    representation: Representation

    def __post_init__(self) -> None:
        if not self.data.out:
            object.__setattr__(self, "data", replace(self.data, out=str(RUNS / "-".join(self.views.names))))
        channels, vectors = self.words.channels, self.words.vectors
        listed = ",".join(channels)
        if not channels or len(set(channels)) < len(channels):
            raise InputError(f"channels = {listed!r}: name each channel once")
        if FIXED in channels and not vectors:
            raise InputError(
                f"channels = {listed}: the channel {FIXED!r} needs word vectors: give a file with --vectors; "
                "`structviews vectors` can make one"
            )
        if vectors and FIXED not in channels:
            raise InputError(
                f"vectors = {vectors}: only the channel {FIXED!r} reads them: add --channels {FIXED} or "
                f"--channels {FIXED},{TRAINED}"
            )
        if self.words.unknown_words != ZERO and FIXED not in channels:
            raise InputError(
                f"unknown_words = {self.words.unknown_words}: only the channel {FIXED!r} has such words: leave it out, "
                f"or add --channels {FIXED}"
            )
        _check_encoder(self.words, self.views.names, self.objective.name)
        if self.data.perturbed:
            _check_pairs(self.data.perturbed, self.objective)
        for name in self.views.names if self.words.cut_off else ():
            if VIEWS[name].needs != "tokens":
                raise InputError(
                    f"cut_off = {self.words.cut_off}: the view {name!r} reads trees, which cannot be cut: leave it "
                    "out, or train only views that read words, such as seq"
                )
        self.representation.check_views((*self.views.names, *OBJECTIVES[self.objective.name].extra_names))
        if (every := self.monitoring.eval_every) and not self.monitoring.eval_data:
            raise InputError(f"eval_every = {every}: give the folder of SentEval's tasks with --eval-data")

    @property
    def reads_pieces(self) -> bool:
        """Whether a view reads the pieces of a pretrained encoder."""
        return any(VIEWS[name].reads_pieces for name in self.views.names)

    @classmethod
    def of(cls, source: str = "settings", /, **own: Any) -> Self:
        """From settings by flat name, such as ``corpus="x.parsed", views=("dep", "const"), hidden=300``.

        The ``source`` says where they come from, for messages. Raises InputError for an unknown or missing name, or an
        invalid value.
        """
        tables: dict[str, dict[str, Any]] = {each.name: {} for each in fields(cls)}
        for section, each in cls.settings():
            if each.flat in own:
                tables[section][each.name] = own.pop(each.flat)
            elif each.default is MISSING:
                raise InputError(f"{source}: the setting {each.flat!r} is missing")
        objective = tables["objective"].get("name", ObjectiveChoice.name)
        views = tables["views"]["names"] if isinstance(tables["views"]["names"], list | tuple) else ()
        chosen = [("objective", objective, OBJECTIVES[objective].Config)] if objective in OBJECTIVES else []
        chosen += [("views", name, VIEWS[name].Config) for name in views if name in VIEWS]
        belonging = set()
        for section, name, config in chosen:
            for each in settings_of(config):
                if each.flat in own:
                    tables[section].setdefault(name, {})[each.name] = own[each.flat]
                    belonging.add(each.flat)
        for flat in sorted(own.keys() - belonging):
            if objectives := having(OBJECTIVES, flat):
                raise InputError(
                    f"{flat} = {own[flat]!r}: the objective {objective!r} has no such setting: leave it out, or use "
                    f"the objective {' or '.join(objectives)}"
                )
            if others := having(VIEWS, flat):
                remedy = "leave it out, or add the view"
                raise InputError(f"{flat} = {own[flat]!r}: only for the view {' or '.join(others)}: {remedy}")
            common = ", ".join(each.flat for _, each in cls.settings())
            raise InputError(f"{source}: unknown setting {flat!r}: the settings are {common}")
        return cls.from_table(tables, "")

    @classmethod
    def from_table(cls, tables: Mapping[str, Any], source: str) -> Self:
        """From the tables of a TOML file, whose ``source`` is for messages; defaults for missing ones.

        Raises InputError for an unknown or missing name, or an invalid value.
        """
        classes = {each.name: cast("type[Settings]", each.type) for each in fields(cls)}
        for name, table in tables.items():
            if name not in classes:
                raise InputError(f"{source}: unknown table [{name}]: the tables are {', '.join(classes)}")
            if not isinstance(table, Mapping):
                raise InputError(
                    f"{source}: {name} = {table!r}: not a table: write [{name}] with its settings below it"
                )
        built: dict[str, Any] = {}
        for name, section in classes.items():
            table = dict(tables.get(name, {}))
            others: dict[str, Any] = {}
            if section in (Views, ObjectiveChoice):  # tables of views and objectives are below theirs
                inner = [key for key, value in table.items() if isinstance(value, Mapping)]
                others["options"] = {key: table.pop(key) for key in inner}
            built[name] = section.from_table(table, source and f"{source}: [{name}]", **others)
        try:
            return cls(**built)
        except InputError as error:
            raise InputError(f"{source}: {error}" if source else str(error)) from None

    @classmethod
    def settings(cls) -> Iterator[tuple[str, Setting]]:
        """The settings common to all runs, each with its table's name."""
        for section in fields(cls):
            for each in settings_of(cast("type[Settings]", section.type)):
                yield section.name, each

    def own_settings(self) -> Iterator[tuple[Setting, Any]]:
        """All settings of this run, each with its value."""
        for table in vars(self).values():
            for holder in (table, *getattr(table, "options", {}).values()):
                for each in settings_of(type(holder)):
                    yield each, getattr(holder, each.name)

    def flat(self) -> dict[str, Any]:
        """The values by flat name."""
        return {each.flat: value for each, value in self.own_settings()}

    def table(self) -> dict[str, Any]:
        """The tables of ``config.toml``."""
        return {
            name: section.table()
            | {key: own.table() for key, own in getattr(section, "options", {}).items() if own.table()}
            for name, section in vars(self).items()
        }

    def replaced(self, **changes: Any) -> Self:
        """A copy with other values, by flat name; a new objective or view starts with its default settings.

        Raises:
            InputError: as ``of``; also if a replaced objective or view had a setting that is not at its default.
        """
        objective = OBJECTIVES[changes.get("objective", self.objective.name)]
        configs = [objective.Config, *(VIEWS[name].Config for name in changes.get("views", self.views.names))]
        declared = {each.flat for config in configs for each in settings_of(config)}
        declared |= {each.flat for _, each in self.settings()}
        own = {e.flat: value for e, value in self.own_settings() if e.flat in declared or value != e.default}
        return self.of(**own | changes)

    def difference(self, other: "TrainConfig") -> str | None:
        """The flat name of the first setting that makes the other a different run; None if they are the same."""
        others = other.flat()
        differing = (e.flat for e, value in self.own_settings() if e.compare and others.get(e.flat) != value)
        return next(differing, None)


def having(registry: Registry[Any], flat: str) -> list[str]:
    """The registered views or objectives that have their own setting of this flat name."""
    return [name for name in registry if any(each.flat == flat for each in settings_of(registry[name].Config))]


def _check_pairs(perturbed: str, objective: ObjectiveChoice) -> None:
    """Raise InputError unless the objective can have further sentences behind those of a text."""
    if not OBJECTIVES[objective.name].takes_pairs:
        others = [name for name in OBJECTIVES if OBJECTIVES[name].takes_pairs]
        raise InputError(
            f"perturbed = {perturbed}: the objective {objective.name!r} cannot learn from perturbed sentences: "
            f"leave it out, or choose --objective {' or '.join(others)}"
        )
    if window := getattr(objective.options[objective.name], "window", 0):
        raise InputError(
            f"perturbed = {perturbed} with window = {window}: perturbed sentences have no place in the text: leave one "
            "of them out"
        )


def _check_encoder(words: Words, views: Sequence[str], objective: str) -> None:
    """Raise InputError unless there is a pretrained encoder where one is read, and the rest can read it too."""
    contextual, pieces = CONTEXTUAL in words.channels, [name for name in views if VIEWS[name].reads_pieces]
    named = [("encoder", words.encoder, contextual or bool(pieces))]
    named += [("word_pooling", words.pooling if words.pooling != MEAN else "", contextual)]
    for name, value, read in named:
        if value and not read:
            also = " and the view 'transformer' read" if name == "encoder" else " reads"
            raise InputError(
                f"{name} = {value}: only the channel {CONTEXTUAL!r}{also} it: leave it out, or add "
                f"--channels {CONTEXTUAL}"
            )
    if (contextual or pieces) and not words.encoder:
        reader = f"the view {pieces[0]!r}" if pieces else f"the channel {CONTEXTUAL!r}"
        raise InputError(
            f"{'views' if pieces else 'channels'} = {','.join(views if pieces else words.channels)}: {reader} needs a "
            "pretrained encoder: give a folder, or a name on the Hugging Face Hub, with --encoder"
        )
    if pieces:
        _check_pieces(words, views, pieces[0], objective)
    if not contextual:
        return
    EncoderName.of(words.encoder)
    if "words" in OBJECTIVES[objective].needs:
        raise InputError(
            f"objective = {objective}: predicts words of a vocabulary, and the channel {CONTEXTUAL!r} "
            "has none: choose another objective, such as pairwise, or other channels"
        )
    for name in views:
        if VIEWS[name].reads_frequencies:
            raise InputError(
                f"views = {','.join(views)}: {name!r} weights words by their frequency, and the channel "
                f"{CONTEXTUAL!r} has no vocabulary: leave it out, or choose other channels"
            )


def _check_pieces(words: Words, views: Sequence[str], view: str, objective: str) -> None:
    """Raise InputError unless the settings of words suit a view that reads none."""
    listed = ",".join(views)
    if len(words.channels) > 1:
        raise InputError(
            f"channels = {','.join(words.channels)}: the view {view!r} reads no channel's words, and would be trained "
            "once for each: name one channel"
        )
    if CONTEXTUAL not in words.channels and EncoderName.of(words.encoder).layers != LAST:
        raise InputError(
            f"encoder = {words.encoder}: the view {view!r} reads the last layer, and only the channel {CONTEXTUAL!r} "
            "reads others: leave them out"
        )
    reads_words = any(VIEWS[name].learns and not VIEWS[name].reads_pieces for name in views)
    if words.channels == (TRAINED,) and not reads_words:
        for name in views:
            if not VIEWS[name].learns:
                raise InputError(
                    f"views = {listed}: {name!r} reads the words that another view learns, and none of them learns "
                    f"any: leave it out, or add --channels {FIXED}"
                )
        if "words" in OBJECTIVES[objective].needs:
            raise InputError(
                f"objective = {objective}: predicts words of a vocabulary, and no view of {listed} has one: choose "
                "another objective, such as pairwise, or add a view"
            )
