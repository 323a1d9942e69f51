"""Creating a view by name."""

from structviews.pretrained.loading import Blueprint
from structviews.settings import Settings
from structviews.views import VIEWS
from structviews.views.view import View


def create(
    name: str, word_dim: int, dim: int, config: Settings | None = None, encoder: Blueprint | None = None
) -> View:
    """Create a view.

    Args:
        name: registered name.
        word_dim: dimension of the word vectors.
        dim: dimension of the view's vector.
        config: an instance of the view's ``Config``; None for its defaults.
        encoder: for views that read the pieces of a pretrained encoder.

    Raises:
        InputError: if there is no view of this name.
    """
    cls = VIEWS[name]
    given = (word_dim, dim, config or cls.Config())
    return cls(*given, encoder) if cls.reads_pieces else cls(*given)
