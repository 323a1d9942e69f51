import functools
from pathlib import Path

import pytest
import tiny_parsers
from jobs import IN_PROCESS

from structviews.parsing.pipeline import parse_corpus
from structviews.parsing.sources import TextSource


@pytest.fixture(scope="session")
def treebanks():
    folder = Path(__file__).parents[2].parent / "shared/data/treebanks"
    if not folder.is_dir():
        pytest.skip("the treebanks are not at ../shared/data/treebanks")
    return folder


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory):
    """Makes tiny models of another library's parser, once: kind -> (specification, folder for ``--models``)."""

    @functools.cache
    def models(kind):
        folder = tmp_path_factory.mktemp(kind)
        tiny_parsers.make(kind, folder)
        return tiny_parsers.SPECIFICATIONS[kind], folder

    return models


@pytest.fixture(scope="session")
def long_text(tmp_path_factory):
    """Six shards and a bit, with documents and sentences that are skipped."""
    folder = tmp_path_factory.mktemp("text")
    sentences = (f"{'on and ' * (i % 40)}on, {i} times" + "\n" * (1 + (i % 50 == 0)) for i in range(6100))
    (folder / "long.txt").write_text("".join(sentences))
    return folder / "long.txt"


@pytest.fixture(scope="session")
def undisturbed(long_text):
    """The corpus that this process makes of it."""
    return parse_corpus(TextSource(str(long_text), **IN_PROCESS), long_text.parent / "whole.parsed")[0].path
