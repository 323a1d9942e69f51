"""The portable part of a run: weights, vocabularies and settings, without references to other files.

With it goes the table of the texts that the run was trained on, tab-separated with a row for every title, since
licences such as CC BY ask whoever passes a text on to name it. The model card has its summary.
"""

import re
import shutil
from collections.abc import Iterable, Iterator
from os.path import commonprefix
from pathlib import Path
from typing import Any, NamedTuple

from structviews.encoding.kinds.joined import JOINED
from structviews.errors import InputError
from structviews.evaluation.scores.results import load_results
from structviews.pretrained.encoder_name import HUB_ID, EncoderName
from structviews.pretrained.loading import is_here
from structviews.runs.config import TrainConfig
from structviews.runs.folder import CONFIG, EXPANSION, MEMBERS, SHARED, SOURCES, model_checksum
from structviews.runs.settings_file import PARSED, load_run, read_settings, run_kind, write_settings
from structviews.runtime.documents import write_json
from structviews.runtime.files import text_lines, write_whole
from structviews.words import CONTEXTUAL, FIXED

CARD = "README.md"
# Titles of one source and licence that the summary names; of more, what they have in common.
NAMED = 3
# The same as filters for the Hub, whose * also matches "/" and so covers joins of joins.
PATTERNS = [CARD, "results*.json", *SHARED, *(f"{MEMBERS}/*/{part}" for part in SHARED)]


def _is_name(name: str) -> bool:
    return name not in ("", ".", "..") and not re.search(r"[/\\\0]", name)


def trained_parts(run: Path) -> list[Path]:
    """The folders of the trained runs in a run; see ``runs_in``."""
    return [part for part in runs_in(run) if run_kind(part) != JOINED]


def runs_in(run: Path) -> Iterator[Path]:
    """The folders of a run and, recursively, of its members; raises InputError if one depends on files elsewhere."""
    if (kind := run_kind(run)) not in ("trained", "random", JOINED):
        raise InputError(
            f"{run}: a run of kind {kind!r} reads a file outside its folder: give a run made by train, join or "
            "baseline random"
        )
    yield run
    names = read_settings(run).get("members") if kind == JOINED else []
    if not isinstance(names, list) or not all(isinstance(name, str) and _is_name(name) for name in names):
        raise InputError(f"{run / CONFIG}: members = {names!r}: not folder names: join the runs again")
    for name in names:
        yield from runs_in(run / MEMBERS / name)


def stage(run: Path, folder: Path) -> list[str]:
    """Copy the portable part of a run, without local paths; return notes on what is left out.

    Raises InputError if it is not a run, its table of sources is not one, or it depends on files outside its folder.
    """
    notes = []
    for part in runs_in(run):
        target = folder / part.relative_to(run)
        target.mkdir(parents=True, exist_ok=True)
        settings = read_settings(part)
        if run_kind(part) == JOINED:
            write_settings(target, settings)
            continue
        for pattern in SHARED[1:]:
            for path in sorted(part.glob(pattern)):
                shutil.copyfile(path, target / path.name)
        config, _ = load_run(part)  # which checks the settings
        if CONTEXTUAL in config.words.channels:  # its encoder is named, not copied
            name = EncoderName.of(config.words.encoder).name
            if not HUB_ID.fullmatch(name) or is_here(name, part.absolute().parents):
                raise InputError(
                    f"{part}: its encoder {name} is a folder of this machine: write its name on the Hugging Face Hub "
                    f"to encoder in {part / CONFIG}"
                )
        if (part / SOURCES).exists():
            read_sources(part / SOURCES)  # which checks them
        write_settings(target, _without_paths(settings))
        if (part / EXPANSION).exists():
            notes.append(f"{part}: its expansion is left out, as it reads a file on this machine")
    model = model_checksum(folder)
    for path in sorted(run.glob("results*.json")):
        results = load_results(run, path.name) or {}
        if results.get("model") == model:
            write_json(folder / path.name, results | {"unavailable": {}})  # its reasons name local files
        else:
            notes.append(f"{path}: left out, as its scores are of other weights")
    return notes


def vectors_left(run: Path) -> list[str]:
    """Notes on files of word vectors that a run reads words from, and that do not go with it."""
    notes = []
    for part in trained_parts(run):
        config, parsed = load_run(part)
        if FIXED in config.words.channels and not parsed.vectors.get("packed"):
            notes.append(
                f"{part}: its word vectors, {Path(config.words.vectors).name}, are left out: without them it knows its "
                "training words only; `structviews runs expand RUN --vectors FILE` gives it the file again"
            )
    return notes


