"""``config.toml``, the settings file in a run's folder."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Self, TypedDict

from msgspec import Meta

from structviews.corpus.layout import MODELS
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.errors import InputError
from structviews.objectives import OBJECTIVES
from structviews.pretrained.encoder_name import Identity, TeacherModel
from structviews.runs.config import TrainConfig
from structviews.runs.folder import CONFIG, no_run
from structviews.runtime.documents import checked, read_toml
from structviews.runtime.files import write_whole
from structviews.words.vector_files import WordVectors

# Key with the kind of run, unless it is a trained one.
KIND = "kind"
# Table that describes the corpus; not a setting.
PARSED = "parsed"
REMEDY = "give a config.toml, such as train writes"
# A value as TOML has it. JSON would escape characters beyond U+FFFF as surrogate pairs, which TOML does not allow.
toml_value = partial(json.dumps, ensure_ascii=False)


class Described(TypedDict, total=False):
    """A parser or a tokeniser, as it describes itself; further keys are its own."""

    name: str
    version: Any
    language: str


class VectorFile(TypedDict, total=False):
    """A file of word vectors; what does not hold of it is not written.

    ``packed`` if the run is to know the words that it stores, and no others of the file, as the bundled models do;
    ``sub_words`` if it then stores the file's n-grams too. ``uncased`` if its words are looked up in lower case.
    """

    fingerprint: str
    dim: Annotated[int, Meta(ge=1, le=2**20)]
    uncased: bool
    packed: bool
    sub_words: bool


class PretrainedEncoder(TypedDict, total=False):
    """The encoder of the contextual channel: digest of its files, the layers that are read, dimension of a state."""

    files: str
    layers: list[Annotated[int, Meta(ge=0, le=2**20)]]
    dim: Annotated[int, Meta(ge=1, le=2**20)]


@dataclass(frozen=True)
class Parsed:
    """What a run was trained on, to check whether other data match it: the table ``[parsed]``."""

    fingerprint: str = ""  # hash of the corpus' manifest
    parser: Described = field(default_factory=Described)
    tokeniser: Described = field(default_factory=Described)
    vectors: VectorFile = field(default_factory=VectorFile)  # of the fixed channel; empty without it
    encoder: PretrainedEncoder = field(default_factory=PretrainedEncoder)  # of the contextual channel; empty without it
    teacher: TeacherModel = field(default_factory=TeacherModel)  # empty without one
    models: str = ""  # folder of the parser's models if one was named
    perturbed: str = ""  # hash of the manifest of the perturbed sentences; empty without them

    @classmethod
    def of(
        cls,
        corpus: ParsedCorpus,
        vectors: WordVectors | None = None,
        encoder: Identity | None = None,
        teacher: TeacherModel | None = None,
        perturbed: ParsedCorpus | None = None,
    ) -> Self:
        """Describe a corpus, what its channels read, the teacher and the perturbed sentences, where there are such."""
        about = VectorFile(fingerprint=vectors.fingerprint, dim=vectors.dim) if vectors else VectorFile()
        if vectors and vectors.uncased:
            about["uncased"] = True
        read = PretrainedEncoder()
        if encoder:
            read = PretrainedEncoder(files=encoder.files, layers=list(encoder.layers), dim=encoder.dim)
        parser, tokeniser = corpus.manifest["parser"], corpus.manifest["tokeniser"]
        models, further = corpus.manifest.get(MODELS, ""), perturbed.fingerprint if perturbed else ""
        return cls(corpus.fingerprint, parser, tokeniser, about, read, teacher or TeacherModel(), models, further)


def save_config(run: Path, config: TrainConfig, parsed: Parsed, kind: str = "") -> None:
    """Write ``config.toml`` of a run with encoders; ``kind`` is its kind unless it is a trained one."""
    write_settings(run, ({KIND: kind} if kind else {}) | config.table() | {PARSED: asdict(parsed)})


def load_config(path: Path) -> tuple[TrainConfig, Parsed]:
    """Read a ``config.toml``: a run's, which says what it was trained on, or one written by hand."""
    return config_of(read_toml(path, REMEDY), path)


def config_of(settings: Mapping[str, Any], path: Path) -> tuple[TrainConfig, Parsed]:
    """What the settings say that ``read_settings`` read from a path; see ``load_config``."""
    table = {name: value for name, value in settings.items() if name not in (KIND, PARSED)}
    return TrainConfig.from_table(table, str(path)), read_parsed(settings.get(PARSED, {}), path)


def read_parsed(table: Any, path: Path) -> Parsed:
    """The table ``[parsed]`` of a ``config.toml``."""
    checked(table, Parsed, f"{path}: [{PARSED}]", "remove the table, or restore the file")
    if unknown := table.keys() - Parsed.__annotations__.keys():
        raise InputError(f"{path}: [{PARSED}] has an unknown {min(unknown)!r}: remove it")
    return Parsed(**table)


def run_kind(run: Path) -> str:
    """The kind of run in a folder: ``trained`` unless its ``config.toml`` names another."""
    return str(read_settings(run).get(KIND, "trained"))


def run_views(run: Path) -> list[str]:
    """The views of a run, with those that its objective added; for a joined run those of all its members."""
    settings = read_settings(run)
    views = _table(settings, "views").get("names")
    if not isinstance(views, list) or not all(isinstance(view, str) for view in views):
        raise InputError(f"{run / CONFIG}: [views] has no list of names: restore the file or train again")
    objective = _table(settings, "objective").get("name", "")
    return [*views, *(OBJECTIVES[objective].extra_names if objective in OBJECTIVES else ())]


def run_corpus(run: Path) -> str:
    """The corpus that a run was made with; empty if none."""
    return corpus_of(read_settings(run))


def corpus_of(settings: Mapping[str, Any]) -> str:
    """The corpus that a run with these settings was made with; empty if none."""
    return str(_table(settings, "data").get("corpus", ""))


def _table(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = settings.get(name, {})
    return table if isinstance(table, Mapping) else {}


def read_settings(run: Path) -> dict[str, Any]:
    """Read a run's ``config.toml``; raises InputError if it is not a run's folder."""
    if not os.path.isfile(run / CONFIG):  # unlike Path.is_file, no error for a name that is too long
        raise no_run(run)
    return read_toml(run / CONFIG, REMEDY)


def write_settings(run: Path, settings: Mapping[str, Any]) -> None:
    """Write a run's ``config.toml``; nested mappings become TOML tables, tuples arrays."""
    # Our own writer avoids a dependency: TOML's strings, numbers, booleans and arrays are JSON's.
    write_whole(run / CONFIG, toml_text(settings).encode("utf-8"))


def load_run(run: Path) -> tuple[TrainConfig, Parsed]:
    """Read the configuration from a run's folder."""
    return config_of(read_settings(run), run / CONFIG)


def toml_text(table: Mapping[str, Any], name: str = "") -> str:
    """Settings as TOML, below a heading if the table has a ``name``."""
    keys = {key: key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml_value(key) for key in table}
    lines = [f"{keys[key]} = {toml_value(value)}\n" for key, value in table.items() if not isinstance(value, dict)]
    text = (f"\n[{name}]\n" if name else "") + "".join(lines)
    inner = {key: value for key, value in table.items() if isinstance(value, dict)}
    return text + "".join(toml_text(value, f"{name}.{keys[key]}".lstrip(".")) for key, value in inner.items())
