"""Several runs joined into one: combine-QT, channels trained separately, ensembles of single views."""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self, TypedDict

import numpy as np
import torch
from msgspec import Meta

from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.embedder import Embedder, open_run
from structviews.encoding.kinds import KINDS
from structviews.encoding.preparation import Preparer, Sentence, listed
from structviews.encoding.representation import joined_width
from structviews.encoding.stored_run import Choice
from structviews.errors import InputError
from structviews.parsing.parser import Parser
from structviews.runs.folder import CONFIG, MEMBERS, model_checksum, weight_files
from structviews.runs.settings_file import KIND, read_settings, run_kind, run_views, write_settings
from structviews.runs.which_vectors import GATED, Representation
from structviews.runs.which_vectors import listed as typed
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
    """A run to join, or a single view of it.

    Attributes:
        run: the run's folder.
        view: one of ``Embedder.view_names``; empty for all views of the run.
    """

    run: Path
    view: str = ""


@KINDS.register(JOINED)
class JoinedEmbedder(Embedder):
    """Joins the vectors of several runs, or of single views of them, each with its own representation.

    Args:
        members: the runs; those of ``with_view`` join with this view alone.
        names: names of the members, for messages.
        join: ``concatenation`` of the members' vectors, ``average`` of their unit-length vectors, or ``gate``.
        similarity_join: the same for similarity tasks; ``join`` if empty.
        parser: parses sentences that have no trees; see ``load``.
    """

    def __init__(
        self,
        members: Sequence[Embedder],
        names: Sequence[str],
        join: str = "concatenation",
        similarity_join: str = "",
        parser: Parser | None = None,
    ):
        self.members = list(members)
        self.views = tuple(names)
        self.representation = Representation(join=join, similarity_join=similarity_join)
        with_trees = [member for member in members if member.parsers]
        self.parsers = list({repr(parser): parser for member in members for parser in member.parsers}.values())
        self.corpora = list(dict.fromkeys(corpus for member in members for corpus in member.corpora))
        self.preparer = Preparer((with_trees or self.members)[0].preparer.parsed, parser)
        self._one_parser = parser is not None or len(self.parsers) < 2

    @classmethod
    def open(cls, run: Path, parser: Parser | None = None) -> Self:
        """Load a run that ``join_runs`` made.

        Raises:
            InputError: if its settings or a member cannot be read.
        """
        settings: JoinedSettings = checked(read_settings(run), JoinedSettings, run / CONFIG, "join the runs again")
        names, only, joins = settings["members"], settings["only"], (settings["join"], settings["similarity_join"])
        if len(only) != len(names):
            raise InputError(f"{run / CONFIG}: only = {only}: not one for each of the members: join the runs again")
        Representation.from_table(dict(zip(("join", "similarity_join"), joins, strict=True)), str(run / CONFIG))
        members = [_seen(open_run(run / MEMBERS / name, parser), view) for name, view in zip(names, only, strict=True)]
        return cls(members, names, *joins, parser)

    @property
    def widths(self) -> list[int]:
        """Dimensions of each member's vector."""
        return [member.dim for member in self.members]

    @property
    def reads(self) -> list[frozenset[str]]:
        """The structures that each member reads."""
        return [member.needs for member in self.members]

    @property
    def models(self) -> frozenset[Path]:
        """The folders of pretrained models that the members read beside their own."""
        return frozenset().union(*(member.models for member in self.members))

    @property
    def device(self) -> torch.device:
        """Device of the first member's encoders."""
        return self.members[0].device

    def to(self, device: str | torch.device) -> Self:
        """Move the encoders of all members; see ``Embedder.to``."""
        for member in self.members:
            member.to(device)
        return self

    @property
    def encodes_in(self) -> str:
        """That of the members' encoders; ``fp32`` if none has products in another precision."""
        return next((each for member in self.members if (each := member.encodes_in) != "fp32"), "fp32")

    @property
    def choices(self) -> list[Choice]:
        """Representation and view selected on this embedder and its members."""
        return [*super().choices, *(choice for member in self.members for choice in member.choices)]

    def choose(self, choices: Iterator[Choice]) -> None:
        """Apply the ``choices`` of another embedder of the same run."""
        super().choose(choices)
        for member in self.members:
            member.choose(choices)

    @property
    def _representation(self) -> str:
        """Short description of the representation."""
        join, similarity = self._how(self.representation), self._how(self.representation.for_similarity())
        if join == similarity:
            return self.view_vectors if join == "concatenation" else f"{self.view_vectors}; members: {join}"
        return f"{self.view_vectors}; members: {join}, similarity {similarity}"

    @property
    def view_vectors(self) -> str:
        """Short description of the members' vectors."""
        return " | ".join(dict.fromkeys(member._representation for member in self.members))

    def _how(self, representation: Representation) -> str:
        """How members are joined, such as ``average 1,2``."""
        join = self._gate_name if representation.join == GATED else representation.join
        return " ".join(filter(None, (join, typed(representation.view_weights))))

    def _encode_chosen(
        self, sentences: Iterable[Sentence], chosen: Sequence[int], batch_size: int, progress: OnProgress | None
    ) -> list[np.ndarray]:
        """Vectors ``(n, width)`` of the chosen members; members with the same parser share the trees."""
        prepared = self._prepared(sentences, chosen)
        total = len(chosen) * len(prepared)
        vectors = []
        for i, member in enumerate(self.members[number] for number in chosen):
            before = i * len(prepared)

            def show(done: int, _: int, before: int = before) -> None:
                if progress:
                    progress(before + done, total)

            vectors.append(member.encode(prepared, batch_size, show))
        return vectors

    def _prepared(self, sentences: Iterable[Sentence], chosen: Iterable[int]) -> list[ParsedSentence]:
        """See ``Embedder``; if the members' parsers differ, only tokenise and let each member parse."""
        needs = self.needs_of(chosen) if self._one_parser else frozenset({"tokens"})
        return self.preparer.prepare(sentences, needs, self.limit)

    def attention(self, sentences: Iterable[Sentence]) -> dict[str, list[np.ndarray]]:
        """Attention weight of each word among the dependents of its head, by member and view; see ``Embedder``."""
        given = listed(sentences)
        return {
            f"{name}: {view}": weights
            for name, member in zip(self.views, self.members, strict=True)
            for view, weights in member.attention(given).items()
        }

    def with_representation(self, **changes: Any) -> Self:
        """The same runs with another representation, for each member; ``join`` for both.

        Weights and a gate are those of the members, so they are for their join alone.
        """
        own = {name: value for name, value in changes.items() if name in (*JOINS, *WEIGHTS)}
        each = {name: value for name, value in changes.items() if name not in WEIGHTS and value != GATED}
        changed = super().with_representation(**own)
        changed.members = [member.with_representation(**each) for member in self.members]
        return changed

    def with_limit(self, **changes: Any) -> Self:
        """The same runs with another limit for the length of sentences, of the members too."""
        changed = super().with_limit(**changes)
        changed.members = [member.with_limit(**vars(changed.limit)) for member in self.members]
        return changed

    def with_precision(self, precision: str) -> Self:
        """The same runs with another precision."""
        changed = super().with_precision(precision)
        changed.members = [member.with_precision(precision) for member in self.members]
        return changed

    def for_similarity(self) -> Self:
        """The same runs, each with its representation for similarity tasks."""
        changed = super().with_representation(**vars(self.representation.for_similarity()))
        changed.members = [member.for_similarity() for member in self.members]
        return changed


