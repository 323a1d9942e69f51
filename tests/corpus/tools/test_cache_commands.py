import json
import sys
import warnings

import pytest
from corpora import tiny_corpus
from made_corpora import contents

from structviews.cli.app import main


@pytest.fixture
def structviews(tmp_path, monkeypatch, capsys):
    """The command line, without the time that a process takes to start."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["structviews", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        output, errors = capsys.readouterr()
        return end.value.code, output, errors

    return run


def test_the_commands_one_after_the_other(structviews, tmp_path):
    tiny_corpus(tmp_path / "t.parsed")
    assert structviews("corpus", "merge", "t.parsed", "t.parsed", "-o", "tt.parsed")[:2] == (
        0,
        "tt.parsed: 24 sentences in 6 documents\n",
    )
    shares = ("--shares", "train=2,dev=1")
    code, output, _ = structviews("corpus", "split", "tt.parsed", *shares, "-o", "parts")
    assert (code, output.count("documents")) == (0, 2)
    assert "parts/dev.parsed" in output
    assert "in 4 documents" in output
    code, output, _ = structviews("corpus", "stats", "parts/train.parsed", "--json")
    assert code == 0
    assert json.loads(output)["documents"] == 4
    code, output, _ = structviews("corpus", "stats", "tt.parsed")
    assert code == 0
    assert "bytes per token" in output
    assert structviews("corpus", "export", "t.parsed")[:2] == (0, "t.conllu\nt.ptb\n")
    assert structviews("verify", "tt.parsed")[:2] == (0, "tt.parsed: no faults\n")
    path = tmp_path / "tt.parsed/shard-00001.arrow"
    path.write_bytes(path.read_bytes()[:-8] + b"ARROWING")
    assert structviews("verify", "tt.parsed")[:2] == (
        1,
        "shard-00001.arrow: its checksum does not match the manifest\n",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("split", "t.parsed", "-o", "x"), "give either --parts or --shares"),
        (("split", "t.parsed", "--parts", "9", "-o", "x"), "3 documents: none left for"),
        (("merge", "t.parsed", "-o", "x"), "1 corpora: give at least two"),
        (("merge", "t.parsed", "u.parsed", "-o", "x"), "u.parsed does not exist"),
        (("stats", "u.parsed"), "u.parsed does not exist"),
        (("export", "u.parsed"), "u.parsed does not exist"),
    ],
)
def test_bad_input_is_one_line(structviews, tmp_path, arguments, message):
    tiny_corpus(tmp_path / "t.parsed")
    before = contents(tmp_path / "t.parsed")
    code, output, errors = structviews("corpus", *arguments)
    assert code == 2
    assert not output
    assert message in errors
    assert len(errors.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["t.parsed"]
    assert contents(tmp_path / "t.parsed") == before
