"""A keyword argument that a function does not know."""

import pytest

from structviews.errors import names_checked


class Encoder:
    @names_checked
    def encode(self, sentences, *, normalize_embeddings=False, show_progress_bar=None):
        """Its own."""
        return sentences, normalize_embeddings, show_progress_bar


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("normalise", "did you mean 'normalize_embeddings'?"),
        ("progress", "did you mean 'show_progress_bar'?"),
        ("xyz", "it takes sentences, normalize_embeddings, show_progress_bar"),
    ],
)
def test_the_nearest_name_or_all_are_named(name, remedy):
    with pytest.raises(TypeError, match=r"Encoder\.encode\(\) got an unexpected keyword argument") as error:
        Encoder().encode(["x"], **{name: True})
    assert str(error.value).endswith(remedy)


def test_known_names_are_passed_on():
    assert Encoder().encode(["x"], normalize_embeddings=True) == (["x"], True, None)
    assert Encoder().encode(sentences=1, show_progress_bar=2) == (1, False, 2)
