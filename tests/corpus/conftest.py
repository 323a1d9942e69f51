import pytest
from made_corpora import source, write_source


@pytest.fixture
def corpus(tmp_path):
    return write_source(tmp_path / "x.parsed", source())
