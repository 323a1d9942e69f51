import functools
import warnings

import pytest
import tiny_parsers
import torch
from jobs import IN_PROCESS, text_source

from structviews.parsing import pipeline
from structviews.parsing.neural import Featuriser


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
    """Three shards and a bit, with documents and sentences that are skipped."""
    folder = tmp_path_factory.mktemp("text")
    sentences = (f"{'on and ' * (i % 40)}on, {i} times" + "\n" * (1 + (i % 50 == 0)) for i in range(3100))
    (folder / "long.txt").write_text("".join(sentences))
    return folder / "long.txt"


@pytest.fixture(scope="session")
def undisturbed(long_text):
    """The corpus that this process makes of it."""
    return pipeline.parse_corpus(text_source(long_text, **IN_PROCESS), long_text.parent / "whole.parsed")[0].path


@pytest.fixture
def interrupted(monkeypatch):
    """Calls what parses a corpus, and interrupts it when all shards are there but not the manifest."""

    def interrupt(*_):
        raise KeyboardInterrupt

    def call(job, *arguments):
        with monkeypatch.context() as patch:
            patch.setattr(pipeline, "write_manifest", interrupt)
            with pytest.raises(KeyboardInterrupt):
                job(*arguments)

    return call


@pytest.fixture
def structviews(command, monkeypatch):
    """The command line in this process, which sets its own way of showing warnings."""
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    return command


@pytest.fixture
def mask():
    """Of sentences of three lengths."""
    return torch.arange(9) < torch.tensor([1, 4, 9])[:, None]


@pytest.fixture
def features(mask):
    return torch.randint(0, 10, (*mask.shape, 1 + Featuriser.n_hashed), dtype=torch.int32)
