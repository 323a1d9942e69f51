from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def treebanks():
    folder = Path(__file__).parents[2].parent / "shared/data/treebanks"
    if not folder.is_dir():
        pytest.skip("the treebanks are not at ../shared/data/treebanks")
    return folder
