"""Encoders that turn sentences into vectors: runs of structviews, and transformers of published sizes.

Weights are random but for the bundled model's: speed does not depend on them.
"""

import copy
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel, MPNetConfig, MPNetModel, PreTrainedTokenizerFast

from benchmarks import forward_flops
from structviews import Embedder
from structviews.encoding.embedder import Pool
from structviews.encoding.encoding_pool import open_pool
from structviews.encoding.kinds.trained import TrainedEmbedder
from structviews.model import build_model
from structviews.runs.folder import SUB_WORDS
from structviews.runs.settings_file import save_config
from structviews.runs.weights import save_vocabularies, save_weights
from structviews.runs.which_vectors import Representation
from structviews.training.baselines import RANDOM

RAW, PREPARED = "raw", "prepared"
BUNDLED = "default"
RUNS = {BUNDLED: (), "seq,seq": ("seq", "seq"), "avg,avg": ("avg", "avg")}
"""Runs by name, with the views of those to be made."""


class Encoder(Protocol):
    """What is raced.

    Attributes:
        name: of the model.
        given: ``raw`` text, or sentences ``prepared`` (tokenised and, for trees, parsed) beforehand.
        precision: of its products: ``fp32``, ``bf16`` or ``int8``.
        processes: that it uses, with one thread each; 1 for this one, with any number of threads.
    """

    name: str
    given: str
    precision: str
    processes: int

    def prepare(self, texts: Sequence[str]) -> Sequence[Any]:
        """What ``encode`` takes."""

    def encode(self, sentences: Sequence[Any], batch_size: int) -> np.ndarray:
        """Vectors ``(n, d)``, float32."""

    def operations(self, sentences: Sequence[Any]) -> int | None:
        """Operations of the matrix products that some sentences need, as one batch; None if that is not known."""


class Run:
    """A run; see ``Encoder``."""

    processes = 1

    def __init__(self, name: str, given: str, precision: str, embedder: TrainedEmbedder):
        self.name, self.given, self.precision, self.embedder = name, given, precision, embedder

    def prepare(self, texts: Sequence[str]) -> Sequence[Any]:
        return self.embedder.prepare(texts) if self.given == PREPARED else texts

    def encode(self, sentences: Sequence[Any], batch_size: int) -> np.ndarray:
        return self.embedder.encode(sentences, batch_size)

    def operations(self, sentences: Sequence[Any]) -> int | None:
        if self.given == RAW:  # the parser's products are in other precisions
            return None
        ((name, channel),) = self.embedder.model.each()
        known = self.embedder.vocabularies[name]
        words = [forward_flops.Words(known.ids(each.tokens).tolist(), each) for each in sentences]
        return sum(forward_flops.of_view(view, words) for view in channel.views)


class Processes(Run):
    """A run in several processes."""

    def __init__(self, name: str, precision: str, embedder: TrainedEmbedder, pool: Pool, processes: int):
        super().__init__(name, f"{RAW}, {processes} processes", precision, embedder)
        self.pool, self.processes = pool, processes

    def encode(self, sentences: Sequence[Any], batch_size: int) -> np.ndarray:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # this process is one of them
        try:
            return self.embedder.encode(sentences, batch_size, pool=self.pool)
        finally:
            torch.set_num_threads(threads)

    def operations(self, sentences: Sequence[Any]) -> int | None:
        return None


class Size(NamedTuple):
    """Size of a transformer.

    Attributes:
        make: builds it from layers, width, heads, inner and the tokeniser.
        layers, width, heads: as usual.
        inner: width of the feed-forward part.
    """

    make: Callable[["Size", PreTrainedTokenizerFast], nn.Module]
    layers: int
    width: int
    heads: int
    inner: int


