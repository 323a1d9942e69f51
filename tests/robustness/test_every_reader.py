"""Damaged files, a few of each kind for each reader.

With ATTACKS=1000 in the environment, a thousand for each; with SEED=2, others.
"""

import os
from itertools import islice

import pytest
import readers_of_corpora
import readers_of_runs
import readers_of_vectors
from readers import READERS, Sample, damages, outcomes
from sandbox import FAULTS

DECLARED_IN = (readers_of_corpora, readers_of_runs, readers_of_vectors)
ATTACKS = int(os.environ.get("ATTACKS", "12"))
SEED = int(os.environ.get("SEED", "1"))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("readers")


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_refused_in_one_line_or_read(name, root):
    sample = Sample(READERS[name], root)
    damaged = list(islice(damages(sample, SEED), ATTACKS))
    found = zip(damaged, outcomes(sample, damaged), strict=True)
    faults = [
        f"{a.kind}: {a.detail} ({d.path.name}, {d.mutation}{', resealed' * d.resealed})"
        for d, a in found
        if a.kind in FAULTS
    ]
    assert not faults, f"{len(faults)} of {ATTACKS} inputs:\n" + "\n".join(faults)
