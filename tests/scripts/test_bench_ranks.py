import json
import sys

import pytest
import torch.distributed as dist
from corpora import topic_corpus
from scripts_for_tests import load


@pytest.fixture
def bench(monkeypatch):
    return load("bench_ranks", monkeypatch)


@pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="needs PyTorch with gloo")
@pytest.mark.slow
def test_a_rate_for_each_way(bench, tmp_path, monkeypatch, capsys):
    corpus = topic_corpus(tmp_path / "x.parsed")
    arguments = ["--views", "bow,avg", "--hidden", "4", "--batch-size", "8", "--steps", "2", "--rounds", "1"]
    monkeypatch.setattr(sys, "argv", ["bench_ranks.py", "--corpus", str(corpus), *arguments, "--json"])
    bench.main()
    rates = json.loads(capsys.readouterr().out)
    assert {"1 process, 1 thread", "2 ranks, 1 thread each"} <= rates.keys()
    assert all(len(each) == 1 and each[0] > 0 for each in rates.values())


def test_ratios_are_those_of_medians(bench):
    text = bench.describe({"1 process, 1 thread": [9.0, 10.0, 99.0], "2 ranks, 1 thread each": [18.0, 1.0, 19.0]})
    assert text.splitlines()[2:] == ["| 1 process, 1 thread | 10 | 1.80 |", "| 2 ranks, 1 thread each | 18 | 1.00 |"]
