"""Makes this folder importable, for ``trees_for_tests``, and the tests the same on every run."""

import pytest
import torch
from hypothesis import settings

settings.register_profile("same", deadline=None, derandomize=True)
settings.load_profile("same")


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)
