"""The built-in parser: tags, dependencies and constituents of the same tokens in one pass."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast

import numpy as np
import torch

from structviews.corpus.sentence import CONFIDENCE, ParsedSentence
from structviews.corpus.tree_arrays import are_constituents, are_dependencies
from structviews.errors import InputError
from structviews.parsing import neural
from structviews.parsing.backends import BUNDLED, PARSERS
from structviews.parsing.decoding import cky, marginals, spanning_trees
from structviews.parsing.parser import CONSTITUENCY, DEPENDENCY, KINDS, Options, batches
from structviews.parsing.quantised import QuantisedNetwork, measured
from structviews.runtime.arrays import Array
from structviews.runtime.device import Unfilled, multiplies_half, quick_arithmetic
from structviews.runtime.documents import checked, parse_json
from structviews.runtime.files import write_whole
from structviews.runtime.processes import report
from structviews.runtime.threads import in_threads
from structviews.runtime.wording import reason

MODEL_FOLDER = Path(__file__).parent.parent / "models" / "builtin"
# A parser's weights, its settings, and the digest of the two.
FILES = ("model.safetensors", "model.json", "model.sha256")
# Padded words per batch: enough for efficient matrix products, few enough for similar sentence lengths.
BATCH_WORDS = 1024
# What scores of heads and of labels are divided by for the confidence, which would be too high otherwise (temperature
# scaling, Guo et al. 2017): the best for GUM's development part.
HEADS_TEMPERATURE, LABELS_TEMPERATURE = 1.75, 1.5


class ParserSettings(TypedDict):
    """The content of ``model.json``."""

    version: str
    config: dict[str, Any]
    words: list[str]
    tags: list[str]
    relations: list[str]
    labels: list[str]
    ranges: NotRequired[dict[str, tuple[float, float]]]
    kinds: NotRequired[list[str]]  # of trees; both if missing
    language: NotRequired[str]  # English if missing


@PARSERS.register(BUNDLED)
def load(argument: str, options: Options) -> "BuiltinParser":
    """Load the bundled parser, or the one in the folder ``argument``; see the registry for the arguments."""
    parser = BuiltinParser.read(Path(argument) if argument else MODEL_FOLDER)
    parser.confidence = options.confidence
    if options.language != (own := parser.settings.get("language", "en")):
        remedy = f"add --lang {own}" if argument else "choose --parser stanza or another"
        only = "English" if own == "en" else f"the language {own!r}"
        raise InputError(f"--lang {options.language}: {argument or 'builtin'} only parses {only}: {remedy}")
    return parser


class BuiltinParser:
    """A trained network, in floats or in 8 bits, with its vocabularies; only one of floats can be calibrated and saved.

    ``settings`` are the content of ``model.json``, and ``model`` is the hash of the files that they were read from.
    """

    # It forms its own batches, which are better the more sentences it can choose from.
    batch_tokens = 2**17
    confidence = False  # whether sentences say how sure it is

    def __init__(self, network: neural.ParserNetwork | QuantisedNetwork, settings: ParserSettings, model: str = ""):
        self.network = network.eval() if isinstance(network, neural.ParserNetwork) else network
        self.settings = settings
        self.kinds = frozenset(settings.get("kinds", KINDS))
        self.model = model
        self.featuriser = neural.Featuriser(settings["words"], settings["config"]["buckets"])
        names = settings["tags"], settings["relations"], settings["labels"]
        self.tags, self.relations, self.labels = (np.array(each, dtype=object) for each in names)  # by id

    @classmethod
    def read(cls, folder: Path = MODEL_FOLDER) -> "BuiltinParser":
        """The parser in a folder with ``model.safetensors``, ``model.json`` and their digest ``model.sha256``.

        Raises InputError if the folder, by default that of the bundled parser, has no parser, or one that is damaged.
        """
        from safetensors.torch import load  # noqa: PLC0415 - only where weights are read

        try:
            weights_bytes, settings_bytes, digest = ((folder / name).read_bytes() for name in FILES)
            model = hashlib.sha256(weights_bytes + settings_bytes).hexdigest()
            if digest.decode().strip() != model:
                raise ValueError(f"damaged: its files do not match {FILES[-1]}")
            settings = parse_json(settings_bytes, ParserSettings, FILES[1], "copy the parser again")
            config = checked(settings["config"], neural.ParserConfig, FILES[1], "copy the parser again")
            with torch.device("meta"), Unfilled():  # takes no memory, whatever the settings ask for
                network = neural.ParserNetwork(config)
            weights = {name: weight.float() for name, weight in load(weights_bytes).items()}
            try:
                network.load_state_dict(weights, assign=True)
            except RuntimeError:
                raise ValueError(f"{FILES[0]} has weights of other shapes than {FILES[1]} says") from None
            for name in ("words", "tags", "relations", "labels"):
                if len(set(settings[name])) != (count := getattr(config, f"n_{name}")):
                    raise ValueError(f"{FILES[1]} does not have {count} {name}")
            if "root" not in settings["relations"]:
                raise ValueError(f"{FILES[1]} has no relation 'root'")
            if not all(each.isfinite().all() for each in weights.values()):
                raise ValueError(f"{FILES[0]} has weights that are not finite")
            # 8 bits and bf16 cost almost no accuracy (docs/parser.md).
            if "ranges" in settings and "int8" in quick_arithmetic():
                return cls(QuantisedNetwork(network, settings["ranges"]), settings, model)
            return cls(network.bfloat16() if multiplies_half(torch.device("cpu")) else network, settings, model)
        except OSError as error:
            raise InputError(
                f"{error.filename}: {error.strerror}: finish the parser's training, or give another folder"
            ) from None
        except Exception as error:
            raise InputError(f"{folder}: not a built-in parser of this version: {reason(error)}") from None

    @property
    def _floats(self) -> neural.ParserNetwork:
        if isinstance(self.network, QuantisedNetwork):
            raise TypeError("a parser in 8 bits has no weights to measure or save: give it a network of floats")
        return self.network

    def calibrate(self, sentences: Sequence[Sequence[str]]) -> None:
        """Measure the range of each layer's inputs on tokenised sentences, for quantisation to 8 bits."""
        with measured(self._floats) as ranges:
            self.parse(sentences)
        self.settings = cast(ParserSettings, {**self.settings, "ranges": ranges})

    def save(self, folder: Path) -> None:
        """Write the weights in half precision and the vocabularies."""
        from safetensors.torch import save  # noqa: PLC0415 - only where weights are written

        weights = save({name: each.half().contiguous() for name, each in self._floats.state_dict().items()})
        settings = json.dumps(self.settings, ensure_ascii=False, sort_keys=True).encode() + b"\n"
        digest = hashlib.sha256(weights + settings).hexdigest().encode() + b"\n"
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in zip(FILES, (weights, settings, digest), strict=True):
            write_whole(folder / name, content)

    def describe(self) -> dict[str, Any]:
        """The manifest's entry, which shows whether two parses come from the same model."""
        return {"name": BUNDLED, "version": self.settings["version"], "settings": {}, "model": self.model}

    @torch.inference_mode()
    def parse(self, sentences: Sequence[Sequence[str]]) -> list[ParsedSentence]:
        """Parse sentences in order; the same list gives the same trees.

        Those of similar length share a batch, which only affects the last bits of a sentence's scores.
        """
        if not sentences:
            return []
        # Each distinct word is embedded once.
        rows = {word: i for i, word in enumerate(dict.fromkeys(chain.from_iterable(sentences)))}
        features = torch.from_numpy(self.featuriser(rows))
        embed = torch.inference_mode()(self.network.words)
        vectors = torch.cat([*in_threads(embed, features.split(BATCH_WORDS))])
        parsed: dict[int, ParsedSentence] = {}
        parse = partial(self._parse_batch, sentences, rows, vectors)
        for trees in in_threads(parse, batches(list(map(len, sentences)), BATCH_WORDS)):
            parsed.update(trees)
            report(len(trees))
        return [parsed[i] for i in range(len(sentences))]

    @torch.inference_mode()
    def _parse_batch(
        self, sentences: Sequence[Sequence[str]], rows: Mapping[str, int], vectors: torch.Tensor, indices: Sequence[int]
    ) -> dict[int, ParsedSentence]:
        """Those of the sentences with these ``indices``, from the ``vectors (words, D)`` in their words' ``rows``."""
        batch = [sentences[i] for i in indices]
        lengths = np.array([len(tokens) for tokens in batch])
        mask = np.arange(lengths.max()) < lengths[:, None]
        words = np.zeros(mask.shape, dtype=np.int64)
        words[mask] = np.fromiter(map(rows.__getitem__, chain.from_iterable(batch)), np.int64)
        embedded = torch.nn.functional.embedding(torch.from_numpy(words), vectors)
        outputs = self.network.outputs(embedded, torch.from_numpy(mask))
        tags = self.tags[outputs.tags.argmax(dim=-1).numpy()[mask]].tolist() if len(self.tags) > 1 else []
        heads = relations = left = right = word_labels = node_labels = np.zeros(0, dtype=np.int64)
        valid = np.full(len(batch), len(batch) > 1)
        sure = np.full((len(CONFIDENCE), len(batch)), np.nan)
        if DEPENDENCY in self.kinds:
            heads, relations = self._dependencies(outputs, lengths, sure[:2])
            valid &= are_dependencies(heads, lengths)
        if CONSTITUENCY in self.kinds:
            left, right, word_labels, node_labels = self._constituents(outputs.posts, lengths, sure[2:])
            valid &= are_constituents(left, right, lengths)
        confidence = map(tuple, sure.T.tolist()) if self.confidence else repeat(())
        of_words = tags, heads.tolist(), self.relations[relations].tolist()
        of_nodes = left.tolist(), right.tolist()
        labels = self.labels[word_labels].tolist(), self.labels[node_labels].tolist()
        # A sentence's own checks report what is wrong, and are faster for one.
        make: Callable[..., ParsedSentence] = ParsedSentence.unchecked if valid.all() else ParsedSentence
        trees: dict[int, ParsedSentence] = {}
        word = node = 0
        for i, tokens, of_sentence in zip(indices, batch, confidence, strict=False):
            own, inner = slice(word, word + len(tokens)), slice(node, node + len(tokens) - 1)
            word, node = own.stop, inner.stop
            trees[i] = make(
                tuple(tokens),
                *(tuple(each[own]) for each in of_words),
                *(tuple(each[inner]) for each in of_nodes),
                (*labels[0][own], *labels[1][inner]),
                confidence=of_sentence,
            )
        return trees

    def _dependencies(self, outputs: neural.Outputs, lengths: Array, sure: Array) -> tuple[Array, Array]:
        """Heads and relation ids of all words, flat; fills in how ``sure (2, B)`` it is of the heads, if asked for."""
        arc_scores = outputs.arcs.float().numpy()
        heads = spanning_trees(arc_scores, lengths)
        sentence, word = np.nonzero(np.arange(1, heads.shape[1]) <= lengths[:, None])
        flat_heads = heads[sentence, word + 1]
        if self.confidence:
            found = marginals(arc_scores / HEADS_TEMPERATURE, lengths)[sentence, word + 1, flat_heads]
            sure[:] = product_and_mean(found, sentence, len(lengths))
        first = sentence * heads.shape[1]
        arcs = [
            side.flatten(0, 1).index_select(0, torch.from_numpy(first + position))
            for side, position in ((outputs.dependents, word + 1), (outputs.heads, flat_heads))
        ]
        scores = neural.in_blocks(self.network.relations, neural.ARCS, *arcs).float()
        # The relation of the root's child is ``root``, and that of no other word.
        root = self.settings["relations"].index("root")
        scores[:, root] = -torch.inf
        chosen = scores.argmax(dim=-1).numpy()
        chosen[flat_heads == 0] = root
        return flat_heads, chosen

    def _constituents(self, posts: neural.Fenceposts, lengths: Array, sure: Array) -> tuple[Array, Array, Array, Array]:
        """Children of the internal nodes, label ids of the words and of the internal nodes, flat.

        Fills in how ``sure (2, B)`` it is of the constituents' labels, if asked for.
        """
        best = neural.gains(self.network.spans, posts).numpy()
        trees = cky(best, lengths)
        sentence, word = np.nonzero(np.arange(best.shape[1]) < lengths[:, None])
        sentence = np.concatenate([sentence, trees.sentence])
        start = np.concatenate([word, trees.start])
        end = np.concatenate([word + 1, trees.end])
        # An optional constituent is kept if it raises the score.
        labelled = best[end - start, start, sentence] > 0
        labelled[len(word) :] |= trees.whole
        first_post = sentence * len(best)
        spans = (torch.from_numpy((first_post + each)[labelled]) for each in (start, end))
        labels = np.zeros(len(labelled), dtype=np.int64)
        scores = self.network.spans(posts, *spans).float()
        labels[labelled] = scores[:, 1:].argmax(dim=-1).numpy() + 1
        if self.confidence:
            probabilities = (scores / LABELS_TEMPERATURE).softmax(dim=-1)[:, 1:].amax(dim=-1).numpy()
            sure[:] = product_and_mean(probabilities, sentence[labelled], len(lengths))
        return trees.left, trees.right, labels[: len(word)], labels[len(word) :]


def product_and_mean(probabilities: Array, sentence: Array, n: int) -> Array:
    """The product and the mean ``(2, n)`` of the probabilities ``(N,)`` of each of n sentences; 1 if it has none.

    Rounding can leave a marginal a little outside 0 to 1.
    """
    clipped = probabilities.astype(np.float64).clip(1e-12, 1)
    counts = np.bincount(sentence, minlength=n)
    logarithms, total = (np.bincount(sentence, each, minlength=n) for each in (np.log(clipped), clipped))
    return np.stack([np.exp(logarithms), np.where(counts > 0, total / np.maximum(counts, 1), 1)])