def join_runs(
    members: Sequence[Path | Member], out: Path, join: str = "concatenation", similarity_join: str = ""
) -> Path:
    """Create a run that contains copies of other runs and joins their vectors, or those of single views.

    Args:
        members: run folders, or ``Member``s for single views of runs; repeats are allowed.
        out: folder to create.
        join, similarity_join: see ``JoinedEmbedder``.

    Raises:
        InputError: if a run cannot be loaded or has no such view, the vectors cannot be joined, or ``out`` already
            exists.
    """
    if not members:
        raise InputError("no runs: name the runs to join")
    given = _given(members)
    names, embedders = member_names(given), [_seen(Embedder.load(run), view) for run, view in given]
    joined = JoinedEmbedder(embedders, names, join, similarity_join)
    for each in (joined, joined.for_similarity()):
        joined_width(each.widths, each.views, each.representation.join)
    views = [view for (run, _), embedder in zip(given, embedders, strict=True) for view in _views(run, embedder)]
    with new_folder(out) as folder:
        for (run, _), name in zip(given, names, strict=True):
            shutil.copytree(run, folder / MEMBERS / name, ignore=shutil.ignore_patterns(*LEFT_BEHIND))
        settings: dict[str, Any] = {KIND: JOINED, "join": join, "similarity_join": similarity_join, "members": names}
        settings |= {"only": [view for _, view in given], "views": {"names": views}}
        write_settings(folder, settings)
    return out


def _given(members: Sequence[Path | Member]) -> list[Member]:
    return [each if isinstance(each, Member) else Member(each) for each in members]


def _seen(embedder: Embedder, view: str) -> Embedder:
    """The run, restricted to a view if one is named."""
    return embedder.with_view(view) if view else embedder


def _views(run: Path, embedder: Embedder) -> list[str]:
    """Names of a member's views."""
    return run_views(run) if embedder.only is None else [embedder.views[embedder.only]]


def member_names(members: Sequence[Member]) -> list[str]:
    """Folder names of the members of a joined run."""
    return [f"{i}-{run.resolve().name}" + f".{view}" * bool(view) for i, (run, view) in enumerate(members)]


def holds_joined(out: Path, members: Sequence[Path | Member]) -> bool:
    """Whether a folder is a join of runs with these names, as they are now, and of the same views."""
    if not (out / CONFIG).is_file() or run_kind(out) != JOINED:
        return False
    settings, given = read_settings(out), _given(members)
    wanted = member_names(given), [view for _, view in given]
    if (settings.get("members"), settings.get("only")) != wanted:
        return False
    copies = [(run, out / MEMBERS / name) for (run, _), name in zip(given, wanted[0], strict=True)]
    return all(weight_files(run) and model_checksum(run) == model_checksum(copy) for run, copy in copies)
