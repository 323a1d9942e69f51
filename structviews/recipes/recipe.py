"""A recipe: everything that a row of a paper's table takes, in a TOML file of its own below ``rows``."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from structviews.errors import InputError, unknown
from structviews.evaluation.scores.published import Published, papers, published
from structviews.runs.config import TrainConfig
from structviews.runs.which_vectors import JOINS, Representation
from structviews.runtime.documents import read_toml
from structviews.settings import LARGEST_SEED, MOST_DIMENSIONS, Settings, setting, settings_of
from structviews.words import FIXED, TRAINED

ROWS = Path(__file__).with_name("rows")
REMEDY = "see the recipes in structviews/recipes/rows"
# Settings of training that belong to whoever uses the recipe.
OWN = ("corpus", "vectors", "out", "seed")


@dataclass(frozen=True)
class Source(Settings):
    """Where the row stands, and how this recipe relates to it."""

    paper: str = setting(MISSING, "Key of the paper in published.toml, which has its authors and title.")
    place: str = setting(MISSING, "Table and row, as people say it.")
    published: tuple[str, ...] = setting((), "Rows of published.toml, each as PAPER TABLE: MODEL; CORPUS.")
    places: tuple[str, ...] = setting((), "Places of places.toml whose figures are not in published.toml.")
    open: str = setting("", "What the paper leaves open, and what we chose.")
    code: str = setting("", "Facts from the authors' published code that are not in the paper.")
    differs: tuple[str, ...] = setting((), "What this recipe does otherwise than the paper, a line each.")


@dataclass(frozen=True)
class TrainingText(Settings):
    """The corpus of the row."""

    name: str = setting(MISSING, "Name of the corpus.")
    sentences: int = setting(0, "Number of sentences that the paper states; 0 if none.", least=0)


@dataclass(frozen=True)
class WordFile(Settings):
    """The word vectors of the row."""

    name: str = setting(MISSING, "Name of the vectors.")
    dim: int = setting(300, "Their dimension.", least=1, most=MOST_DIMENSIONS)
    expand: bool = setting(False, "Expand the trained vocabulary from them after training.")


@dataclass(frozen=True)
class SecondHalf(Settings):
    """How the row was evaluated."""

    protocol: str = setting("senteval", "The evaluation protocol.")
    transductive: bool = setting(False, "Fit the removed component on each task's own sentences.")
    tasks: tuple[str, ...] = setting((), "The tasks of the row; all if empty.")
    ensemble: bool = setting(False, "Average the predictions of the members.")


@dataclass(frozen=True)
class Member(Settings):
    """A run of a recipe of several."""

    recipe: str = setting(MISSING, "Recipe that trains the run.")
    view: str = setting("", "The only view of the run that is joined; all if empty.")
    seed: int = setting(1, "Random seed of the run.", least=0, most=LARGEST_SEED)

    @property
    def folder(self) -> str:
        """Name of the run's folder."""
        return self.recipe + (f"-seed{self.seed}" if self.seed != 1 else "")


TABLES = ("source", "corpus", "vectors", "settings", "evaluation", "join", "similarity_join", "members")


