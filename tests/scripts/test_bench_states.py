import json
import sys

import pytest
from corpora import topic_corpus
from scripts_for_tests import load


def test_every_part_has_a_rate_and_nothing_is_left_beside_the_corpus(monkeypatch, tmp_path, capsys):
    bench = load("bench_states", monkeypatch)
    corpus = topic_corpus(tmp_path / "x.parsed", documents=4)
    arguments = ["--corpus", str(corpus), "--layers", "1", "--dim", "64", "--sentences", "20", "--json"]
    monkeypatch.setattr(sys, "argv", ["bench_states.py", *arguments])
    bench.main()
    rates = json.loads(capsys.readouterr().out)
    assert len(rates) == 6
    assert all(rate > 0 for rate in rates.values())
    assert list(tmp_path.iterdir()) == [corpus]


def test_a_dimension_that_heads_do_not_divide_is_refused(monkeypatch, capsys):
    bench = load("bench_states", monkeypatch)
    monkeypatch.setattr(sys, "argv", ["bench_states.py", "--corpus", "x.parsed", "--dim", "200"])
    with pytest.raises(SystemExit) as stop:
        bench.main()
    assert stop.value.code == 2
    assert "--dim 200: give a multiple of 64" in capsys.readouterr().err
