"""A run's encoders as a PyTorch module, frozen or trainable, for custom heads and losses.

Shapes: n sentences, d dimensions of a sentence's vector, w of an encoder's pooled vector.
"""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, cast

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn

from structviews.batches.batch import Batch, collate
from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.embedder import Embedder
from structviews.encoding.kinds.joined import LEFT_BEHIND, JoinedEmbedder
from structviews.encoding.kinds.trained import TrainedEmbedder
from structviews.encoding.pooled import component_key
from structviews.encoding.preparation import Sentence
from structviews.encoding.view_gate import gated
from structviews.encoding.word_limit import WordLimit
from structviews.errors import InputError, names_checked
from structviews.parsing.parser import Parser
from structviews.runs.copying import check_outside
from structviews.runs.weights import write_weights
from structviews.runs.which_vectors import GATED, Representation
from structviews.views.word_tables import WordTable


@dataclass(frozen=True)
class Prepared:
    """Sentences prepared for encoding.

    Attributes:
        sentences: sentences with the trees that the run needs.
        batches: the same sentences as integers, one batch per trained encoder.
    """

    sentences: list[ParsedSentence]
    batches: list[Batch]

    def __len__(self) -> int:
        return len(self.sentences)

    def to(self, device: torch.device | str) -> "Prepared":
        """The same on ``device``."""
        return Prepared(self.sentences, [batch.to(device) for batch in self.batches])


class SentenceEncoder(nn.Module):
    """Encodes sentences as the same vectors ``(n, d)`` as ``Embedder.encode``, with gradients.

    Trained and random runs and joins of them have trainable weights; other baselines have none. Components that the
    representation removes stay fixed.

    Args:
        embedder: a run with the desired representation. Its model becomes part of this module.
        trainable: whether the weights require gradients.

    Raises:
        InputError: if the representation is transductive, or the run does not have it.
    """

    def __init__(self, embedder: Embedder, trainable: bool = True):
        super().__init__()
        if any(representation.transductive for representation, _ in embedder.choices):
            raise InputError("transductive = true: cannot be trained, as it depends on all sentences: leave it out")
        self.embedder = embedder
        self.encoder = _encoder_of(embedder)
        for part in self._trained():
            part.open(trainable)
        # Moves with the module and so shows its device.
        self.register_buffer("place", torch.empty(0), persistent=False)
        self.to(next((part.embedder.device for part in self._trained()), embedder.device))

    @classmethod
    @names_checked
    def load(
        cls,
        run: str | Path,
        trainable: bool = True,
        parser: Parser | None = None,
        representation: Representation | None = None,
        *,
        max_tokens: int = WordLimit.max_tokens,
        overlong: str = WordLimit.overlong,
    ) -> Self:
        """Load a run; see ``Embedder.load``.

        Args:
            run, parser, representation, max_tokens, overlong: see ``Embedder.load``.
            trainable: whether the weights require gradients.
        """
        embedder = Embedder.load(run, parser, representation, max_tokens=max_tokens, overlong=overlong)
        return cls(embedder, trainable)

    @property
    def dim(self) -> int:
        """Dimensions d of a sentence's vector."""
        return self.embedder.dim

    def prepare(self, sentences: Iterable[Sentence]) -> list[ParsedSentence]:
        """Tokenise and parse: the slow step, which is needed only once.

        Raises:
            InputError: if something is not a sentence, is longer than the limit or cannot be parsed.
        """
        return self.embedder.prepare(sentences)

    def collate(self, sentences: Iterable[Sentence]) -> Prepared:
        """Prepare sentences and convert them to integers; use as the ``collate_fn`` of a ``DataLoader``."""
        prepared = self.prepare(sentences)
        return Prepared(prepared, [part.collate(prepared) for part in self._trained()])

    def forward(self, sentences: Iterable[Sentence] | Prepared) -> Tensor:
        """Vectors ``(n, d)``, float32, on the module's device.

        Args:
            sentences: as for ``Embedder.encode``, or from ``collate``.

        Raises:
            InputError: if something is not a sentence, is longer than the limit or cannot be parsed.
        """
        place = cast("Tensor", self.place)
        ready = sentences if isinstance(sentences, Prepared) else self.collate(sentences)
        vectors: Tensor = self.encoder(ready.sentences, iter(ready.to(place.device).batches))
        return vectors.to(place.device)

    def save(self, folder: str | Path) -> None:
        """Save as a run with the current weights, without training state, logs and scores.

        Raises:
            InputError: if the run was created in memory, or ``folder`` is inside it.
        """
        run, folder = self.embedder.folder, Path(folder).resolve()
        check_outside(run, folder)
        if folder != run.resolve():
            shutil.copytree(run, folder, ignore=shutil.ignore_patterns(*LEFT_BEHIND), dirs_exist_ok=True)
        for part in self._trained():
            write_weights(folder / part.embedder.folder.relative_to(run), part.model.state_dict())

    def _trained(self) -> "list[_Trained]":
        return [each for each in self.modules() if isinstance(each, _Trained)]


