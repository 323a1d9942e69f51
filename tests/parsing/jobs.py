"""Parsing jobs as processes that a test can kill, and what they leave."""

import os
import subprocess
import sys
import time
from pathlib import Path

import chain_parser

from structviews.parsing.sources import ParseText, TextSource

SLOWLY = ("--parser", "slowchain", "--max-tokens", "40", "--tokenised", "--format", "lines")
IN_PROCESS = {"parser": "slowchain", "max_tokens": 40, "tokenised": True, "layout": "lines"}
DRIVER = Path(chain_parser.__file__)


def text_source(path, layout="lines", **of_work):
    return TextSource(str(path), ParseText(**{"parser": "chain", "max_tokens": 5} | of_work), layout)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def command(*arguments, folder, **environment):
    """The command line with the chain parsers, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, DRIVER, "parse", *map(str, arguments)],
        cwd=folder,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_until(condition, process=None):
    until = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < until, "waited too long"
        assert process is None or process.poll() is None, process.stdout.read()
        time.sleep(0.005)
