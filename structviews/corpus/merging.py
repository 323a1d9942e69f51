"""Merging parsed corpora."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from structviews.corpus.format import (
    MODELS,
    NUMBERS,
    Form,
    encode_batch,
    new_job,
    skipped_of,
)
from structviews.corpus.parsed_corpus import ParsedCorpus, ShardEntry
from structviews.corpus.writer import write_encoded, write_manifest
from structviews.errors import InputError
from structviews.runtime.files import new_folder


def merge(corpora: Sequence[ParsedCorpus], out: Path, progress: Callable[[int, int], None]) -> ParsedCorpus:
    """Concatenate corpora, renumbering their documents.

    Sentences keep their trees and their positions in their documents; ``line`` refers to the document's own source.
    In the manifest, ``merged`` lists the sources and the first document of each corpus.

    Args:
        corpora: at least two, with the same parser, tokeniser and kinds of trees.
        out: folder to create.
        progress: called with the number of shards done and their total.

    Raises:
        InputError: if the corpora are incompatible, or ``out`` already exists.
    """
    check_alike(corpora)
    firsts, first, shards = [], 0, list[ShardEntry]()
    form = Form.of({"settings": shared_settings(corpora)})
    with new_folder(out) as folder:
        for corpus in corpora:
            firsts.append(first)
            last = first - 1
            for table in corpus.tables():
                skipped = [replace(skip, document=skip.document + first) for skip in skipped_of(table)]
                columns = [column.chunk(0) for column in table.columns]  # the only one, even if it has no rows
                batch = pa.RecordBatch.from_arrays(columns, schema=table.schema)
                documents = pc.add(batch["document"], pa.scalar(first, pa.int32()))
                last = max([last, *(skip.document for skip in skipped), *documents[-1:].to_pylist()])
                wide = as_wide(batch.set_column(0, "document", documents), form)
                shards.append(write_encoded(folder, len(shards), encode_batch(wide, skipped, form)))
                progress(len(shards), sum(each.n_shards for each in corpora))
            first = last + 1
        write_manifest(folder, shards, describe(corpora, firsts))
    return ParsedCorpus.open(out)


def check_alike(corpora: Sequence[ParsedCorpus]) -> None:
    """Raise InputError unless the corpora have the same parser, tokeniser and kinds of trees."""
    if len(corpora) < 2:
        raise InputError(f"{len(corpora)} corpora: give at least two to merge")
    first, *others = corpora
    for other in others:
        for kind in ("parser", "tokeniser", "has_dependencies", "has_constituents", "kept"):
            one, another = (({"kept": []} | each.manifest)[kind] for each in (first, other))
            if one != another:
                raise InputError(
                    f"{other.path} has {difference(kind, another, one)}, but {first.path} has "
                    f"{difference(kind, one, another)}: parse one of them again with the other's settings"
                )


def difference(kind: str, this: Any, other: Any) -> str:
    """One manifest's value of ``kind``, with the detail in which it differs from another's."""
    if isinstance(this, bool):
        trees = {"has_dependencies": "dependency", "has_constituents": "constituency"}[kind]
        return f"{trees} trees" if this else f"no {trees} trees"
    if kind == "kept":
        return f"the text of {' and '.join(this) or 'no'} files"
    name = next(key for key in ("name", *this, *other) if this.get(key) != other.get(key))
    return f"{kind} {this['name']}" if name == "name" else f"{kind} {this['name']} with {name} {this.get(name)}"


def describe(corpora: Sequence[ParsedCorpus], firsts: Sequence[int]) -> dict[str, Any]:
    """The head of the merged manifest: shared settings, sources and parts."""
    manifests = [corpus.manifest for corpus in corpora]
    parts = []
    for manifest, first in zip(manifests, firsts, strict=True):
        own = {"first_document": 0, "settings": manifest["settings"], "sources": manifest["sources"]}
        for part in manifest.get("merged", [own]):
            parts.append(part | {"first_document": first + part["first_document"]})
    # The parsers are the same, so any corpus's models folder will do.
    models = next(({MODELS: manifest[MODELS]} for manifest in manifests if MODELS in manifest), {})
    repaired = sum((Counter(manifest.get("repaired", {})) for manifest in manifests), Counter[str]())
    counted = {"repaired": dict(repaired)} if repaired else {}
    kept = {"kept": corpora[0].kept} if corpora[0].kept else {}
    return new_job(
        parser=manifests[0]["parser"],
        tokeniser=manifests[0]["tokeniser"],
        settings=shared_settings(corpora),
        sources=[source for manifest in manifests for source in manifest["sources"]],
        merged=parts,
        **models,
        **counted,
        **kept,
    )


def shared_settings(corpora: Sequence[ParsedCorpus]) -> dict[str, Any]:
    """Settings that all corpora share, and the largest limit on sentence length."""
    first, *others = (corpus.manifest["settings"] for corpus in corpora)
    shared = {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
    limits = [settings.get("max_tokens") for settings in (first, *others)]
    return shared if None in limits else shared | {"max_tokens": max(limits)}


def as_wide(batch: pa.RecordBatch, form: Form) -> pa.RecordBatch:
    """A shard with its numbers cast to the integer width of the new corpus."""
    kind = form.numbers(pc.max(pc.list_value_length(batch["tokens"])).as_py() or 0)
    for name in NUMBERS:
        at = batch.schema.get_field_index(name)
        batch = batch.set_column(at, name, batch[name].cast(pa.list_(kind)))
    return batch
