"""Speed of encoding, side by side with transformers of published sizes.

    python scripts/bench.py encode                                              # data/corpus.txt, some minutes
    python scripts/bench.py encode --text my.txt --words 5 10 20 40 --batches 1 32 256 1024 4096 --threads 1 2
    python scripts/bench.py encode --encoders default all-MiniLM-L6-v2 --precisions bf16 --json race.json

Encoders take turns on different sentences of the same number of words (between white space), from raw text or from
sentences that were prepared: tokenised and, for trees, parsed. The transformers have the sizes of the models that they
are named after and random weights. They run as in sentence-transformers: sorted by length, mean pooling, vectors of
length 1. Their tokeniser is BERT's kind with a vocabulary of the same size learnt from the text, a stand-in whose
pieces a word are printed. With --minilm FOLDER all-MiniLM-L6-v2 itself runs, with its tokeniser, and where onnx and
onnxruntime are installed, its export in 8 bits, too, in the rows of fp32.

Rates are medians over the rounds, by wall and processor time. Ratios are to the best rate of the transformer of
all-MiniLM-L6-v2's size in the same precision, whatever the size of its batches: by processor time with one thread,
which other jobs disturb less, otherwise by wall time. Batches of 1 are single calls, whose times in milliseconds are
printed.
"""

import argparse
import copy
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import product
from math import ceil
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers.implementations import BertWordPieceTokenizer
from torch import Tensor, nn
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertModel,
    MPNetConfig,
    MPNetModel,
    PreTrainedTokenizerFast,
)

from benchmarks.corpora import of_length
from benchmarks.measure import table
from structviews import Embedder

Row = dict[str, Any]
TEXT = Path(__file__).resolve().parents[2] / "data/corpus.txt"
# Size of the vocabulary of all-MiniLM-L6-v2.
PIECES = 30_522
SPECIAL = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
RAW, PREPARED = "raw", "prepared"
BUNDLED = ("default", "default-small")
PRECISIONS = ("fp32", "bf16")
WARM_UP = 3


class Size(NamedTuple):
    """Size of a transformer: layers, width, heads, and the width of the feed-forward part."""

    kind: str
    layers: int
    width: int
    heads: int
    inner: int

    def model(self, pieces: PreTrainedTokenizerFast) -> nn.Module:
        """A transformer of this size without its pooler; for MPNet, transformers has no fused attention."""
        shape = {
            "vocab_size": len(pieces),
            "num_hidden_layers": self.layers,
            "hidden_size": self.width,
            "num_attention_heads": self.heads,
            "intermediate_size": self.inner,
        }
        if self.kind == "bert":
            return BertModel(BertConfig(attn_implementation="sdpa", **shape), add_pooling_layer=False).eval()
        config = MPNetConfig(pad_token_id=pieces.pad_token_id, max_position_embeddings=514, **shape)
        return MPNetModel(config, add_pooling_layer=False).eval()


REFERENCE = "all-MiniLM-L6-v2"
SIZES = {
    REFERENCE: Size("bert", 6, 384, 12, 1536),
    "all-MiniLM-L12-v2": Size("bert", 12, 384, 12, 1536),
    "all-mpnet-base-v2": Size("mpnet", 12, 768, 12, 3072),
}
NAMES = (*BUNDLED, *SIZES)


@dataclass
class Encoder:
    """What is raced: a model, ``given`` raw or prepared sentences, in a precision.

    ``prepare`` makes of texts what ``encode`` takes; with the size of batches, that gives vectors (n, d), float32.
    """

    name: str
    given: str
    precision: str
    prepare: Callable[[Sequence[str]], Sequence[Any]]
    encode: Callable[[Sequence[Any], int], np.ndarray]


