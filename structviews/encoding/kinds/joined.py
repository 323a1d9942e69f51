"""Several runs joined into one: combine-QT, channels trained separately, ensembles of single views."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self, TypedDict

import numpy as np
import torch
from msgspec import Meta
from torch import Tensor

from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.embedder import Embedder
from structviews.encoding.kinds import KINDS, open_run
from structviews.encoding.preparation import Preparer, Sentence
from structviews.encoding.preparation import listed as as_list
from structviews.encoding.representation import Encoder, SentenceVectors
from structviews.errors import InputError
from structviews.parsing.parser import Parser
from structviews.runs.folder import CONFIG, MEMBERS, model_checksum, weight_files
from structviews.runs.settings_file import KIND, read_settings, run_kind, run_views, write_settings
from structviews.runs.which_vectors import Representation, listed
from structviews.runtime.documents import checked
from structviews.runtime.files import new_folder
from structviews.runtime.terminal import OnProgress

JOINED = "joined"
# The fields of a representation that say how members are joined; the weights are the join's alone.
JOINS, WEIGHTS = ("join", "similarity_join"), ("view_weights", "similarity_view_weights")
# Files that a member does not need for encoding.
LEFT_BEHIND = ("state", "log.jsonl", "results*.json", "retrieval.json", ".*")


class JoinedSettings(TypedDict):
    """What ``config.toml`` says of a join; ``only`` is the view of each member, empty for all of its views."""

    members: Annotated[list[str], Meta(min_length=1)]
    only: list[str]
    join: str
    similarity_join: str


class Member(NamedTuple):
    """A run to join, or one of its ``Embedder.view_names``; an empty name stands for all views of the run."""

    run: Path
    view: str = ""


@KINDS.register(JOINED)
class JoinedEmbedder(Embedder):
    """Joins the vectors of several runs, or of single views of them, each with its own representation.

    A member of ``with_view`` joins with this view alone; ``names`` are those of the members in messages. For the joins
    see ``Representation``, for the parser ``load``.
    """

    def __init__(
        self, members: Sequence[Embedder], names: Sequence[str], joins: Representation, parser: Parser | None = None
    ):
        self.members = list(members)
        self.views = tuple(names)
        self.representation = joins
        self.parsers = list({repr(parser): parser for member in members for parser in member.parsers}.values())
        self.corpora = list(dict.fromkeys(corpus for member in members for corpus in member.corpora))
        self.models = frozenset().union(*(member.models for member in members))
        first = next((member for member in members if member.parsers), self.members[0]).preparer
        self.preparer = Preparer(first.parsed, parser, first.vocabulary)
        self._one_parser = parser is not None or len(self.parsers) < 2

    @classmethod
    def open(cls, run: Path, settings: Mapping[str, Any], parser: Parser | None = None) -> Self:
        """Load a run that ``join_runs`` made; InputError if its settings or a member cannot be read."""
        own: JoinedSettings = checked(settings, JoinedSettings, run / CONFIG, "join the runs again")
        names, only = own["members"], own["only"]
        if len(only) != len(names):
            raise InputError(f"{run / CONFIG}: only = {only}: not one for each of the members: join the runs again")
        joins = Representation.from_table({name: settings[name] for name in JOINS}, str(run / CONFIG))
        members = [open_run(run / MEMBERS / name, parser) for name in names]
        members = [member.with_view(view) if view else member for member, view in zip(members, only, strict=True)]
        return cls(members, names, joins, parser)

    @property
    def encoders(self) -> list[list[Encoder]]:  # type: ignore[override]
        """Each member as an encoder of its vectors."""
        return [[Encoder(name, member.dim)] for name, member in zip(self.view_names, self.members, strict=True)]

    def needs_of(self, chosen: Iterable[int]) -> frozenset[str]:
        return frozenset().union(*(self.members[i].needs for i in chosen))

    @property
    def vectors_described(self) -> str:
        text = " | ".join(dict.fromkeys(member.vectors_described for member in self.members))
        join, similarity = (
            f"{each.join} {listed(each.view_weights)}".rstrip()
            for each in (self.representation, self.representation.for_similarity())
        )
        if join != similarity:
            return f"{text}; members: {join}, similarity {similarity}"
        return text if join == "concatenation" else f"{text}; members: {join}"

    def _pooled(
        self, vectors: SentenceVectors, ready: Sequence[ParsedSentence], batch_size: int, progress: OnProgress | None
    ) -> dict[str, Tensor]:
        """See ``Embedder``: each member makes batches of its own, and those with the same parser share the trees."""
        pooled = {}
        for done, i in enumerate(vectors.chosen):

            def show(now: int, n: int, done: int = done) -> None:
                if progress:
                    progress(done * n + now, len(vectors.chosen) * n)

            encoded = self.members[i].encode(ready, batch_size, show)
            pooled[vectors.views[done][0].key(vectors.pooling)] = torch.from_numpy(encoded)
        return pooled

    def prepare(self, sentences: Iterable[Sentence], chosen: Iterable[int] | None = None) -> list[ParsedSentence]:
        """See ``Embedder``; if the members' parsers differ, only tokenise and let each member parse."""
        return super().prepare(sentences, chosen if self._one_parser else [])

    def attention(self, sentences: Iterable[Sentence]) -> dict[str, list[np.ndarray]]:
        """By member and view; see ``Embedder``."""
        several = as_list(sentences)
        return {
            f"{name}: {view}": weights
            for name, member in zip(self.views, self.members, strict=True)
            for view, weights in member.attention(several).items()
        }

    def with_representation(self, **changes: Any) -> Self:
        """The same runs with another representation, for each member; ``join`` for both.

        Weights are those of the members, so they are for their join alone.
        """
        own = {name: value for name, value in changes.items() if name in (*JOINS, *WEIGHTS)}
        each = {name: value for name, value in changes.items() if name not in WEIGHTS}
        changed = super().with_representation(**own)
        changed.members = [member.with_representation(**each) for member in self.members]
        return changed


