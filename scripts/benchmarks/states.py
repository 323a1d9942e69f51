"""Speed of contextual words: pieces of sentences, states of a frozen encoder, and batches of a corpus with them.

    python scripts/bench.py states --corpus my.parsed
    python scripts/bench.py states --corpus my.parsed --encoder roberta-base

Without --encoder, it makes one with random weights and a tokeniser learnt from the corpus, in a temporary folder: BERT
of --layers layers of --dim dimensions. Batches are made as in training, shuffled, from the first --sentences of the
corpus: with trained words alone, with states computed for each batch, and with states from disk. Rates are sentences
per second of processor time.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.encode import Size, learnt_tokeniser
from benchmarks.measure import processor_time, table
from structviews.batches.reader import CorpusReader, epoch_batches
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.writer import write_subset
from structviews.pretrained.loading import load_encoder
from structviews.pretrained.states import ContextualWords, FrozenEncoder
from structviews.pretrained.stored_states import StoredStates, store_states
from structviews.words.vocabulary import Vocabulary

BATCH_SIZE, KINDS, PIECES = 400, ("dependency", "constituency"), 8000
HEAD = 64


def flags(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("--corpus", type=Path, required=True, help="a parsed corpus with both kinds of trees")
    parser.add_argument("--encoder", help="folder or id on the Hub, and layers; by default one is made")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--dim", type=int, default=256, help=f"a multiple of {HEAD}, or less than that")
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=1)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Sentences per second of processor time of each part, by name."""
    if options.dim < 1 or options.dim % min(options.dim, HEAD):
        raise SystemExit(f"--dim {options.dim}: give a multiple of {HEAD}, the dimensions of a head of attention")
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        whole, path = ParsedCorpus.open(options.corpus), Path(folder) / "x.parsed"
        write_subset(whole, np.arange(min(options.sentences, len(whole))), path)  # the states go beside this copy
        corpus = ParsedCorpus.open(path)
        encoder = options.encoder or random_encoder(Path(folder) / "encoder", corpus, options.layers, options.dim)
        return {"rates": rates_of(corpus, FrozenEncoder.open(str(encoder), "mean"))}


def rates_of(corpus: ParsedCorpus, encoder: FrozenEncoder) -> dict[str, float]:
    """Sentences per second of processor time of each part, by name."""
    rows = np.arange(len(corpus), dtype=np.int32)
    batches = list(epoch_batches(rows, BATCH_SIZE, 1, 0))
    sentences = [[corpus.sentence(int(row)).tokens for row in batch] for batch in batches]
    n = sum(map(len, sentences))
    trained, contextual = {"trained": Vocabulary.of_corpus(corpus)}, {"contextual": ContextualWords(encoder)}
    aligner = load_encoder(encoder.folder).aligner
    encoder.states(sentences[0])  # which loads it
    rates = {
        "pieces": n / processor_time(lambda: [aligner.align(batch) for batch in sentences]),
        "states, with the pieces": n / processor_time(lambda: [encoder.states(batch) for batch in sentences]),
    }
    storing = processor_time(lambda: store_states(corpus, encoder, lambda words, size: None))
    states = StoredStates.find(corpus, encoder)
    assert states is not None
    readers = {
        "batches: trained words": CorpusReader(corpus, trained, KINDS),
        "batches: states computed for each batch": CorpusReader(corpus, contextual, KINDS),
        "batches: states from disk": CorpusReader(corpus, contextual, KINDS, states={"contextual": states}),
    }
    for name, reader in readers.items():
        reader.batch(batches[0])  # which reads and checks the shards
        rates[name] = n / processor_time(lambda reader=reader: [reader.batch(batch) for batch in batches])
    return rates | {"structviews corpus states": n / storing}


def random_encoder(folder: Path, corpus: ParsedCorpus, layers: int, dim: int) -> Path:
    """A folder with BERT of random weights, and a tokeniser of word pieces learnt from a corpus."""
    tokeniser = learnt_tokeniser((" ".join(row.sentence.tokens) for row in corpus), PIECES)
    torch.manual_seed(0)
    Size("bert", layers, dim, max(1, dim // HEAD), 4 * dim).model(tokeniser).save_pretrained(folder)
    tokeniser.save_pretrained(folder)
    return folder


def tables(found: dict[str, Any]) -> str:
    """Rates."""
    return table(["", "sentences/s"], [[name, f"{rate:,.0f}"] for name, rate in found["rates"].items()])
