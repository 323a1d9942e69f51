import pytest

from structviews.runtime.device import encodes_in


@pytest.fixture(autouse=True, scope="module")
def _encoding_as_users_do():
    """Commands run here and in processes of their own, which encode in the CPU's precision: so they do here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("structviews.encoding.kinds.trained.encodes_in", encodes_in)
        yield