class Transformer:
    """A transformer with mean pooling and vectors of length 1, as sentence-transformers runs it."""

    def __init__(self, precision: str, model: nn.Module, pieces: PreTrainedTokenizerFast):
        self.pieces = pieces
        self.model = copy.deepcopy(model).to(torch.bfloat16) if precision == "bf16" else model

    @torch.inference_mode()
    def encode(self, sentences: Sequence[str], batch_size: int) -> np.ndarray:
        order = np.argsort([-len(sentence) for sentence in sentences], kind="stable")
        vectors = torch.cat(
            [
                self._vectors([sentences[i] for i in order[start : start + batch_size]])
                for start in range(0, len(order), batch_size)
            ]
        )
        return vectors.numpy()[np.argsort(order)]

    def _vectors(self, sentences: list[str]) -> Tensor:
        pieces = self.pieces(sentences, padding=True, return_tensors="pt")
        mask = pieces["attention_mask"]
        states = self.states(pieces)
        return nn.functional.normalize(((states * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)).float())

    def states(self, pieces: Mapping[str, Tensor]) -> Tensor:
        """The states ``(B, p, d)`` of a batch's pieces."""
        return self.model(input_ids=pieces["input_ids"], attention_mask=pieces["attention_mask"]).last_hidden_state


def learnt_tokeniser(lines: Iterable[str], size: int) -> PreTrainedTokenizerFast:
    """WordPiece of BERT's kind, of so many pieces, learnt from a text."""
    learnt = BertWordPieceTokenizer(lowercase=True)
    learnt.train_from_iterator(lines, vocab_size=size, show_progress=False)
    # With its two special tokens around every sentence.
    ends = {name: SPECIAL[name] for name in ("cls_token", "sep_token")}
    whole = BertWordPieceTokenizer(learnt.get_vocab(), lowercase=True, **ends)
    return PreTrainedTokenizerFast(tokenizer_object=whole._tokenizer, **SPECIAL)


