"""A recipe: everything that a row of a paper's table takes, in one TOML file for each paper below ``rows``.

A file has a table for each recipe. With ``parent``, it says only what differs from another recipe, of any file: each of
its settings goes before the parent's, and ``without`` lists those of the parent that it has not. Where the row stands
is never the parent's; and a recipe with members has only the corpus, the evaluation and the joins of a parent, as the
members have the rest.
"""

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self

from structviews.errors import unknown
from structviews.evaluation.scores.published import Published, papers, published
from structviews.runs.config import TrainConfig
from structviews.runs.settings_file import toml_text, toml_value
from structviews.runs.which_vectors import FITTED_ON, Representation
from structviews.runtime.documents import read_toml
from structviews.settings import LARGEST_SEED, MOST_DIMENSIONS, Settings, setting, settings_of
from structviews.words import FIXED, TRAINED

ROWS = Path(__file__).with_name("rows")
STATED = Path(__file__).with_name("stated.toml")


@dataclass(frozen=True)
class Source(Settings):
    """Where the row stands, and how this recipe relates to it."""

    paper: str = setting(MISSING, "Key of the paper in published.toml, which has its authors and title.")
    place: str = setting(MISSING, "Table and row, as they are cited.")
    published: tuple[str, ...] = setting((), "Rows of published.toml, each as PAPER TABLE: MODEL; CORPUS.")
    places: tuple[str, ...] = setting((), "Places of places.toml whose figures are not in published.toml.")
    open: str = setting("", "What the paper leaves open, and what we chose.")
    code: str = setting("", "Facts from the authors' published code that are not in the paper.")
    scripts: str = setting("", "Key of the paper whose scripts made the row, if it is another one.")
    differs: tuple[str, ...] = setting(
        (), "What this recipe does otherwise than the paper, beside its settings, a line each; see stated.toml."
    )


@dataclass(frozen=True)
class TrainingText(Settings):
    """The corpus of the row."""

    name: str = setting(MISSING, "Name of the corpus.")
    sentences: int = setting(0, "Number of sentences that the paper states; 0 if none.", least=0)
    parsers: str = setting("", "The paper's parsers, if it has trees.")


@dataclass(frozen=True)
class WordFile(Settings):
    """The word vectors of the row."""

    name: str = setting(MISSING, "Name of the vectors.")
    dim: int = setting(300, "Their dimension.", least=1, most=MOST_DIMENSIONS)
    expand: bool = setting(False, "Expand the trained vocabulary from them after training.")
    expand_from: str = setting("", "Name of other vectors to expand from.")


@dataclass(frozen=True)
class SecondHalf(Settings):
    """How the row was evaluated."""

    protocol: str = setting("senteval", "The evaluation protocol.")
    transductive: str = setting(
        "",
        "Fit the removed component on each task's sentences (task), or on each of its splits and sides alone (part).",
        choices=("", *FITTED_ON),
    )
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


# What a recipe has beside the keys of its source.
TABLES: dict[str, type[Settings]] = {"corpus": TrainingText, "vectors": WordFile, "evaluation": SecondHalf}
OF_SOURCE = tuple(each.name for each in fields(Source))
PLACES = ("place", "published", "places")  # what of a parent's source is not a recipe's own
# What members have instead of the recipe that joins them.
OF_MEMBERS = ("open", "code", "differs", "vectors", "settings")


