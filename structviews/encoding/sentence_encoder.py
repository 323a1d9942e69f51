"""A run's encoders as a PyTorch module, frozen or trainable, for custom heads and losses.

Shapes: n sentences, d dimensions of a sentence's vector.
"""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, cast

import torch
from torch import Tensor, nn

from structviews.batches.batch import Batch
from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.embedder import Embedder
from structviews.encoding.kinds.joined import LEFT_BEHIND
from structviews.encoding.kinds.trained import TrainedEmbedder
from structviews.encoding.preparation import Sentence
from structviews.encoding.word_limit import WordLimit
from structviews.errors import InputError, names_checked
from structviews.parsing.parser import Parser
from structviews.runs.folder import WEIGHTS, check_outside
from structviews.runs.weights import write_weights
from structviews.runs.which_vectors import Representation
from structviews.views.view import Encoded, WordTable


@dataclass(frozen=True)
class Prepared:
    """Sentences with the trees that a run needs."""

    sentences: list[ParsedSentence]
    batch: Batch | None = None  # the same as integers, if the run has trained encoders
    members: "Sequence[Prepared]" = ()  # the same for each member of a joined run that is encoded

    def __len__(self) -> int:
        return len(self.sentences)

    def to(self, device: torch.device | str) -> "Prepared":
        """The same on ``device``."""
        batch = self.batch.to(device) if self.batch else None
        return Prepared(self.sentences, batch, [member.to(device) for member in self.members])


class SentenceEncoder(nn.Module):
    """Encodes sentences as the same vectors ``(n, d)`` as ``Embedder.encode``, with gradients.

    The ``embedder`` is a run with the desired representation, whose ``model`` becomes part of this module; of a joined
    run, ``members`` are those that are encoded, as modules. Trained and random runs and joins of them have weights,
    which require gradients if ``trainable``; other baselines have none. Components that the representation removes stay
    fixed. Raises InputError if the representation is transductive, or the run does not have it.
    """

    def __init__(self, embedder: Embedder, trainable: bool = True):
        super().__init__()
        if embedder.choice.is_transductive:
            raise InputError("transductive = true: cannot be trained, as it depends on all sentences: leave it out")
        self.embedder = embedder
        self.vectors = embedder.sentence_vectors()
        self.model = embedder.model if isinstance(embedder, TrainedEmbedder) else None
        chosen = embedder.chosen if embedder.members else []
        self.members = nn.ModuleList(SentenceEncoder(embedder.members[i], trainable) for i in chosen)
        if self.model is not None:
            self.model.requires_grad_(trainable)
            for channel in self.model.channels.values():  # parameters used only by an objective never require gradients
                channel.objective.requires_grad_(trainable and bool(channel.objective.extra_names))
            for table in self.model.modules():
                if isinstance(table, WordTable):
                    table.sparse = False
        # Moves with the module and so shows its device.
        self.register_buffer("marker", torch.empty(0), persistent=False)
        self.to(embedder.device)

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
        """Load a run; see ``Embedder.load``, and ``trainable`` above."""
        embedder = Embedder.load(run, parser, representation, max_tokens=max_tokens, overlong=overlong)
        return cls(embedder, trainable)

    @property
    def dim(self) -> int:
        """Dimensions d of a sentence's vector."""
        return self.embedder.dim

    def prepare(self, sentences: Iterable[Sentence]) -> list[ParsedSentence]:
        """Tokenise and parse: the slow step, which is needed only once; see ``Embedder.prepare``."""
        return self.embedder.prepare(sentences)

    @property
    def device(self) -> torch.device:
        """The module's device."""
        return self.get_buffer("marker").device

    def collate(self, sentences: Iterable[Sentence]) -> Prepared:
        """Prepare sentences and convert them to integers; use as the ``collate_fn`` of a ``DataLoader``."""
        prepared, embedder, chosen = self.prepare(sentences), self.embedder, self.embedder.chosen
        batch = embedder.collate(chosen, prepared) if prepared and isinstance(embedder, TrainedEmbedder) else None
        # Members with parsers of their own receive tokens without trees.
        members = cast("list[SentenceEncoder]", [*self.members])
        return Prepared(prepared, batch, [member.collate(prepared) for member in members])

    def forward(self, sentences: Iterable[Sentence] | Prepared) -> Tensor:
        """Vectors ``(n, d)``, float32, on the module's device; the sentences as for ``encode``, or from ``collate``.

        Raises InputError if something is not a sentence, is longer than the limit or cannot be parsed.
        """
        ready = (sentences if isinstance(sentences, Prepared) else self.collate(sentences)).to(self.device)
        if not ready.sentences:
            return torch.empty(0, self.dim, device=self.device)
        if self.members:
            encoded = [[Encoded(member(own))] for member, own in zip(self.members, ready.members, strict=True)]
        elif self.model is not None and ready.batch is not None:
            encoded = self.model.encode(ready.batch, self.vectors.read_states, self.vectors.chosen)
        else:
            encoded = self.embedder.encode_batch(self.vectors, ready.sentences)
        pooled = {key: each.to(self.device) for key, each in self.vectors.pool(encoded).items()}
        return self.vectors.join(self.vectors.of_views(pooled))

    def save(self, folder: str | Path) -> None:
        """Save as a run with the current weights, without training state, logs and scores.

        Raises InputError if the run was created in memory, or ``folder`` is inside it.
        """
        run, folder = self.embedder.folder, Path(folder).resolve()
        check_outside(run, folder)
        parts = [part for part in self.modules() if isinstance(part, SentenceEncoder)]
        models = {part.embedder.folder: part.model for part in parts if part.model is not None}
        left_behind = shutil.ignore_patterns(*LEFT_BEHIND)

        def ignored(inside: str, names: list[str]) -> set[str]:
            # Weights come last, so that a half-written run has none, and not those of before.
            return left_behind(inside, names) | ({WEIGHTS} if Path(inside) in models else set())

        if folder != run.resolve():
            shutil.copytree(run, folder, ignore=ignored, dirs_exist_ok=True)
        for path, model in models.items():
            write_weights(folder / path.relative_to(run), model.state_dict())
