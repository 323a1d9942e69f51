import functools
from pathlib import Path

import pytest
import tiny_parsers


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
