"""The built-in parser: tags, dependencies and constituents of the same tokens in one pass."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict

import numpy as np
import torch

from structviews.corpus.sentence import InvalidSentence, ParsedSentence, are_trees, check_tokens
from structviews.errors import InputError
from structviews.parsing.backends import PARSERS
from structviews.parsing.decoding import cky, spanning_trees
from structviews.parsing.features import Featuriser
from structviews.parsing.neural import Outputs, ParserConfig, ParserNetwork
from structviews.parsing.parser import CONSTITUENCY, DEPENDENCY, Options, Unparsed, refuse_argument
from structviews.parsing.quantised import QuantisedNetwork, measured
from structviews.runtime.device import Unfilled, multiplies_bytes, multiplies_half
from structviews.runtime.documents import converted, parse_json
from structviews.runtime.files import write_bytes
from structviews.runtime.processes import report

MODEL_FOLDER = Path(__file__).parent.parent / "models" / "builtin"
# A parser's weights, its settings, and the digest of the two.
FILES = ("model.safetensors", "model.json", "model.sha256")
# Padded words per batch: enough for efficient matrix products, few enough for similar sentence lengths.
BATCH_WORDS = 1024


class ParserSettings(TypedDict):
    """The content of ``model.json``."""

    version: str
    config: dict[str, Any]
    words: list[str]
    tags: list[str]
    relations: list[str]
    labels: list[str]
    ranges: NotRequired[dict[str, tuple[float, float]]]


@PARSERS.register("builtin")
def load(argument: str, options: Options) -> "BuiltinParser":
    """Load the bundled parser; see the registry for the arguments."""
    refuse_argument("builtin", argument)
    if options.language != "en":
        raise InputError(f"--lang {options.language}: builtin only parses English (en): choose another --parser")
    return BuiltinParser()


class BuiltinParser:
    """A trained network with its vocabularies.

    Args:
        folder: contains ``model.safetensors``, ``model.json`` and their digest ``model.sha256`` as written by
            ``save``; by default that of the bundled parser.
        batch_words: padded words per batch.

    Raises:
        InputError: if the folder does not contain a parser, or one that is damaged.
    """

    name = "builtin"
    kinds = frozenset({DEPENDENCY, CONSTITUENCY})
    # It forms its own batches, which are better the more sentences it can choose from.
    batch_tokens = 2**17

    def __init__(self, folder: Path = MODEL_FOLDER, batch_words: int = BATCH_WORDS):
        from safetensors.torch import load  # noqa: PLC0415 - only where weights are read

        try:
            weights_bytes, settings_bytes, digest = ((folder / name).read_bytes() for name in FILES)
            self.hash = hashlib.sha256(weights_bytes + settings_bytes).hexdigest()
            if digest.decode().strip() != self.hash:
                raise ValueError(f"damaged: its files do not match {FILES[-1]}")
            settings = parse_json(settings_bytes, ParserSettings, FILES[1], "copy the parser again")
            weights = {name: weight.float() for name, weight in load(weights_bytes).items()}
            network = network_of(settings, weights).eval()
            self._setup(_fastest(network, settings), settings, network.config.buckets, batch_words)
        except OSError as error:
            reason = f"{error.filename}: {error.strerror}"
            raise InputError(f"{reason}: a built-in parser's folder must contain this file") from None
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise InputError(f"{folder}: not a built-in parser of this version: {reason[:200]}") from None

    def _setup(
        self, network: ParserNetwork | QuantisedNetwork, settings: dict[str, Any], buckets: int, batch_words: int
    ) -> None:
        self.network = network
        self.settings = settings
        self.tags: list[str] = settings["tags"]
        self.relations: list[str] = settings["relations"]
        self.labels: list[str] = settings["labels"]  # labels[0] is "": no constituent
        self.featuriser = Featuriser(settings["words"], buckets)
        self.batch_words = batch_words

    @classmethod
    def from_network(cls, network: ParserNetwork, settings: dict[str, Any]) -> "BuiltinParser":
        """Wrap a network in memory, as training does for evaluation; it has no hash."""
        parser = cls.__new__(cls)
        parser._setup(network.eval(), settings, network.config.buckets, BATCH_WORDS)
        parser.hash = ""
        return parser

    def calibrate(self, sentences: Sequence[Sequence[str]]) -> None:
        """Measure the range of each layer's inputs on real sentences, for quantisation to 8 bits.

        Args:
            sentences: tokenised sentences.
        """
        with measured(self._in_floats()) as ranges:
            self.parse(sentences)
        self.settings = self.settings | {"ranges": ranges}

    def _in_floats(self) -> ParserNetwork:
        if isinstance(self.network, QuantisedNetwork):
            raise TypeError("a parser in 8 bits has no weights to measure or save: make it with from_network")
        return self.network

    def save(self, folder: Path) -> None:
        """Write the weights in half precision and the vocabularies."""
        from safetensors.torch import save  # noqa: PLC0415 - only where weights are written

        weights = {k: v.detach().half().contiguous() for k, v in self._in_floats().state_dict().items()}
        settings = json.dumps(self.settings, ensure_ascii=False, sort_keys=True).encode() + b"\n"
        content = save(weights)
        digest = hashlib.sha256(content + settings).hexdigest().encode() + b"\n"
        folder.mkdir(parents=True, exist_ok=True)
        for name, part in zip(FILES, (content, settings, digest), strict=True):
            write_bytes(folder / name, part)

    def describe(self) -> dict[str, Any]:
        """The manifest's entry, which shows whether two parses come from the same model."""
        return {"name": self.name, "version": self.settings["version"], "settings": {}, "model": self.hash}

    @torch.inference_mode()
    def parse(self, sentences: Sequence[Sequence[str]]) -> list[ParsedSentence | Unparsed]:
        """Parse sentences in order; where the tokens are not a sentence, the result is the reason.

        Sentences of similar length share a batch. The batch only affects the last bits of a sentence's
        scores; the same list gives the same trees.
        """
        faults = [_fault(s) for s in sentences]
        parsed: list[ParsedSentence | Unparsed] = [Unparsed(fault) for fault in faults]
        lengths = np.array([0 if fault else len(s) for s, fault in zip(sentences, faults, strict=True)], dtype=np.int64)
        if not lengths.any():
            return parsed
        words = self._embed(s for s, fault in zip(sentences, faults, strict=True) if not fault)
        for indices in self._batches(lengths):
            batch = [sentences[i] for i in indices]
            for i, sentence in zip(indices, self._parse_batch(batch, words), strict=True):
                parsed[i] = sentence
            report(len(indices))
        return parsed

    def _batches(self, lengths: np.ndarray) -> Iterator[np.ndarray]:
        order = np.argsort(lengths, kind="stable")
        order = order[lengths[order] > 0]
        start = 0
        while start < len(order):
            # The longest sentence of a batch sets its padded size, so look ahead by size.
            sizes = lengths[order[start:]] * np.arange(1, len(order) - start + 1)
            count = max(1, int(np.searchsorted(sizes, self.batch_words, side="right")))
            yield order[start : start + count]
            start += count

    def _embed(self, sentences: Iterable[Sequence[str]]) -> "Words":
        """Embed each distinct word of the sentences once."""
        distinct = list(dict.fromkeys(chain.from_iterable(sentences)))
        features = torch.from_numpy(self.featuriser(distinct))
        vectors = torch.cat([self.network.words(part) for part in features.split(self.batch_words)])
        return Words({word: i for i, word in enumerate(distinct)}, vectors)

    def _parse_batch(self, sentences: Sequence[Sequence[str]], words: "Words") -> Iterator[ParsedSentence]:
        lengths = np.array([len(s) for s in sentences], dtype=np.int64)
        mask = torch.from_numpy(np.arange(lengths.max()) < lengths[:, None])
        outputs = self.network.outputs(words.padded(sentences, mask.numpy()), mask)
        tags = outputs.tags.argmax(dim=-1).numpy()[mask.numpy()]
        heads, relations = self._dependencies(outputs, lengths)
        left, right, word_labels, node_labels = self._constituents(outputs.posts, mask, lengths)
        names = [named(self.tags, tags), heads.tolist(), named(self.relations, relations)]
        nodes = [left.tolist(), right.tolist()]
        labels = named(self.labels, word_labels), named(self.labels, node_labels)
        # A sentence's own checks report what is wrong, and are faster for one.
        make: Callable[..., ParsedSentence] = ParsedSentence
        if len(sentences) > 1 and are_trees(lengths, heads, left, right).all():
            make = ParsedSentence.unchecked
        word = node = 0
        for sentence, length in zip(sentences, lengths.tolist(), strict=True):
            own, inner = slice(word, word + length), slice(node, node + length - 1)
            word, node = own.stop, inner.stop
            yield make(
                tuple(sentence),
                *(tuple(each[own]) for each in names),
                *(tuple(each[inner]) for each in nodes),
                (*labels[0][own], *labels[1][inner]),
            )

    def _dependencies(self, outputs: Outputs, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Heads and relation ids of all words, flat."""
        heads = spanning_trees(outputs.arcs.float().numpy(), lengths)
        sentence, word = np.nonzero(np.arange(1, heads.shape[1]) <= lengths[:, None])
        flat_heads = heads[sentence, word + 1]
        first = sentence * heads.shape[1]
        arcs = [
            side.flatten(0, 1).index_select(0, torch.from_numpy(first + position))
            for side, position in ((outputs.dependents, word + 1), (outputs.heads, flat_heads))
        ]
        scores = self.network.relations.pairs(*arcs).float()
        return flat_heads, self._choose_relations(scores, flat_heads == 0)

    def _choose_relations(self, scores: torch.Tensor, is_root: np.ndarray) -> np.ndarray:
        """The best relation of each word: ``root`` for the root's child, never for another word."""
        root = self.relations.index("root")
        scores[:, root] = -torch.inf
        chosen = scores.argmax(dim=-1).numpy()
        chosen[is_root] = root
        return chosen

    def _constituents(
        self, posts: Any, mask: torch.Tensor, lengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Children of the internal nodes, label ids of the words and of the internal nodes, flat."""
        gains = self.network.spans.gains(posts).numpy()
        trees = cky(gains, lengths)
        sentence, word = np.nonzero(mask.numpy())
        sentence = np.concatenate([sentence, trees.sentence])
        start = np.concatenate([word, trees.start])
        end = np.concatenate([word + 1, trees.end])
        # An optional constituent is kept if it raises the score.
        labelled = gains[end - start, start, sentence] > 0
        labelled[len(word) :] |= trees.whole
        spans = (torch.from_numpy(each[labelled]) for each in (sentence, start, end))
        labels = np.zeros(len(labelled), dtype=np.int64)
        labels[labelled] = self.network.spans(posts, *spans)[:, 1:].argmax(dim=-1).numpy() + 1
        return trees.left, trees.right, labels[: len(word)], labels[len(word) :]


def _fastest(network: ParserNetwork, settings: ParserSettings) -> ParserNetwork | QuantisedNetwork:
    """The network in 8 bits or bf16 where the CPU multiplies them; both cost almost no accuracy (docs/parser.md)."""
    if "ranges" in settings and multiplies_bytes():
        return QuantisedNetwork(network, settings["ranges"])
    return network.bfloat16() if multiplies_half(torch.device("cpu")) else network


def network_of(settings: ParserSettings, weights: dict[str, torch.Tensor]) -> ParserNetwork:
    """The network that the settings describe, with its weights.

    Raises:
        ValueError: if these do not fit one another, or a weight is not finite.
    """
    config = converted(settings["config"], ParserConfig, FILES[1], "copy the parser again")
    with torch.device("meta"), Unfilled():  # before the settings ask for more memory than the weights have
        wanted = ParserNetwork(config).state_dict()
    if {name: each.shape for name, each in wanted.items()} != {name: each.shape for name, each in weights.items()}:
        raise ValueError(f"{FILES[0]} has weights of other shapes than {FILES[1]} says")
    names = {"words": config.n_words, "tags": config.n_tags, "relations": config.n_relations, "labels": config.n_labels}
    for name, count in names.items():
        if len(set(settings[name])) != count:  # type: ignore[literal-required]
            raise ValueError(f"{FILES[1]} does not have {count} {name}")
    if "root" not in settings["relations"]:
        raise ValueError(f"{FILES[1]} has no relation 'root'")
    if not all(each.isfinite().all() for each in weights.values()):
        raise ValueError(f"{FILES[0]} has weights that are not finite")
    with Unfilled():
        network = ParserNetwork(config)
    network.load_state_dict(weights)
    return network


class Words(NamedTuple):
    """Distinct words with their embeddings.

    Attributes:
        ids: the row of each of the V words.
        vectors: ``(V, D)``.
    """

    ids: dict[str, int]
    vectors: torch.Tensor

    def padded(self, sentences: Sequence[Sequence[str]], mask: np.ndarray) -> torch.Tensor:
        """The embeddings ``(B, n, D)`` of the sentences' words; arbitrary where ``mask (B, n)`` is false."""
        rows = np.zeros(mask.shape, dtype=np.int64)
        rows[mask] = np.fromiter(map(self.ids.__getitem__, chain.from_iterable(sentences)), np.int64)
        return torch.nn.functional.embedding(torch.from_numpy(rows), self.vectors)


def named(names: Sequence[str], ids: np.ndarray) -> list[str]:
    """Map ids to names."""
    found: list[str] = np.array(names, dtype=object)[ids].tolist()
    return found


def _fault(tokens: Sequence[str]) -> str:
    """The reason why tokens are not a sentence; empty if they are."""
    try:
        check_tokens(tokens)
    except InvalidSentence as error:
        return str(error)
    return ""
