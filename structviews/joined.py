"""Several runs as one: combine-QT, channels trained apart, ensembles of single views."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from structviews.config import CONFIG, KIND, read_settings, run_kind, run_views, write_settings
from structviews.embedder import Embedder, Progress, load_kind
from structviews.errors import InputError
from structviews.evaluation.results import MEMBERS
from structviews.preparation import Preparer, Sentence
from structviews.representation import Representation, joined_width
from structviews.runs import new_run
from structviews.sentence import ParsedSentence

if TYPE_CHECKING:
    from structviews.parsing.backends import Parser

JOINED = "joined"
# What a member does not need in order to encode.
LEFT_BEHIND = ("state", "log.jsonl", "results*.json", "retrieval.json", ".*")


class JoinedEmbedder(Embedder):
    """Runs whose vectors are joined; each is represented in its own way first.

    Args:
        members: the runs.
        names: of the members, for messages.
        join: ``concatenation`` of the members' vectors, or ``average`` of them scaled to length 1.
        similarity_join: the same for similarity tasks; as ``join`` if empty.
        parser: gives trees to sentences that come without; see ``load``.
    """

    def __init__(
        self,
        members: Sequence[Embedder],
        names: Sequence[str],
        join: str = "concatenation",
        similarity_join: str = "",
        parser: "Parser | None" = None,
    ):
        self.members = list(members)
        self.views = tuple(names)
        self.needs = frozenset().union(*(member.needs for member in members))
        self.representation = Representation(join=join, similarity_join=similarity_join)
        with_trees = [member for member in members if member.parsers]
        self.parsers = list({repr(parser): parser for member in members for parser in member.parsers}.values())
        self.preparer = Preparer((with_trees or self.members)[0].preparer.parsed, parser)
        self._one_parser = parser is not None or len(self.parsers) < 2

    @classmethod
    def open(cls, run: Path, parser: "Parser | None" = None) -> Self:
        """Load what ``join_runs`` made.

        Raises:
            InputError: if its settings or one of its members cannot be read.
        """
        settings = read_settings(run)
        try:
            names, join, similarity_join = settings["members"], settings["join"], settings["similarity_join"]
        except KeyError as error:
            raise InputError(f"{run}: not what structviews join makes: its settings lack {error}: join again") from None
        folders = [run / MEMBERS / str(name) for name in names]
        members = [load_kind(run_kind(folder), folder, parser) for folder in folders]
        return cls(members, names, join, similarity_join, parser)

    @property
    def widths(self) -> list[int]:
        """Length of each member's vector."""
        return [member.dim for member in self.members]

    @property
    def description(self) -> str:
        """Which vectors these are, in a few words."""
        text = " | ".join(dict.fromkeys(member.description for member in self.members))
        join, similarity = self.representation.join, self.representation.for_similarity().join
        if join == similarity:
            return text if join == "concatenation" else f"{text}; members: {join}"
        return f"{text}; members: {join}, similarity {similarity}"

    def encode_views(
        self, sentences: Sequence[Sentence], batch_size: int = 256, progress: Progress | None = None
    ) -> list[np.ndarray]:
        """Vectors ``(n, width)`` of each member; sentences are parsed once for all that share a parser."""
        prepared = self.preparer.prepare(sentences, self.needs if self._one_parser else {"tokens"})
        total = len(self.members) * len(prepared)
        vectors = []
        for i, member in enumerate(self.members):
            before = i * len(prepared)

            def show(done: int, _: int, before: int = before) -> None:
                if progress:
                    progress(before + done, total)

            vectors.append(member.encode(prepared, batch_size, show))
        return vectors

    def attention(self, sentences: Sequence[ParsedSentence]) -> dict[str, list[np.ndarray]]:
        """What each member gives for the same trees, behind the member's name; see ``Embedder.attention``."""
        return {
            f"{name}: {encoder}": weights
            for name, member in zip(self.views, self.members, strict=True)
            for encoder, weights in member.attention(sentences).items()
        }

    def represented(self, **changes: Any) -> Self:
        """The same runs with another representation: of every member, and of their join."""
        own = {name: value for name, value in changes.items() if name in ("join", "similarity_join")}
        changed = super().represented(**own)
        changed.members = [member.represented(**changes) for member in self.members]
        return changed

    def for_similarity(self) -> Self:
        """The same runs, each with its representation for similarity tasks."""
        changed = super().represented(**vars(self.representation.for_similarity()))
        changed.members = [member.for_similarity() for member in self.members]
        return changed


def join_runs(runs: Sequence[Path], out: Path, join: str = "concatenation", similarity_join: str = "") -> Path:
    """Make a run that holds copies of others, and gives their vectors joined.

    Args:
        runs: their folders; one may stand twice.
        out: folder to make.
        join, similarity_join: see ``JoinedEmbedder``.

    Raises:
        InputError: if one of them cannot be loaded, their vectors cannot be joined, or ``out`` is there already.
    """
    if not runs:
        raise InputError("no runs: name those to join")
    names = member_names(runs)
    members = [Embedder.load(run) for run in runs]
    joined = JoinedEmbedder(members, names, join, similarity_join)
    for each in (joined, joined.for_similarity()):
        joined_width(each.widths, each.views, each.representation.join)
    views = [view for run in runs for view in run_views(run)]
    with new_run(out) as folder:
        for run, name in zip(runs, names, strict=True):
            shutil.copytree(run, folder / MEMBERS / name, ignore=shutil.ignore_patterns(*LEFT_BEHIND))
        settings = {KIND: JOINED, "views": views, "join": join, "similarity_join": similarity_join, "members": names}
        write_settings(folder, settings)
    return out


def member_names(runs: Sequence[Path]) -> list[str]:
    """The folders of runs within a joined one."""
    return [f"{i}-{run.resolve().name}" for i, run in enumerate(runs)]


def holds_joined(out: Path, runs: Sequence[Path]) -> bool:
    """Whether a folder is the join of runs of these names."""
    if not (out / CONFIG).is_file() or run_kind(out) != JOINED:
        return False
    return read_settings(out).get("members") == member_names(runs)
