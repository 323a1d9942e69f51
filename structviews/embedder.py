"""Sentences to vectors, with a trained run.

Shapes: n sentences, d length of a vector.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import torch

from structviews.batching import collate
from structviews.checkpoint import load_weights
from structviews.config import Parsed, TrainConfig, load_run
from structviews.device import best_device
from structviews.errors import InputError
from structviews.model import Model
from structviews.sentence import ParsedSentence
from structviews.training import CHANNEL, VOCABULARY, build_model
from structviews.vocabulary import Vocabulary

if TYPE_CHECKING:
    from structviews.parsing.backends import Parser

Sentence = str | Sequence[str] | ParsedSentence
Progress = Callable[[int, int], None]


class Embedder:
    """A trained run, ready to encode.

    Args:
        config: the run's settings.
        parsed: what it was trained on.
        model: the trained model.
        vocabularies: by channel.
        parser: gives trees to sentences that come without; by default the one that parsed the
            training corpus, loaded when first needed.
    """

    def __init__(
        self,
        config: TrainConfig,
        parsed: Parsed,
        model: Model,
        vocabularies: dict[str, Vocabulary],
        parser: "Parser | None" = None,
    ):
        self.config = config
        self.parsed = parsed
        self.device = best_device()
        self.model = model.to(self.device).eval()
        self.vocabularies = vocabularies
        self._parser = parser

    @classmethod
    def load(cls, run: str | Path, parser: "Parser | None" = None) -> Self:
        """Load a run's folder.

        Raises:
            InputError: if it is not a run, or has no weights yet.
        """
        run = Path(run)
        config, parsed = load_run(run)
        vocabularies = {CHANNEL: Vocabulary.load(run / VOCABULARY)}
        model = build_model(config, vocabularies)
        load_weights(run, model)
        return cls(config, parsed, model, vocabularies, parser)

    @property
    def views(self) -> tuple[str, ...]:
        """Names of the views, in the order of their vectors."""
        return self.config.views

    @property
    def dim(self) -> int:
        """Length d of a sentence's vector: all views, each with all channels."""
        return len(self.views) * self.config.hidden * len(self.vocabularies)

    def encode(
        self, sentences: Sequence[Sentence], batch_size: int = 256, progress: Progress | None = None
    ) -> np.ndarray:
        """Vectors ``(n, d)``, float32, in the order of the sentences: the views side by side.

        A sentence's vector is the same alone and in any batch, to rounding.

        Args:
            sentences: raw strings, which are tokenised and parsed; lists of tokens, which are
                parsed as they are; or parsed sentences. They may be mixed.
            batch_size: sentences encoded together.
            progress: called with the number of sentences done and their total.

        Raises:
            InputError: for a sentence that is empty or cannot be parsed.
        """
        return np.concatenate(self.encode_views(sentences, batch_size, progress), axis=1)

    @torch.inference_mode()
    def encode_views(
        self, sentences: Sequence[Sentence], batch_size: int = 256, progress: Progress | None = None
    ) -> list[np.ndarray]:
        """Vectors ``(n, d / views)`` of each view; see ``encode``."""
        if isinstance(sentences, str):
            raise InputError(f"{sentences[:40]!r}: give a list of sentences, not one string")
        if batch_size < 1:
            raise InputError(f"batch_size = {batch_size}: give at least 1")
        width = self.config.hidden * len(self.vocabularies)
        vectors = [np.empty((len(sentences), width), dtype=np.float32) for _ in self.views]
        prepared = self._prepare(sentences)
        # Sentences of similar length make full batches.
        order = np.argsort([len(s.tokens) for s in prepared], kind="stable")
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            batch = collate([prepared[i] for i in rows], self.vocabularies, self.model.needs).to(self.device)
            for target, encoded in zip(vectors, self.model.vectors(batch), strict=True):
                target[rows] = encoded.float().cpu().numpy()
            if progress:
                progress(start + len(rows), len(order))
        return vectors

    def _prepare(self, sentences: Sequence[Sentence]) -> list[ParsedSentence]:
        """Tokenise what is raw, parse what has no trees that the views need."""
        ready: list[ParsedSentence] = []
        to_parse = []
        for i, sentence in enumerate(sentences):
            parsed = sentence if isinstance(sentence, ParsedSentence) else self._tokens(i, sentence)
            if not self._has_trees(parsed):
                to_parse.append(i)
            ready.append(parsed)
        if to_parse:
            found = self._resolve_parser().parse([ready[i].tokens for i in to_parse])
            for i, parse in zip(to_parse, found, strict=True):
                if not isinstance(parse, ParsedSentence):
                    raise InputError(
                        f"sentence {i + 1}, {' '.join(ready[i].tokens)[:60]!r}: not parsed: {parse.reason}"
                    )
                ready[i] = parse
        return ready

    def _tokens(self, index: int, sentence: str | Sequence[str]) -> ParsedSentence:
        if isinstance(sentence, str):
            from structviews.parsing.text import tokenise  # noqa: PLC0415 - the offline stage loads when it is used

            sentence = tokenise(sentence)
        try:
            return ParsedSentence(tuple(sentence))
        except ValueError as error:
            raise InputError(f"sentence {index + 1}: {error}") from None

    def _has_trees(self, sentence: ParsedSentence) -> bool:
        needs = self.model.needs
        return ("dependency" not in needs or sentence.has_dependencies) and (
            "constituency" not in needs or sentence.has_constituents
        )

    def _resolve_parser(self) -> "Parser":
        if self._parser is None:
            from structviews.parsing.backends import load  # noqa: PLC0415

            # Gold trees parse nothing new.
            name = self.parsed.parser.get("name", "treebank")
            self._parser = load("builtin" if name == "treebank" else name)
        self._warn_if_another(self._parser)
        return self._parser

    def _warn_if_another(self, parser: "Parser") -> None:
        trained_with, given = self.parsed.parser, parser.describe()
        if given != trained_with:
            import warnings  # noqa: PLC0415

            warnings.warn(
                f"these sentences are parsed with {given.get('name')} {given.get('version', '')}, but the run was "
                f"trained on trees of {trained_with.get('name')} {trained_with.get('version', '')}",
                stacklevel=4,
            )
