import json
import sys

import pytest
from scripts_for_tests import load

from structviews.corpus.parsed_corpus import ParsedCorpus


@pytest.fixture
def bench(monkeypatch):
    module = load("bench_loader", monkeypatch)
    monkeypatch.setattr(module, "SHARDS", 2)
    monkeypatch.setattr(module, "SHARD_ROWS", 40)
    return module


def test_a_synthetic_corpus_is_one_of_valid_sentences_in_documents(bench, tmp_path):
    corpus = ParsedCorpus.open(bench.synthetic_corpus(tmp_path / "x.parsed", 200))
    assert len(corpus) == 240
    assert corpus.n_shards == 6
    rows = list(corpus)
    assert [row.document for row in rows[:80]] == [i // 20 for i in range(80)]
    assert [row.position for row in rows[:80]] == [i % 20 for i in range(80)]
    assert rows[:80] == rows[80:160] == rows[160:]
    assert len({row.sentence for row in rows[:80]}) > 70
    assert corpus.manifest["tokens"] == sum(len(row.sentence.tokens) for row in rows)


def test_a_measurement_covers_the_training_sentences(bench, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bench_loader.py", "--rows", "800", "--batch-size", "16", "--json"])
    bench.main()
    results = json.loads(capsys.readouterr().out)
    assert results["shards"] == 20
    assert 0 < results["sentences"] <= 800
    assert results["batches"] >= results["sentences"] / 16
    assert results["sentences_per_cpu_second"] > 0
    assert results["rss_anon_mb"].keys() == {"start", "middle", "end", "most"}
    assert "20 shards" in bench.describe(results)
