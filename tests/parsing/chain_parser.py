"""A parser without a model, and the command line with it: ``python chain_parser.py parse ...``."""

import os
import signal
import time
from pathlib import Path

from structviews.cli.app import main
from structviews.corpus.sentence import ParsedSentence
from structviews.parsing.backends import PARSERS
from structviews.parsing.parser import Parser, Unparsed


def chain(tokens, label="S"):
    """Every word depends on the one before; the constituents branch to the right."""
    n = len(tokens)
    relations, labels = ("root", *("dep",) * (n - 1)), ("",) * (2 * n - 2) + (label,)
    left, right = tuple(range(n - 2, -1, -1)), (n - 1, *range(n, 2 * n - 2)) if n > 1 else ()
    return ParsedSentence(tuple(tokens), ("X",) * n, tuple(range(n)), relations, left, right, labels)


class ChainParser(Parser):
    kinds = frozenset({"dependency", "constituency"})

    def __init__(self, argument="", options=None):
        pass

    def parse(self, sentences):
        return [Unparsed("says stop") if tokens[0] == "stop" else chain(tokens) for tokens in sentences]

    def describe(self):
        return {"name": "chain", "version": "1", "settings": {}, "model": ""}


class SlowChainParser(ChainParser):
    """Slow enough to be killed between shards; leaves its process id in the folder ``$PIDS``."""

    batch_tokens = 10**6  # a shard is one batch, and slow once

    def parse(self, sentences):
        if "PIDS" in os.environ:
            (Path(os.environ["PIDS"]) / str(os.getpid())).touch()
        time.sleep(0.2)
        return super().parse(sentences)


class FaultyParser(ChainParser):
    """Forgets a sentence, and changes the words of another."""

    def parse(self, sentences):
        return [chain(["b" if word == "a" else word for word in words]) for words in sentences if words[0] != "drop"]


class DyingParser(ChainParser):
    """Ends its process, as the kernel does when memory runs out."""

    def parse(self, sentences):
        os._exit(9)


import chain_parser  # noqa: E402 - this module, under the name by which workers find it

for name in ("Chain", "SlowChain", "Faulty", "Dying"):
    if name.lower() not in PARSERS._known:
        PARSERS.register(name.lower(), getattr(chain_parser, f"{name}Parser"))

if __name__ == "__main__":
    # A shell's background job ignores SIGINT and hands that down.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main()
