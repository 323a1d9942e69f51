"""The script that scores rivals: every run under both protocols and on structure, and none twice."""

import sys
from pathlib import Path

import pytest
from scripts_for_tests import load


def test_what_is_scored_is_not_scored_again(monkeypatch, tmp_path, capsys):
    comparison, given = load("comparison", monkeypatch), []

    def command(*arguments):
        given.append([str(each) for each in arguments])
        if "-o" in arguments:
            Path(arguments[-1]).mkdir()
        if stops and len(given) == 9:
            raise KeyboardInterrupt

    monkeypatch.setattr(comparison, "structviews", command)
    monkeypatch.setattr(comparison, "rates", lambda options, runs: [["default", "57", 775.0]])
    monkeypatch.setattr(sys, "argv", ["", *["--senteval", "one", "two", "--structure", "three", "-o"], str(tmp_path)])
    stops = True
    with pytest.raises(KeyboardInterrupt):
        comparison.main()
    stops = False
    for _ in range(2):
        comparison.main()
    scored = [each[1:] for each in given if each[0] == "eval"]
    stopped = scored.pop(6)  # it was not finished
    assert stopped in scored
    assert len({tuple(each) for each in scored}) == len(scored) == 2 * 5 + 5
    assert [str(tmp_path / "runs/default"), "--senteval", "two", "--protocol", "simcse", "--view", "average"] in scored
    assert [each[0] for each in given].count("pull") == 2
    assert "| default | 57 | 775 |" in capsys.readouterr().out