class Positional(nn.Module):
    """A model whose inputs are by position, as the exporter gives them."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model.eval()

    def forward(self, pieces: Tensor, mask: Tensor) -> Tensor:
        return self.model(input_ids=pieces, attention_mask=mask).last_hidden_state


class Exported(Transformer):
    """A transformer exported to ONNX, its weights in 8 bits, run by onnxruntime."""

    def __init__(self, folder: Path, pieces: PreTrainedTokenizerFast):
        from onnxruntime import InferenceSession, SessionOptions  # noqa: PLC0415 - may be missing
        from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415

        self.pieces = pieces
        model = Positional(AutoModel.from_pretrained(folder, attn_implementation="eager"))
        some = pieces(["a sentence", "another one"], return_tensors="pt")
        inputs, axes = ["input_ids", "attention_mask"], {0: "batch", 1: "piece"}
        with TemporaryDirectory() as place:
            floats, small = f"{place}/floats.onnx", f"{place}/small.onnx"
            named = {"input_names": inputs, "output_names": ["states"], "dynamic_axes": dict.fromkeys(inputs, axes)}
            torch.onnx.export(model, tuple(some[name] for name in inputs), floats, dynamo=False, **named)
            quantize_dynamic(floats, small, weight_type=QuantType.QInt8)
            export = Path(small).read_bytes()
        self.sessions = {}
        for threads in (1, os.cpu_count() or 1):
            settings = SessionOptions()
            settings.intra_op_num_threads = threads
            self.sessions[threads] = InferenceSession(export, settings)

    def states(self, pieces: Mapping[str, Tensor]) -> Tensor:
        session = self.sessions.get(torch.get_num_threads()) or self.sessions[max(self.sessions)]
        given = {name: pieces[name].numpy() for name in ("input_ids", "attention_mask")}
        return torch.from_numpy(session.run(["states"], given)[0])


def encoders(
    names: Sequence[str], precisions: Sequence[str], pieces: PreTrainedTokenizerFast, real: Path | None
) -> Iterator[Encoder]:
    """The encoders of these names, in each precision; ``real`` is the folder of the reference."""
    for name in names:
        if name in SIZES:
            model = AutoModel.from_pretrained(real).eval() if real and name == REFERENCE else SIZES[name].model(pieces)
            for precision in precisions:
                yield Encoder(name, RAW, precision, list, Transformer(precision, model, pieces).encode)
            if real and name == REFERENCE and find_spec("onnx") and find_spec("onnxruntime"):
                yield Encoder(f"{name}, int8 by onnxruntime", RAW, "fp32", list, Exported(real, pieces).encode)
        else:
            embedder = Embedder.load(name)
            for precision, (given, prepare) in product(precisions, ((RAW, list), (PREPARED, embedder.prepare))):
                yield Encoder(name, given, precision, prepare, embedder.with_precision(precision).encode)


def flags(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("--text", type=Path, default=TEXT, help="one sentence per line")
    parser.add_argument("--minilm", type=Path, help="folder of all-MiniLM-L6-v2")
    parser.add_argument("--encoders", nargs="+", default=NAMES, choices=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--precisions", nargs="+", default=PRECISIONS, choices=PRECISIONS)
    parser.add_argument("--words", nargs="+", type=int, default=[20], help="lengths of sentences")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 64, 1024], help="sizes of batches")
    parser.add_argument("--threads", nargs="+", type=int, default=[1], help="numbers of threads")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each encoder")
    parser.add_argument("--seconds", type=float, default=2, help="of a turn, unless --sentences come first")
    parser.add_argument("--sentences", type=int, default=4096, help="most sentences of a turn, unless a batch has more")
    parser.add_argument("--calls", type=int, default=150, help="calls with one sentence")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """A row for each encoder, length, number of threads and size of batches; the texts, and their pieces."""
    lines = [line for line in options.text.read_text("utf-8").splitlines() if line.strip()]
    real, rows, texts = options.minilm, [], []
    pieces = AutoTokenizer.from_pretrained(real) if real else learnt_tokeniser(lines, PIECES)
    raced = list(encoders(options.encoders, options.precisions, pieces, real))
    for words in options.words:
        # More than for one turn, so that the next one has others.
        pool = of_length(lines, words, 2 * max(options.sentences, options.calls, *options.batches))
        of_word = sum(map(len, pieces(pool, add_special_tokens=False)["input_ids"])) / (words * len(pool))
        texts.append({"words": words, "sentences": len(pool), "pieces_per_word": of_word})
        rows += race(options, raced, pool, words)
    return {"texts": texts, "pieces": len(pieces), "rows": with_ratios(rows)}


@dataclass
class Entrant:
    """An encoder in a race: all its sentences, how many a turn has, and wall and processor seconds of its turns."""

    encoder: Encoder
    source: Sequence[Any]
    count: int = 1
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def take(self, number: int, batch: int, *, counts: bool = True) -> None:
        """Take a turn, on other sentences than in the one before, as far as there are."""
        start = number * self.count % (len(self.source) - self.count + 1)
        sentences = self.source[start : start + self.count]
        wall, cpu = time.perf_counter(), time.process_time()
        self.encoder.encode(sentences, batch)
        if counts:
            self.wall.append(time.perf_counter() - wall)
            self.cpu.append(time.process_time() - cpu)


def race(options: argparse.Namespace, raced: Sequence[Encoder], pool: Sequence[str], words: int) -> Iterator[Row]:
    """Measure encoders on sentences of one length."""
    sources = {(each.name, each.given): each for each in raced}  # the same in all precisions
    prepared = {key: encoder.prepare(pool) for key, encoder in sources.items()}
    for threads in options.threads:
        torch.set_num_threads(threads)
        os.environ["TOKENIZERS_PARALLELISM"] = str(threads > 1).lower()  # of transformers
        for batch in options.batches:
            print(f"{words} words, {threads} threads, batches of {batch}", file=sys.stderr, flush=True)
            entrants = [Entrant(each, prepared[each.name, each.given]) for each in raced]
            (latencies if batch == 1 else rates)(options, entrants, min(batch, len(pool)))
            for each in entrants:
                about = {"words": words, "threads": threads, "batch": batch, "encoder": each.encoder.name}
                about |= {"given": each.encoder.given, "precision": each.encoder.precision}
                yield about | (percentiles(each) if batch == 1 else speeds(each))


def rates(options: argparse.Namespace, entrants: Sequence[Entrant], batch: int) -> None:
    """Take turns on so many sentences as an encoder reads in the time of a turn, a batch at least."""
    for entrant in entrants:
        trial = Entrant(entrant.encoder, entrant.source, min(32, batch))
        trial.take(0, batch, counts=False)
        trial.take(0, batch)
        wanted = min(options.sentences, options.seconds * trial.count / trial.wall[0])
        entrant.count = min(ceil(wanted / batch) * batch, len(entrant.source))
    for number in range(options.rounds):
        for entrant in entrants:
            entrant.take(number, batch)


def latencies(options: argparse.Namespace, entrants: Sequence[Entrant], batch: int) -> None:
    """Take turns of calls with one sentence each."""
    calls = ceil(options.calls / options.rounds)
    for number in range(options.rounds):
        for entrant in entrants:
            for i in range(-WARM_UP, calls):
                entrant.take(number * calls + i, batch, counts=i >= 0)


def speeds(entrant: Entrant) -> Row:
    """Sentences a second of an entrant."""
    return {
        "sentences": entrant.count,
        "sentences_per_second": entrant.count / median(entrant.wall),
        "sentences_per_cpu_second": entrant.count / median(entrant.cpu),
    }


def percentiles(entrant: Entrant) -> Row:
    """Median and 99th percentile of single calls in milliseconds, and the median by processor time."""
    p50, p99 = np.percentile(entrant.wall, [50, 99]) * 1000
    return {"calls": len(entrant.wall), "p50": float(p50), "p99": float(p99), "cpu p50": 1000 * median(entrant.cpu)}


def with_ratios(rows: Sequence[Row]) -> list[Row]:
    """The rows with ratios to the reference's best rate in the same precision, whatever the size of its batches.

    Large batches make a transformer slower, since its layers' outputs leave the processor's caches, and others faster.
    """

    def speed(row: Row) -> float:
        return float(row["sentences_per_cpu_second" if row["threads"] == 1 else "sentences_per_second"])

    def kind(row: Row) -> tuple[Any, ...]:
        return row["words"], row["threads"], row["precision"]

    best: dict[tuple[Any, ...], float] = {}
    for row in rows:
        if row["encoder"] == REFERENCE and row["batch"] > 1:
            best[kind(row)] = max(best.get(kind(row), 0.0), speed(row))
    return [
        row | {"times_reference": speed(row) / best[kind(row)]} if row["batch"] > 1 and kind(row) in best else row
        for row in rows
    ]


def tables(found: dict[str, Any]) -> str:
    """For each length and number of threads the rates, and the times of one sentence."""
    shown = [f"The transformers' vocabulary has {found['pieces']:,} pieces."]
    shown += [
        f"{text['words']} words: {text['sentences']:,} sentences, {text['pieces_per_word']:.2f} pieces a word"
        for text in found["texts"]
    ]
    for words, threads in dict.fromkeys((row["words"], row["threads"]) for row in found["rows"]):
        here = [row for row in found["rows"] if (row["words"], row["threads"]) == (words, threads)]
        shown.append(f"## {words} words, {threads} thread{'s' * (threads != 1)}")
        sizes = list(dict.fromkeys(row["batch"] for row in here if row["batch"] > 1))
        encoder = ("encoder", "given", "precision")
        by_encoder: dict[tuple[str, ...], dict[int, Row]] = {}
        for row in here:
            by_encoder.setdefault(tuple(row[name] for name in encoder), {})[row["batch"]] = row
        if sizes:
            body = [[*name, *(rate(each[size]) for size in sizes)] for name, each in by_encoder.items()]
            heads = table([*encoder, *(f"batches of {size:,}" for size in sizes)], body)
            shown.append(f"Sentences/s by wall / by processor time, and times the best rate of {REFERENCE}.\n\n{heads}")
        columns = ("p50", "p99", "cpu p50")
        single = [[*name, *(each[1][c] for c in columns)] for name, each in by_encoder.items() if 1 in each]
        if single:
            shown.append(f"Milliseconds of a call with one sentence.\n\n{table([*encoder, *columns], single)}")
    return "\n\n".join(shown)


def rate(row: Row) -> str:
    """Rates and ratio of a row."""
    ratio = f", {row['times_reference']:.2f} x" if "times_reference" in row else ""
    return f"{row['sentences_per_second']:,.0f} / {row['sentences_per_cpu_second']:,.0f}{ratio}"
