import json
from collections import Counter

import numpy as np
import pytest
from corpora import TINY, tiny_corpus
from hypothesis import given
from hypothesis import strategies as st
from nltk.tree import Tree
from nltk_trees import as_nltk

from structviews.corpus.corpus_statistics import QUANTILES, statistics_of, summary
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.parsing.binarise import unbinarise


@given(st.lists(st.integers(0, 9), min_size=1))
def test_quantiles_are_numpys(values):
    expected = {name: np.quantile(values, share) for name, share in QUANTILES.items()}
    assert summary(Counter(values)) == pytest.approx({"mean": np.mean(values), **expected})


def test_what_is_counted_one_by_one(tmp_path):
    corpus = ParsedCorpus.open(tiny_corpus(tmp_path / "t.parsed"))
    sentences = [row.sentence for row in corpus]
    nodes = [node for sentence in sentences for node in as_nltk(unbinarise(sentence)).subtrees()]
    dependents = [s.heads.count(word) for s in sentences for word in range(1, len(s.tokens) + 1) if word in s.heads]
    of_words = {"tokens": [len(s.tokens) for s in sentences]}
    of_dependencies = {
        "dependency depth": [max(s.dependency_heights) for s in sentences],
        "dependents of a head": dependents,
    }
    of_constituents = {
        "binary constituency depth": [max(s.constituency_heights) for s in sentences],
        "children of a constituent": [len(node) for node in nodes if isinstance(node[0], Tree) and len(node) > 1],
    }
    heads, brackets = TINY
    for paths, sizes in (
        (TINY, of_words | of_dependencies | of_constituents),
        ([heads], of_words | of_dependencies),
        ([brackets], of_words | of_constituents),
    ):
        found = statistics_of(ParsedCorpus.open(tiny_corpus(tmp_path / f"{len(sizes)}{paths[0].name}", paths=paths)))
        assert found["sizes"] == {name: summary(Counter(values)) for name, values in sizes.items()}
    found = statistics_of(corpus)
    for name in ("tags", "relations", "labels"):
        assert found[name] == Counter(value for s in sentences for value in getattr(s, name) if value)


def test_bytes(tmp_path):
    corpus = ParsedCorpus.open(tiny_corpus(tmp_path / "t.parsed"))
    found = json.loads(json.dumps(statistics_of(corpus)))
    size = sum(path.stat().st_size for path in corpus.path.glob("*.arrow"))
    assert found["bytes"] == size
    each = {name: value * corpus.manifest["tokens"] for name, value in found["bytes_per_token"].items()}
    assert each["total"] == pytest.approx(size)
    assert sum(each.values()) == pytest.approx(2 * size)
    assert each["heads"] == pytest.approx(corpus.manifest["tokens"] + 4 * (len(corpus) + corpus.n_shards))