@dataclass(frozen=True)
class Recipe:
    """A row of a paper's table: a model, trained and evaluated.

    Attributes:
        name: of its file.
        source: where the row stands.
        corpus: what the row was trained on.
        vectors: the word vectors that it needs; None if none, or if its members say which.
        settings: settings of ``TrainConfig`` by flat name; empty for a joined model.
        evaluation: how the row was evaluated.
        members: the joined runs; empty for a single run.
        join, similarity_join: see ``join_runs``.

    Raises:
        InputError: if its parts do not go together.
    """

    name: str
    source: Source
    corpus: TrainingText
    vectors: WordFile | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    evaluation: SecondHalf = SecondHalf()
    members: tuple[Member, ...] = ()
    join: str = "concatenation"
    similarity_join: str = ""

    def __post_init__(self) -> None:
        if self.source.paper not in papers():
            raise unknown("paper", self.source.paper, papers())
        for row in self.source.published:
            published_row(row)
        if bool(self.settings) == bool(self.members):
            raise InputError("neither or both of [settings] and members: give one of them")
        for key, value, known in (("join", self.join, JOINS), ("similarity_join", self.similarity_join, ("", *JOINS))):
            if value not in known:
                raise unknown(key, value, filter(None, known))
        for key in OWN:
            if key in self.settings:
                raise InputError(f"[settings] {key}: not a recipe's: leave it out, users give it with --{key}")
        if self.settings and self.evaluation.transductive and not self.settings.get("remove_component"):
            raise InputError("[evaluation] transductive: no component is removed: set remove_component in [settings]")
        self._check_words()

    def _check_words(self) -> None:
        """Raise InputError unless it names word vectors exactly if its settings, or an expansion, read some."""
        channels = self.channels
        if FIXED in channels and not self.vectors:
            raise InputError(f"[settings] channels: {FIXED} words need a table [vectors] with their name: add it")
        if self.vectors and self.vectors.expand and TRAINED not in channels:
            raise InputError("[vectors] expand: no channel of trained words to expand: leave it out")
        if self.vectors and not self.vectors.expand and FIXED not in channels:
            raise InputError("[vectors]: nothing reads them: add the channel fixed or expand = true, or remove them")

    @classmethod
    def load(cls, name: str) -> Self:
        """Read a recipe.

        Raises:
            InputError: if no recipe has this name, or its file or that of a member is wrong.
        """
        file = file_of(name)
        content = read_toml(file, REMEDY)
        recipe = cls.of(name, content, str(file))
        for i, member in enumerate(recipe.members):
            if member.recipe not in names():
                raise InputError(f"{file}: members[{i}]: {unknown('recipe', member.recipe, names())}")
            if cls.load(member.recipe).members:
                raise InputError(f"{file}: members[{i}]: {member.recipe} is joined itself: name its members")
        return recipe

    @classmethod
    def of(cls, name: str, content: Mapping[str, Any], place: str) -> Self:
        """From the tables of a TOML file.

        Args:
            name: the recipe's name.
            content: its tables; see ``rows``.
            place: the file, for messages.

        Raises:
            InputError: for an unknown or missing key, or a wrong value.
        """
        for key in content:
            if key not in TABLES:
                raise InputError(f"{place}: unknown key {key!r}: the keys are {', '.join(TABLES)}")
        given = dict(content)
        for key, kind in (("source", Source), ("corpus", TrainingText), ("vectors", WordFile)):
            if key in given or key != "vectors":
                given[key] = kind.from_table(_table(given.get(key, {}), f"{place}: [{key}]"), f"{place}: [{key}]")
        if "evaluation" in given:
            where = f"{place}: [evaluation]"
            given["evaluation"] = SecondHalf.from_table(_table(given["evaluation"], where), where)
        given["settings"] = _table(given.get("settings", {}), f"{place}: [settings]")
        given["members"] = tuple(_members(given.get("members", []), place))
        try:
            return cls(name, **given)
        except InputError as error:
            raise InputError(f"{place}: {error}") from None

    @cached_property
    def runs(self) -> "dict[str, tuple[Recipe, int]]":
        """By folder name, the recipe and the seed of each run that it takes, each once."""
        if not self.members:
            return {self.name: (self, 1)}
        return {member.folder: (type(self).load(member.recipe), member.seed) for member in self.members}

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels of a single run; none of a joined one."""
        return tuple(self.settings.get("channels", (TRAINED,))) if self.settings else ()

    @property
    def reads_vectors(self) -> bool:
        """Whether a run of it needs a file of word vectors."""
        return any(recipe.vectors for recipe, _ in self.runs.values())

    def config(self, **given: Any) -> TrainConfig:
        """The settings of a single run's training.

        Args:
            **given: settings by flat name, which go before the recipe's.

        Raises:
            InputError: for an invalid setting.
        """
        return TrainConfig.from_flat({**self.settings, **given}, f"recipe {self.name}")

    @property
    def representation(self) -> dict[str, Any]:
        """The whole representation of the row, see ``Representation``; of joined runs, each has its own."""
        own = {} if self.members else {each.flat: each.default for each in settings_of(Representation)}
        own = {name: self.settings.get(name, default) for name, default in own.items()}
        return own | {"transductive": self.evaluation.transductive}

    @property
    def figures(self) -> dict[str, Published]:
        """The published figures by measure."""
        found: dict[str, Published] = {}
        for row in self.source.published:
            for each in published_row(row):
                found.setdefault(each.measure, each)
        return found

    @property
    def credit(self) -> str:
        """Authors, year and title of the paper."""
        paper = papers()[self.source.paper]
        return f"{paper['authors']} ({paper['year']}): {paper['title']}"

    @property
    def summary(self) -> str:
        """Its objective and views, or its members, in short."""
        if self.members:
            return " + ".join(f"{each.folder}{each.view and f':{each.view}'}" for each in self.members)
        return f"{self.settings['objective']}: {', '.join(self.settings['views'])}"


def _table(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{place}: not a table: write its keys below [...]")
    return value


def _members(value: object, place: str) -> Iterator[Member]:
    if not isinstance(value, list):
        raise InputError(f'{place}: members: not a list: write members = [{{ recipe = "NAME" }}, ...]')
    for i, each in enumerate(value):
        where = f"{place}: members[{i}]"
        yield Member.from_table(_table(each, where), where)


def published_row(row: str) -> list[Published]:
    """The figures of a row of published.toml.

    Args:
        row: such as ``Q 1: MC-QT; BookCorpus``: paper, table, model, and the corpus if the row has one.

    Raises:
        InputError: if there is none.
    """
    where, _, what = row.partition(": ")
    paper, _, table = where.partition(" ")
    model, _, corpus = what.partition("; ")
    of_table = [each for each in published() if (each.paper, each.table) == (paper, table)]
    found = [each for each in of_table if (each.model, each.corpus) == (model, corpus)]
    if not found:
        known = dict.fromkeys(f"{where}: {each.model}{each.corpus and f'; {each.corpus}'}" for each in of_table)
        raise unknown(
            "published row", row, known or sorted({f"{each.paper} {each.table}: ..." for each in published()})
        )
    return found


def names() -> list[str]:
    """The names of the recipes, sorted."""
    return sorted(file.stem for file in ROWS.glob("*.toml"))


def file_of(name: str) -> Path:
    """A recipe's file.

    Raises:
        InputError: if no recipe has this name.
    """
    if name not in names():
        raise unknown("recipe", name, names(), "choose one that structviews recipes lists")
    return ROWS / f"{name}.toml"
