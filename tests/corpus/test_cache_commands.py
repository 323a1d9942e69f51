import json
import sys
import warnings

import pytest
from corpora import tiny_corpus

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
    code, output, _ = structviews("corpus", "stats", "tt.parsed", "--json")
    assert code == 0
    assert json.loads(output)["documents"] == 6
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
