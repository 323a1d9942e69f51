"""A corpus of topics, a tiny encoder for the channel and the view that read one, and a tiny teacher."""

import pytest
from corpora import small_config, topic_corpus
from tiny_encoders import encoder_folder, published_model


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    topic_corpus(folder / "x.parsed", documents=8)
    encoder_folder(folder / "encoder", "bert")
    published_model(folder / "teacher")
    return folder


@pytest.fixture(scope="session")
def with_encoder(place):
    """A function from a folder, views and settings to a configuration with that encoder."""

    def make(out, views, **settings):
        own = {"encoder": str(place / "encoder"), "epochs": 1} | settings
        return small_config(place / "x.parsed", out, views, **own)

    return make
