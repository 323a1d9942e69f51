"""Parsing jobs as processes that a test can kill, and what they leave."""

import os
import subprocess
import sys
import time
from pathlib import Path

import chain_parser
import pytest

from structviews.parsing.sources import ParseText, TextSource

SLOWLY = ("--parser", "slowchain", "--max-tokens", "40", "--tokenised", "--format", "lines")
IN_PROCESS = {"parser": "slowchain", "max_tokens": 40, "tokenised": True, "layout": "lines"}
DRIVER = Path(chain_parser.__file__)
needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")


def text_source(path, layout="lines", **of_work):
    return TextSource(str(path), ParseText(**{"parser": "chain", "max_tokens": 5} | of_work), layout)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def command(*arguments, folder, **environment):
    """The command line with the chain parsers, in a process group of its own."""
    words = [sys.executable, DRIVER, "parse", *map(str, arguments)]
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(words, cwd=folder, env=os.environ | environment, start_new_session=True, **output)


def stat(pid):
    """State, parent, group and session of a process; a zombie's state and zeros for one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:4]
    except (FileNotFoundError, ProcessLookupError):
        return "Z000"


def wait_until(condition, process=None):
    until = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < until, "waited too long"
        assert process is None or process.poll() is None, process.stdout.read()
        time.sleep(0.005)
