"""Several parsed corpora as one."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from structviews.cache import (
    MODELS,
    NUMBERS,
    Form,
    ParsedCorpus,
    Skipped,
    new_job,
    skipped_of,
    write_batch,
    write_manifest,
)
from structviews.errors import InputError

from .whole import new_folder


def merge(corpora: Sequence[ParsedCorpus], out: Path, progress: Callable[[int, int], None]) -> ParsedCorpus:
    """Write corpora one behind the other, with their documents numbered on.

    Sentences keep their trees and their places in their documents; ``line`` is that of the source that a document
    is from. The manifest has under ``merged`` what each corpus was made from, and its first document.

    Args:
        corpora: at least two, of one parser and one tokeniser and with the same kinds of trees.
        out: folder to make.
        progress: told the number of shards done and their total.

    Raises:
        InputError: if they do not go together, or ``out`` is there already.
    """
    check_alike(corpora)
    firsts, n_shards, first = [], 0, 0
    form = Form.of({"settings": shared_settings(corpora)})
    with new_folder(out) as folder:
        for corpus in corpora:
            firsts.append(first)
            last = first - 1
            for table in corpus.tables():
                skipped = [moved(skip, first) for skip in skipped_of(table)]
                batch = whole_batch(table)
                documents = pc.add(batch["document"], pa.scalar(first, pa.int32()))
                last = max([last, *(skip.document for skip in skipped), *documents[-1:].to_pylist()])
                write_batch(folder, n_shards, as_wide(batch.set_column(0, "document", documents), form), skipped, form)
                n_shards += 1
                progress(n_shards, sum(each.n_shards for each in corpora))
            first = last + 1
        write_manifest(folder, n_shards, describe(corpora, firsts))
    return ParsedCorpus.open(out)


def check_alike(corpora: Sequence[ParsedCorpus]) -> None:
    """Raise InputError unless trees and tokens of the corpora are of the same kind."""
    if len(corpora) < 2:
        raise InputError(f"{len(corpora)} corpora: give two or more to merge")
    first, *others = corpora
    for other in others:
        for kind in ("parser", "tokeniser", "has_dependencies", "has_constituents"):
            ours, theirs = first.manifest[kind], other.manifest[kind]
            if ours != theirs:
                raise InputError(
                    f"{other.path} has {difference(kind, theirs, ours)} and {first.path} "
                    f"{difference(kind, ours, theirs)}: merge corpora that were parsed alike, or parse one again"
                )


def difference(kind: str, this: Any, other: Any) -> str:
    """What one manifest says where another one says something else."""
    if isinstance(this, bool):
        trees = {"has_dependencies": "dependency", "has_constituents": "constituency"}[kind]
        return f"{trees} trees" if this else f"no {trees} trees"
    name = next(key for key in ("name", *this, *other) if this.get(key) != other.get(key))
    return f"{kind} {this['name']}" if name == "name" else f"{kind} {this['name']} with {name} {this.get(name)}"


def describe(corpora: Sequence[ParsedCorpus], firsts: Sequence[int]) -> dict[str, Any]:
    """What the merged manifest says of what it was made from: settings that all share, sources, and the parts."""
    manifests = [corpus.manifest for corpus in corpora]
    parts = []
    for manifest, first in zip(manifests, firsts, strict=True):
        own = {"first_document": 0, "settings": manifest["settings"], "sources": manifest["sources"]}
        for part in manifest.get("merged", [own]):
            parts.append(part | {"first_document": first + part["first_document"]})
    # The parsers are the same, so any folder that has their models will do.
    models = next(({MODELS: manifest[MODELS]} for manifest in manifests if MODELS in manifest), {})
    return new_job(
        parser=manifests[0]["parser"],
        tokeniser=manifests[0]["tokeniser"],
        settings=shared_settings(corpora),
        sources=[source for manifest in manifests for source in manifest["sources"]],
        merged=parts,
        **models,
    )


def shared_settings(corpora: Sequence[ParsedCorpus]) -> dict[str, Any]:
    """Settings that all corpora have, and the largest limit of the sentences' lengths."""
    first, *others = (corpus.manifest["settings"] for corpus in corpora)
    shared = {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
    limits = [settings.get("max_tokens") for settings in (first, *others)]
    return shared if None in limits else shared | {"max_tokens": max(limits)}


def as_wide(batch: pa.RecordBatch, form: Form) -> pa.RecordBatch:
    """A shard with numbers of the width of its new corpus."""
    kind = form.numbers(pc.max(pc.list_value_length(batch["tokens"])).as_py() or 0)
    for name in NUMBERS:
        at = batch.schema.get_field_index(name)
        batch = batch.set_column(at, name, batch[name].cast(pa.list_(kind)))
    return batch


def moved(skip: Skipped, first: int) -> Skipped:
    """A skipped sentence whose corpus now begins with document ``first``."""
    return Skipped(skip.document + first, skip.position, skip.line, skip.reason)


def whole_batch(table: pa.Table) -> pa.RecordBatch:
    """A table of one chunk as a record batch, also where it has no rows."""
    return pa.RecordBatch.from_arrays([column.chunk(0) for column in table.columns], schema=table.schema)