def join_runs(
    members: Sequence[Path | Member], out: Path, join: str = "concatenation", similarity_join: str = ""
) -> Path:
    """Create a run, in a new folder, of copies of other runs, which joins their vectors or those of single views.

    Raises InputError if a run cannot be loaded or has no such view, the vectors cannot be joined, or ``out`` exists.
    """
    if not members:
        raise InputError("no runs: name the runs to join")
    chosen = [each if isinstance(each, Member) else Member(each) for each in members]
    names = member_names(chosen)
    embedders = [Embedder.load(run).with_view(view) if view else Embedder.load(run) for run, view in chosen]
    joined = JoinedEmbedder(embedders, names, Representation(join=join, similarity_join=similarity_join))
    for each in (joined, joined.for_similarity()):
        _ = each.dim  # raises if they cannot be joined
    views = [
        view
        for (run, _), embedder in zip(chosen, embedders, strict=True)
        for view in (run_views(run) if embedder.only is None else [embedder.views[embedder.only]])
    ]
    with new_folder(out) as folder:
        for (run, _), name in zip(chosen, names, strict=True):
            shutil.copytree(run, folder / MEMBERS / name, ignore=shutil.ignore_patterns(*LEFT_BEHIND))
        settings: dict[str, Any] = {KIND: JOINED, "join": join, "similarity_join": similarity_join, "members": names}
        settings |= {"only": [view for _, view in chosen], "views": {"names": views}}
        write_settings(folder, settings)
    return out


def member_names(members: Sequence[Member]) -> list[str]:
    """Folder names of the members of a joined run."""
    return [f"{i}-{run.resolve().name}" + f".{view}" * bool(view) for i, (run, view) in enumerate(members)]


def holds_joined(out: Path, members: Sequence[Path | Member]) -> bool:
    """Whether a folder is a join of runs with these names, as they are now, and of the same views."""
    if not (out / CONFIG).is_file() or run_kind(out) != JOINED:
        return False
    settings, chosen = read_settings(out), [each if isinstance(each, Member) else Member(each) for each in members]
    wanted = member_names(chosen), [view for _, view in chosen]
    if (settings.get("members"), settings.get("only")) != wanted:
        return False
    copies = [(run, out / MEMBERS / name) for (run, _), name in zip(chosen, wanted[0], strict=True)]
    return all(weight_files(run) and model_checksum(run) == model_checksum(copy) for run, copy in copies)
