"""Makes this folder importable, for ``trees_for_tests``, and the tests the same on every run."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)
