"""A run's encoders as a module of PyTorch, frozen or trained on, for heads and losses of one's own.

Shapes: n sentences, d length of a sentence's vector, w of an encoder's pooled one.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn

from structviews.batching import Batch, collate
from structviews.checkpoint import write_weights
from structviews.embedder import Embedder, TrainedEmbedder, component_key
from structviews.errors import InputError
from structviews.expansion import own_weights
from structviews.joined import LEFT_BEHIND, JoinedEmbedder
from structviews.preparation import Sentence
from structviews.representation import Representation
from structviews.sentence import ParsedSentence
from structviews.vocabulary import WordTable

if TYPE_CHECKING:
    from structviews.parsing.backends import Parser


@dataclass(frozen=True)
class Prepared:
    """Sentences ready to be encoded.

    Attributes:
        sentences: with the trees that the run needs.
        batches: the same as integers, for each of its trained encoders.
    """

    sentences: list[ParsedSentence]
    batches: list[Batch]

    def __len__(self) -> int:
        return len(self.sentences)

    def to(self, device: torch.device | str) -> "Prepared":
        """The same on ``device``."""
        return Prepared(self.sentences, [batch.to(device) for batch in self.batches])


class SentenceEncoder(nn.Module):
    """Sentences to the vectors ``(n, d)`` that ``Embedder.encode`` gives them, with gradients.

    Trained runs, random ones and joins of such have weights; other baselines give vectors that nothing can train.
    Stored components that the representation removes stay as they are.

    Args:
        embedder: a run with the representation that is wanted. Its model becomes part of this module.
        trainable: whether the weights ask for gradients.

    Raises:
        InputError: if its representation is transductive, or one that the run does not have.
    """

    def __init__(self, embedder: Embedder, trainable: bool = True):
        super().__init__()
        if any(representation.transductive for representation, _ in embedder.choices):
            raise InputError("transductive = true: what is fitted on the sentences at hand is no module: leave it out")
        self.embedder = embedder
        self.encoder = _encoder_of(embedder)
        for part in self._trained():
            part.open(trainable)
        # Moves with the module, and so tells where it is.
        self.register_buffer("place", torch.empty(0), persistent=False)
        self.to(next((part.embedder.device for part in self._trained()), embedder.device))

    @classmethod
    def load(
        cls,
        run: str | Path,
        trainable: bool = True,
        parser: "Parser | None" = None,
        representation: Representation | None = None,
    ) -> Self:
        """Load a run's folder; see ``Embedder.load``.

        Args:
            run, parser, representation: see there.
            trainable: whether the weights ask for gradients.
        """
        return cls(Embedder.load(run, parser, representation), trainable)

    @property
    def dim(self) -> int:
        """Length d of a sentence's vector."""
        return self.embedder.dim

    def prepare(self, sentences: Sequence[Sentence]) -> list[ParsedSentence]:
        """Tokenise and parse; what takes long, and has to be done but once.

        Raises:
            InputError: for a sentence that is empty or cannot be parsed.
        """
        return self.embedder.prepare(sentences)

    def collate(self, sentences: Sequence[Sentence]) -> Prepared:
        """Prepare, and make integers of it: the ``collate_fn`` of a ``DataLoader``."""
        prepared = self.prepare(sentences)
        return Prepared(prepared, [part.collate(prepared) for part in self._trained()])

    def forward(self, sentences: Sequence[Sentence] | Prepared) -> Tensor:
        """Vectors ``(n, d)``, float32, on the module's device.

        Args:
            sentences: as ``Embedder.encode`` takes them, or from ``collate``.

        Raises:
            InputError: for a sentence that is empty or cannot be parsed.
        """
        place = cast("Tensor", self.place)
        ready = sentences if isinstance(sentences, Prepared) else self.collate(sentences)
        return self.encoder(ready.sentences, iter(ready.to(place.device).batches)).to(place.device)

    def save(self, folder: str | Path) -> None:
        """Write a run with the weights that this module has now, without training states, logs and scores.

        Raises:
            InputError: if the run was made in memory, or ``folder`` is within it.
        """
        run, folder = self.embedder.folder, Path(folder).resolve()
        if run.resolve() in folder.parents:
            raise InputError(f"{folder}: within the run that would be copied there: save elsewhere")
        if folder != run.resolve():
            shutil.copytree(run, folder, ignore=shutil.ignore_patterns(*LEFT_BEHIND), dirs_exist_ok=True)
        for part in self._trained():
            write_weights(folder / part.embedder.folder.relative_to(run), own_weights(part.model))

    def _trained(self) -> "list[_Trained]":
        return [each for each in self.modules() if isinstance(each, _Trained)]


