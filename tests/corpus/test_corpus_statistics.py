import json

import numpy as np
import pytest
from corpora import TINY, tiny_corpus, topic_corpus
from hypothesis import given
from hypothesis import strategies as st
from nltk.tree import Tree
from nltk_trees import as_nltk

from structviews.corpus.corpus_statistics import (
    Histogram,
    Statistics,
    as_json,
)
from structviews.corpus.format import shard_name
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.parsing.binarise import unbinarise


@pytest.fixture
def tiny(tmp_path):
    return ParsedCorpus.open(tiny_corpus(tmp_path / "t.parsed"))


@given(st.lists(st.lists(st.integers(0, 9)), max_size=4).filter(any), st.floats(0, 1))
def test_quantiles_are_numpys(batches, share):
    histogram = Histogram()
    for batch in batches:
        histogram.add(np.array(batch, dtype=np.int64))
    values = [value for batch in batches for value in batch]
    assert histogram.quantile(share) == pytest.approx(np.quantile(values, share))
    assert histogram.mean == pytest.approx(np.mean(values))


def counted(values):
    return np.bincount(np.array(values, dtype=np.int64)).tolist()


@pytest.mark.parametrize("make", [tiny_corpus, topic_corpus])
def test_sizes_are_those_counted_one_by_one(tmp_path, make):
    corpus = ParsedCorpus.open(make(tmp_path / "t.parsed"))
    sentences = [row.sentence for row in corpus]
    constituents = []
    for sentence in sentences:
        nodes = [
            node for node in as_nltk(unbinarise(sentence)).subtrees() if isinstance(node[0], Tree) and len(node) > 1
        ]
        constituents += [len(node) for node in nodes]
    dependents = [s.heads.count(word) for s in sentences for word in range(1, len(s.tokens) + 1) if word in s.heads]
    expected = {
        "tokens": [len(s.tokens) for s in sentences],
        "dependency depth": [max(s.dependency_heights) for s in sentences],
        "dependents of a head": dependents,
        "binary constituency depth": [max(s.constituency_heights) for s in sentences],
        "children of a constituent": constituents,
    }
    found = Statistics.of(corpus).sizes
    assert {name: histogram.counts.tolist() for name, histogram in found.items()} == {
        name: counted(values) for name, values in expected.items()
    }


def test_names_and_bytes(tiny):
    statistics = Statistics.of(tiny)
    sentences = [row.sentence for row in tiny]
    for name in ("tags", "relations", "labels"):
        values = [value for sentence in sentences for value in getattr(sentence, name) if value]
        assert statistics.names[name] == {value: values.count(value) for value in set(values)}
    content = as_json(tiny, statistics)
    size = sum((tiny.path / shard_name(number)).stat().st_size for number in range(tiny.n_shards))
    assert content["bytes"] == size
    per_token = content["bytes_per_token"]
    assert per_token["total"] * tiny.manifest["tokens"] == pytest.approx(size)
    assert sum(per_token.values()) == pytest.approx(2 * per_token["total"])
    assert per_token["heads"] * tiny.manifest["tokens"] == pytest.approx(
        tiny.manifest["tokens"] + 4 * (len(tiny) + tiny.n_shards)
    )
    assert json.loads(json.dumps(content))["skipped"] == {}


@pytest.mark.parametrize("path", TINY)
def test_corpora_with_one_kind_of_tree(tmp_path, path):
    corpus = ParsedCorpus.open(tiny_corpus(tmp_path / "t.parsed", paths=[path]))
    names = set(Statistics.of(corpus).sizes)
    assert names - {"tokens"} == (
        {"dependency depth", "dependents of a head"}
        if path.suffix == ".conllu"
        else {"binary constituency depth", "children of a constituent"}
    )