def _without_paths(settings: dict[str, Any]) -> dict[str, Any]:
    tables = {name: dict(value) if isinstance(value, dict) else value for name, value in settings.items()}
    for table, each in TrainConfig.settings():
        if each.path and each.name in tables.get(table, {}):
            tables[table][each.name] = Path(tables[table][each.name]).name
    words = tables.get("words", {})
    if CONTEXTUAL not in words.get("channels", ()) and words.get("encoder"):  # its transformer goes with it
        words["encoder"] = Path(words["encoder"]).resolve().name  # which ``.`` has, too
    taught = tables.get("objective", {}).get("teacher", {})
    if (teacher := taught.get("teacher", "")) and not HUB_ID.fullmatch(teacher):
        tables["objective"]["teacher"] = taught | {"teacher": Path(teacher).resolve().name}
    parsed = tables.get(PARSED, {}) | {"models": ""}
    for description in ("parser", "tokeniser"):
        if "name" in parsed.get(description, {}):
            name = re.sub(r"(?<=:)[^+]*[/\\]", "", parsed[description]["name"])  # NAME:PATH
            parsed[description] = parsed[description] | {"name": name}
    return tables | {PARSED: parsed}


def check_arrived(folder: Path) -> None:
    """Check a downloaded run before loading anything from it: that it has nothing but data, and is whole."""
    data = (".toml", ".safetensors", ".tsv", ".json", ".md")
    for path in folder.rglob("*"):
        if path.is_symlink() or (path.is_file() and path.suffix not in data):
            raise InputError(f"{path}: does not belong to a run")
    check_whole(folder)


def check_whole(run: Path) -> None:
    """Check that a run from elsewhere would not read other files of this machine.

    Raises InputError if its kind depends on such, or its settings have a path to parser models or word vectors.
    """
    for part in trained_parts(run):
        config, parsed = load_run(part)
        file = part / CONFIG
        if config.words.vectors and (not _is_name(config.words.vectors) or ":" in config.words.vectors):
            raise InputError(
                f"{file}: refers to a local file ({config.words.vectors!r}): ask its owner to name the word "
                "vectors without their folder"
            )
        encoder = config.words.encoder and EncoderName.of(config.words.encoder).name
        # A transformer needs nothing of its encoder, whose name is for the reader.
        is_only_named = CONTEXTUAL not in config.words.channels and _is_name(encoder)
        if encoder and not is_only_named and not HUB_ID.fullmatch(encoder):
            raise InputError(
                f"{file}: refers to a local folder ({config.words.encoder!r}): ask its owner to name the "
                "encoder by its name on the Hugging Face Hub"
            )
        if parsed.models:
            raise InputError(
                f"{file}: refers to a local folder of parser models: ask its owner to remove models from [{PARSED}]"
            )
        parser = parsed.parser.get("name", "")
        models = [name.partition(":")[2] for name in parser.split("+")]
        language = parsed.parser.get("language", "")
        if not all(_is_name(name) and ":" not in name for name in (*models, language) if name):
            raise InputError(
                f"{file}: [{PARSED}.parser] refers to a local file ({parser!r}, {language!r}): ask its owner "
                "to name the parser's model without its folder"
            )


class Source(NamedTuple):
    """A row of the table: a title, where it is from, and how many documents and sentences of it were read."""

    source: str
    title: str
    year: str
    licence: str
    attribution: str
    documents: int
    sentences: int


HEADER = "\t".join(Source._fields)


def read_sources(path: Path) -> list[Source]:
    """Read a table of sources; raises InputError, with file and line, if it is not one."""
    header, *lines = text_lines(path)
    if header != HEADER or not lines:
        raise InputError(f"{path}: not a table of sources: give a first line of {', '.join(Source._fields)}, then rows")
    found = []
    for number, line in enumerate(lines, 2):
        row = line.split("\t")
        if len(row) != len(Source._fields) or not all(re.fullmatch(r"\d{1,15}", count) for count in row[-2:]):
            raise InputError(f"{path}:{number}: not {len(Source._fields)} values, the last two counts: fix the row")
        found.append(Source(row[0], row[1], row[2], row[3], row[4], int(row[5]), int(row[6])))
    return found


def write_sources(path: Path, sources: Iterable[Source]) -> None:
    """Write a table of sources."""
    rows = ["\t".join(map(str, row)) for row in sources]
    write_whole(path, "".join(f"{line}\n" for line in (HEADER, *rows)).encode("utf-8"))


class Group(NamedTuple):
    """Titles of one source under one licence: their names, or what these have in common, and their sums."""

    titles: str
    licence: str
    documents: int
    sentences: int


def summed(sources: Iterable[Source]) -> list[Group]:
    """The sources in groups of one source and licence, that with the most sentences first."""
    found: dict[tuple[str, str], list[Source]] = {}
    for row in sources:
        found.setdefault((row.source, row.licence), []).append(row)
    groups = []
    for (_, licence), rows in found.items():
        titles = [row.title for row in rows]
        together = "; ".join(titles)
        if len(titles) > NAMED:
            common = commonprefix(titles).rstrip(" :")  # noqa: RUF071 - of titles, not of paths
            together = f"{common} ({len(titles)} titles)".lstrip()
        documents, sentences = sum(row.documents for row in rows), sum(row.sentences for row in rows)
        groups.append(Group(together, licence, documents, sentences))
    return sorted(groups, key=lambda group: -group.sentences)