class _Trained(nn.Module):
    """A trained run's encoders, pooled, post-processed and joined as ``PooledEmbedder`` does it in numpy."""

    def __init__(self, embedder: TrainedEmbedder):
        super().__init__()
        self.embedder = embedder
        self.model = embedder.model
        self.pooling = embedder.representation.pooling
        if embedder.representation.remove_component:
            for i, encoder in enumerate(each for view in embedder.encoders for each in view):
                stored = embedder.stored_components(component_key(encoder, self.pooling))
                self.register_buffer(f"directions_{i}", torch.from_numpy(stored.directions), persistent=False)
                self.register_buffer(f"shares_{i}", torch.from_numpy(stored.shares), persistent=False)

    def open(self, trainable: bool) -> None:
        """Let the encoders ask for gradients or not, and what only an objective reads never."""
        self.model.requires_grad_(trainable)
        for _, channel in self.model.each():
            channel.objective.requires_grad_(trainable and bool(channel.extra_views()))
        for table in self.model.modules():
            if isinstance(table, WordTable):
                table.sparse = False

    def collate(self, sentences: Sequence[ParsedSentence]) -> Batch:
        # Members of a join that have parsers of their own get words without trees.
        return collate(self.embedder.prepare(sentences), self.embedder.vocabularies, self.embedder.needs)

    def forward(self, sentences: Sequence[ParsedSentence], batches: Iterator[Batch]) -> Tensor:
        encoded = self.model.encode(next(batches), states=self.pooling != "vector")
        numbers = iter(range(sum(map(len, encoded))))
        views = [
            torch.cat(
                [
                    self._post_processed(encoder.pool(each, self.pooling), next(numbers))
                    for encoder, each in zip(encoders, channels, strict=True)
                ],
                dim=1,
            )
            for encoders, channels in zip(self.embedder.encoders, encoded, strict=True)
        ]
        return _joined(views, self.embedder)

    def _post_processed(self, vectors: Tensor, number: int) -> Tensor:
        """Vectors ``(n, w)`` of an encoder as the representation wants them."""
        if self.embedder.representation.remove_component:
            directions, shares = getattr(self, f"directions_{number}"), getattr(self, f"shares_{number}")
            vectors = vectors - (vectors @ directions.T * shares) @ directions
        return F.normalize(vectors, dim=1) if self.embedder.representation.normalise else vectors


class _Joined(nn.Module):
    """The members of a joined run."""

    def __init__(self, embedder: JoinedEmbedder):
        super().__init__()
        self.embedder = embedder
        self.members = nn.ModuleList(map(_encoder_of, embedder.members))

    def forward(self, sentences: Sequence[ParsedSentence], batches: Iterator[Batch]) -> Tensor:
        return _joined([member(sentences, batches) for member in self.members], self.embedder)


class _Untrained(nn.Module):
    """A run without weights of ours."""

    def __init__(self, embedder: Embedder):
        super().__init__()
        self.embedder = embedder
        self.register_buffer("place", torch.empty(0), persistent=False)  # moves with the module

    def forward(self, sentences: Sequence[ParsedSentence], batches: Iterator[Batch]) -> Tensor:
        vectors = torch.from_numpy(self.embedder.encode(sentences, max(1, len(sentences))))
        return vectors.to(cast("Tensor", self.place).device)


def _encoder_of(embedder: Embedder) -> nn.Module:
    if isinstance(embedder, TrainedEmbedder):
        return _Trained(embedder)
    return _Joined(embedder) if isinstance(embedder, JoinedEmbedder) else _Untrained(embedder)


def _joined(views: Sequence[Tensor], embedder: Embedder) -> Tensor:
    """One vector ``(n, d)`` from those of each view, as ``join_views`` does it in numpy."""
    if embedder.only is not None:
        return views[embedder.only]
    if embedder.representation.join == "concatenation":
        return torch.cat(list(views), dim=1)
    return torch.stack([F.normalize(view, dim=1) for view in views]).mean(dim=0)