class Transformer:
    """A transformer with mean pooling and vectors of length 1, as sentence-transformers runs it; see ``Encoder``."""

    given = RAW
    processes = 1

    def __init__(self, name: str, precision: str, size: Size, model: nn.Module, tokeniser: PreTrainedTokenizerFast):
        self.name, self.precision, self.size, self.tokeniser = name, precision, size, tokeniser
        self.model = PRECISIONS[precision](model)

    def prepare(self, texts: Sequence[str]) -> Sequence[Any]:
        return texts

    @torch.inference_mode()
    def encode(self, sentences: Sequence[str], batch_size: int) -> np.ndarray:
        order = np.argsort([-len(sentence) for sentence in sentences], kind="stable")
        vectors = np.empty((len(sentences), self.size.width), dtype=np.float32)
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            vectors[rows] = self._vectors([sentences[i] for i in rows]).numpy()
        return vectors

    def _vectors(self, sentences: list[str]) -> Tensor:
        pieces = self.tokeniser(sentences, padding=True, return_tensors="pt")
        mask = pieces["attention_mask"]
        states = self.model(input_ids=pieces["input_ids"], attention_mask=mask).last_hidden_state
        means = (states * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        return nn.functional.normalize(means.float())

    def operations(self, sentences: Sequence[str]) -> int:
        lengths = [len(pieces) for pieces in self.tokeniser(list(sentences))["input_ids"]]
        return forward_flops.of_transformer(self.size.layers, self.size.width, self.size.inner, lengths)


def int8(model: nn.Module) -> nn.Module:
    """A copy whose linear layers multiply in 8 bits, with PyTorch's own dynamic quantisation."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated in favour of another package
        quantised: nn.Module = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, torch.qint8)
    return quantised


PRECISIONS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "fp32": lambda model: model,
    "bf16": lambda model: copy.deepcopy(model).to(torch.bfloat16),
    "int8": int8,
}
"""How a transformer gets its precision."""


def bert(size: Size, tokeniser: PreTrainedTokenizerFast) -> nn.Module:
    """BERT without its pooler, with PyTorch's fused attention."""
    config = BertConfig(vocab_size=len(tokeniser), attn_implementation="sdpa", **shape(size))
    return BertModel(config, add_pooling_layer=False)


def mpnet(size: Size, tokeniser: PreTrainedTokenizerFast) -> nn.Module:
    """MPNet without its pooler; transformers has no fused attention for it."""
    pad = tokeniser.pad_token_id
    config = MPNetConfig(vocab_size=len(tokeniser), pad_token_id=pad, max_position_embeddings=514, **shape(size))
    return MPNetModel(config, add_pooling_layer=False)


def shape(size: Size) -> dict[str, int]:
    """A size in the words of transformers."""
    return {
        "num_hidden_layers": size.layers,
        "hidden_size": size.width,
        "num_attention_heads": size.heads,
        "intermediate_size": size.inner,
    }


REFERENCE = "all-MiniLM-L6-v2"
SIZES = {
    REFERENCE: Size(bert, 6, 384, 12, 1536),
    "all-MiniLM-L12-v2": Size(bert, 12, 384, 12, 1536),
    "all-mpnet-base-v2": Size(mpnet, 12, 768, 12, 3072),
}
NAMES = (*RUNS, *SIZES)


@contextmanager
def encoders(
    names: Sequence[str], precisions: Sequence[str], threads: Sequence[int], tokeniser: PreTrainedTokenizerFast
) -> Iterator[list[Encoder]]:
    """The encoders of these names, in each precision that they have.

    Args:
        names: some of ``NAMES``.
        precisions: some of ``PRECISIONS``.
        threads: numbers of threads; the bundled model also runs in as many processes.
        tokeniser: of the transformers.
    """
    found: list[Encoder] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        for name in names:
            if name in SIZES:
                model = SIZES[name].make(SIZES[name], tokeniser).eval()
                found += [Transformer(name, precision, SIZES[name], model, tokeniser) for precision in precisions]
                continue
            embedders = in_precisions(random_run(RUNS[name], folder / name) if RUNS[name] else name, precisions)
            for precision, embedder in embedders.items():
                found += [Run(name, given, precision, embedder) for given in (RAW, PREPARED)]
                for processes in set(threads) - {1} if name == BUNDLED else ():
                    torch.set_num_threads(processes)  # which they share
                    pool = stack.enter_context(open_pool(embedder, processes))
                    found.append(Processes(name, precision, embedder, pool, processes))
        yield found


def in_precisions(run: str | Path, precisions: Sequence[str]) -> dict[str, TrainedEmbedder]:
    """A run in each precision that it has on this CPU."""
    embedder = Embedder.load(run)
    assert isinstance(embedder, TrainedEmbedder)
    return {precision: embedder.with_precision(precision) for precision in precisions if precision != "int8"}


def random_run(views: Sequence[str], folder: Path) -> Path:
    """A random run with the bundled model's words, sub-words and sizes, and other views."""
    bundled = Embedder.load(BUNDLED)
    assert isinstance(bundled, TrainedEmbedder)
    ((name, channel),) = bundled.model.each()
    own = replace(bundled.config.views, names=tuple(views), options={})
    config = replace(bundled.config, views=own, representation=Representation())
    folder.mkdir()
    save_vocabularies(folder, bundled.vocabularies)
    for path in bundled.folder.glob(SUB_WORDS):
        shutil.copyfile(path, folder / path.name)
    model = build_model(config, bundled.vocabularies, channel.tables[0].weight)
    # Not strictly: only one of the two may have views that read how frequent words are.
    model.channels[name].words.load_state_dict(channel.words.state_dict(), strict=False)
    save_weights(folder, model)
    save_config(folder, config, bundled.parsed, RANDOM)
    return folder
