"""A corpus of topics and a tiny encoder, for the channel and the view that read one."""

import pytest
from corpora import small_config, topic_corpus
from tiny_encoders import encoder_folder

from structviews.errors import InputError


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    topic_corpus(folder / "x.parsed", documents=8)
    encoder_folder(folder / "encoder", "bert")
    return folder


@pytest.fixture(scope="session")
def with_encoder(place):
    """A function from a folder, views and settings to a configuration with that encoder."""

    def make(out, views, **settings):
        return small_config(
            place / "x.parsed", out, views, **{"encoder": str(place / "encoder"), "epochs": 1} | settings
        )

    return make


@pytest.fixture(scope="session")
def refused():
    """Call what must fail, and give its one line."""

    def call(action, *arguments):
        with pytest.raises(InputError) as error:
            action(*arguments)
        assert "\n" not in str(error.value)
        return str(error.value)

    return call