@dataclass(frozen=True)
class Recipe:
    """A row of a paper's table: a model, trained and evaluated."""

    name: str
    source: Source
    corpus: TrainingText
    vectors: WordFile | None = None  # None if it needs none, or if its members say which
    settings: Mapping[str, Any] = field(default_factory=dict)  # of TrainConfig by flat name; empty for a joined model
    evaluation: SecondHalf = SecondHalf()
    members: tuple[Member, ...] = ()  # the joined runs; empty for a single run
    join: str = "concatenation"  # see ``join_runs``
    similarity_join: str = ""

    @classmethod
    def load(cls, name: str) -> Self:
        """Read a recipe; raises InputError if none has this name, or if it has a setting that there is not."""
        if name not in _rows(ROWS):
            raise unknown("recipe", name, names(), "choose one that structviews recipes lists")
        content, place = _resolved(name), f"recipe {name}"
        values = {key: value for key, value in content.items() if key not in OF_SOURCE}
        values["source"] = Source.from_table({key: content[key] for key in OF_SOURCE if key in content}, place)
        for key, kind in TABLES.items():
            if key in values:
                values[key] = kind.from_table(values[key], f"{place}: {key}")
        values["members"] = tuple(Member.from_table(each, f"{place}: members") for each in values.get("members", ()))
        return cls(name, **values)

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

    def config(self, **overrides: Any) -> TrainConfig:
        """The settings of a single run's training; ``overrides``, by flat name, go before the recipe's."""
        return TrainConfig.of(f"recipe {self.name}", **{**self.settings, **overrides})

    @property
    def representation(self) -> dict[str, Any]:
        """The whole representation of the row, see ``Representation``; of joined runs, each has its own."""
        own = {} if self.members else {each.flat: each.default for each in settings_of(Representation)}
        own = {name: self.settings.get(name, default) for name, default in own.items()}
        return own | {"transductive": bool(self.evaluation.transductive)}

    @property
    def figures(self) -> dict[str, Published]:
        """The published figures by measure."""
        found: dict[str, Published] = {}
        for row in self.source.published:
            for each in published_rows()[row]:
                found.setdefault(each.measure, each)
        return found

    @property
    def credit(self) -> str:
        """Authors, year and title of the paper."""
        paper = papers()[self.source.paper]
        return f"{paper['authors']} ({paper['year']}): {paper['title']}"

    @property
    def version(self) -> str:
        """Which version of the paper its facts are from."""
        return papers()[self.source.paper]["version"]

    @cached_property
    def deviations(self) -> dict[str, str]:
        """What a single run does otherwise than its paper states: by setting, the line of ``stated.toml``."""
        if not self.settings:
            return {}
        words = {"vectors": "x"} if FIXED in self.channels else {}
        own = json.loads(json.dumps(self.config(corpus="x", **words).flat()))  # lists, as TOML has them
        stated = read_toml(STATED, "install structviews again")["stated"]
        return {
            each["setting"]: each.get("otherwise", "")
            for each in stated
            if (self.source.scripts or self.source.paper) in each["papers"]
            and own.get(each["setting"], each["values"][0]) not in each["values"]
        }

    @property
    def differs(self) -> list[str]:
        """What it does otherwise than the paper, a line each."""
        return [*self.source.differs, *self.deviations.values()]

    @property
    def text(self) -> str:
        """Everything that it says, in TOML, as its table would have it without a parent."""
        content = {key: value for key, value in (asdict(self.source) | {"differs": self.differs}).items() if value}
        tables = {"corpus": asdict(self.corpus), "vectors": self.vectors and asdict(self.vectors)}
        tables |= {"settings": dict(self.settings), "evaluation": asdict(self.evaluation)}
        for name, table in tables.items():
            if values := {key: value for key, value in (table or {}).items() if value or name == "settings"}:
                content[name] = values
        if not self.members:
            return toml_text(content)
        members = [
            "{ " + ", ".join(f"{key} = {toml_value(value)}" for key, value in asdict(each).items() if value) + " }"
            for each in self.members
        ]
        joins = {"join": self.join, "similarity_join": self.similarity_join or self.join}
        return f"members = [{', '.join(members)}]\n" + toml_text(joins | content)

    @property
    def summary(self) -> str:
        """Its objective and views, or its members, in short."""
        if self.members:
            return " + ".join(f"{each.folder}{each.view and f':{each.view}'}" for each in self.members)
        return f"{self.settings['objective']}: {', '.join(self.settings['views'])}"


@cache
def published_rows() -> dict[str, list[Published]]:
    """The figures of published.toml by paper, table, model and corpus, as in ``Q 1: MC-QT; BookCorpus``."""
    rows: dict[str, list[Published]] = {}
    for each in published():
        rows.setdefault(f"{each.paper} {each.table}: {each.model}{each.corpus and f'; {each.corpus}'}", []).append(each)
    return rows


def names() -> list[str]:
    """The names of the recipes, sorted."""
    return sorted(_rows(ROWS))


@cache
def _rows(folder: Path) -> dict[str, Mapping[str, Any]]:
    """The table of each recipe of a folder, by name."""
    found: dict[str, Mapping[str, Any]] = {}
    for file in sorted(folder.glob("*.toml")):
        content = read_toml(file, "install structviews again")
        paper = content.pop("paper")
        found |= {name: {"paper": paper, **row} for name, row in content.items()}
    return found


def _resolved(name: str) -> dict[str, Any]:
    """A recipe's table with what it has from its parents."""
    row = dict(_rows(ROWS)[name])
    if "parent" not in row:
        return row
    above, without = _resolved(row.pop("parent")), row.pop("without", ())
    left_out = (*PLACES, *(OF_MEMBERS if "members" in row else ()))
    merged = {key: value for key, value in above.items() if key not in left_out}
    for key, value in row.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = merged[key] | value if both else value
    if "settings" in merged:
        merged["settings"] = {key: value for key, value in merged["settings"].items() if key not in without}
    return merged
