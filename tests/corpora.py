"""Small parsed corpora: a hand-made treebank, and random trees over documents with words of their own."""

import random
from pathlib import Path

from trees_for_tests import with_trees
from vector_files import random_vectors, write_vectors

from structviews.corpus.layout import Form, Row, Skipped, batch_of, encode_shard, new_job
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.writer import write_manifest, write_shard
from structviews.parsing.parser import Unparsed
from structviews.parsing.treebank import read_treebank
from structviews.runs.config import TrainConfig
from structviews.words.vocabulary import count_words

DATA = Path(__file__).parent / "data"
TINY = (DATA / "tiny.conllu", DATA / "tiny.ptb")
COMMON_WORDS = ("the", "of", "and", "it", ".")
# Small enough for a step in milliseconds; one thread's sums are the same on every run.
SMALL = {"hidden": 8, "word_dim": 6, "batch_size": 16, "held_out": 0.1, "lr": 0.02, "log_every": 1}


class RandomParser:
    """Random trees, the same for the same words."""

    kinds = frozenset({"dependency", "constituency"})
    batch_tokens = 1000

    def __init__(self, version="1"):
        self.version = version
        self.n_parsed = 0

    def parse(self, sentences):
        self.n_parsed += len(sentences)
        return [Unparsed("says stop") if words[0] == "stop" else random_trees(words) for words in sentences]

    def describe(self):
        return {"name": "random", "version": self.version, "settings": {}, "model": ""}


def load_random(argument, options):
    """As the registry of parsers calls it."""
    return RandomParser()


def random_trees(words):
    """A random dependency tree and a random binary constituency tree over some words."""
    rng = random.Random(" ".join(words))
    order = rng.sample(range(len(words)), len(words))
    heads = [0] * len(words)
    for i, word in enumerate(order[1:], 1):
        heads[word] = rng.choice(order[:i]) + 1
    return with_trees(tuple(words), tuple(heads), lambda start, end: rng.randint(start + 1, end - 1))


def topic_rows(documents=12, sentences=8, seed=0):
    """Documents whose sentences share words that no other document has."""
    rng = random.Random(seed)
    rows = []
    for document in range(documents):
        topic = [f"topic{document}-{i}" for i in range(4)]
        for position in range(sentences):
            words = [rng.choice(topic if rng.random() < 0.6 else COMMON_WORDS) for _ in range(rng.randint(1, 9))]
            rows.append(Row(document, position, len(rows) + 1, random_trees([rng.choice(topic), *words])))
    return rows


def write_corpus(folder, sentences, shard_size=30, **job):
    """Rows, and sentences that were skipped among them, as a parsed corpus of several shards."""
    job = {"parser": RandomParser().describe(), "tokeniser": {"name": "test"}, "settings": {}, "sources": []} | job
    folder.mkdir(parents=True)
    entries = []
    for number, start in enumerate(range(0, len(sentences), shard_size)):
        shard = sentences[start : start + shard_size]
        rows = [each for each in shard if isinstance(each, Row)]
        skipped = [each for each in shard if isinstance(each, Skipped)]
        form = Form.of(job)
        entries.append(write_shard(folder, number, encode_shard(batch_of(rows, form), skipped, form)))
    write_manifest(folder, entries, new_job(**job))
    return folder


def topic_corpus(folder, **shape):
    return write_corpus(folder, topic_rows(**shape))


def small_sts14(senteval):
    """STS14 in a SentEval folder, with a few pairs a data set; the number of pairs by file, as ``PUBLISHED`` has it."""
    folder = senteval / "STS" / "STS14-en-test"
    folder.mkdir(parents=True)
    sentences = [" ".join(row.sentence.tokens) for row in topic_rows(documents=10, seed=5)]
    sizes = {}
    for number, name in enumerate(("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news")):
        pairs = list(zip(sentences[number::7], sentences[number + 1 :: 7], strict=False))
        (folder / f"STS.input.{name}.txt").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
        (folder / f"STS.gs.{name}.txt").write_text("".join(f"{i % 6}\n" for i in range(len(pairs))))
        sizes[f"STS/STS14-en-test/STS.input.{name}.txt"] = len(pairs)
    return sizes


def tiny_rows(paths=TINY):
    """The hand-made treebank: 12 sentences in 3 documents."""
    return [Row(s.document, s.position, s.line, s.sentence) for s in read_treebank(paths)]


def tiny_corpus(folder, paths=TINY, shard_size=5):
    """The hand-made treebank over three shards, one of which holds the end of a document."""
    return write_corpus(folder, tiny_rows(paths), shard_size)


def small_config(corpus, out, views=("dep", "const"), **settings):
    """Settings of a run that takes a second."""
    return TrainConfig.of(corpus=str(corpus), views=views, out=str(out), **SMALL | settings)


def opened(folder):
    return ParsedCorpus.open(folder)


def quiet(done, total):
    """Progress that nobody looks at."""


def vectors_of(corpus, path, *others, dim=6):
    """A file of random vectors of a corpus' words and of others."""
    words = [*sorted(count_words(opened(corpus))), *others]
    return write_vectors(path, words, random_vectors(words, dim))