class _Trained(nn.Module):
    """A trained run's encoders; pools, post-processes and joins like ``PooledEmbedder``, but in torch."""

    def __init__(self, embedder: TrainedEmbedder):
        super().__init__()
        self.embedder = embedder
        self.model = embedder.model
        self.pooling = embedder.representation.pooling
        self.encoders = [embedder.encoders[i] for i in embedder.chosen]
        if embedder.representation.remove_component:
            for i, encoder in enumerate(each for view in self.encoders for each in view):
                stored = embedder.stored_components(component_key(encoder, self.pooling))
                self.register_buffer(f"directions_{i}", torch.from_numpy(stored.directions), persistent=False)
                self.register_buffer(f"shares_{i}", torch.from_numpy(stored.shares), persistent=False)
        self.join = _Join(embedder)

    def open(self, trainable: bool) -> None:
        """Set whether the encoders require gradients; parameters used only by an objective never do."""
        self.model.requires_grad_(trainable)
        for _, channel in self.model.each():
            channel.objective.requires_grad_(trainable and bool(channel.extra_views()))
        for table in self.model.modules():
            if isinstance(table, WordTable):
                table.sparse = False

    def collate(self, sentences: Sequence[ParsedSentence]) -> Batch:
        # Members of a joined run with parsers of their own receive tokens without trees.
        aligner = self.embedder.aligner_of(self.embedder.chosen)
        prepared = self.embedder.prepare(sentences)
        return collate(prepared, self.embedder.vocabularies, self.embedder.needs, aligner=aligner)

    def forward(self, sentences: Sequence[ParsedSentence], batches: Iterator[Batch]) -> Tensor:
        encoded = self.model.encode(next(batches), self.pooling != "vector", self.embedder.chosen)
        numbers = iter(range(sum(map(len, encoded))))
        views = [
            torch.cat(
                [
                    self._post_processed(encoder.pool(each, self.pooling), next(numbers))
                    for encoder, each in zip(encoders, channels, strict=True)
                ],
                dim=1,
            )
            for encoders, channels in zip(self.encoders, encoded, strict=True)
        ]
        joined: Tensor = self.join(views)
        return joined

    def _post_processed(self, vectors: Tensor, number: int) -> Tensor:
        """Post-process an encoder's vectors ``(n, w)`` as the representation specifies."""
        if self.embedder.representation.remove_component:
            directions, shares = getattr(self, f"directions_{number}"), getattr(self, f"shares_{number}")
            vectors = vectors - (vectors @ directions.T * shares) @ directions
        return F.normalize(vectors, dim=1) if self.embedder.representation.normalise else vectors


class _Join(nn.Module):
    """Joins the vectors of the chosen views into ``(n, d)``, like ``JoinedViews.joined``, but in torch."""

    def __init__(self, embedder: Embedder):
        super().__init__()
        self.join = "" if embedder.only is not None else embedder.representation.join
        self.weights = embedder.representation.weights_of(embedder.chosen) or [1.0] * len(embedder.chosen)
        if self.join == GATED:
            gate = embedder.fitted_gate()
            self.register_buffer("matrix", torch.from_numpy(gate.matrix), persistent=False)
            self.register_buffer("bias", torch.from_numpy(gate.bias), persistent=False)

    def forward(self, views: Sequence[Tensor]) -> Tensor:
        if not self.join:
            return views[0]
        if self.join == "concatenation":
            return torch.cat([view * weight for view, weight in zip(views, self.weights, strict=True)], dim=1)
        units = torch.stack([F.normalize(view, dim=1) for view in views], dim=1)
        if self.join == GATED:
            return gated(units, cast("Tensor", self.matrix), cast("Tensor", self.bias))
        return torch.einsum("k,nkd->nd", units.new_tensor(self.weights), units) / sum(self.weights)


class _Joined(nn.Module):
    """The members of a joined run."""

    def __init__(self, embedder: JoinedEmbedder):
        super().__init__()
        self.embedder = embedder
        self.members = nn.ModuleList(_encoder_of(embedder.members[i]) for i in embedder.chosen)
        self.join = _Join(embedder)

    def forward(self, sentences: Sequence[ParsedSentence], batches: Iterator[Batch]) -> Tensor:
        joined: Tensor = self.join([member(sentences, batches) for member in self.members])
        return joined


class _Untrained(nn.Module):
    """A run without trainable weights."""

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
