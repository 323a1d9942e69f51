"""What the attacks rely on: a fault is seen as what it is."""

import os
import random
import signal
import time

import numpy as np
import pytest
import sandbox
from damage import damage, mutations_of
from sandbox import FAULTS, OK, REFUSED, Outcome, judged, observe

from structviews.errors import InputError


def fails(error):
    raise error


def dies():
    os.kill(os.getpid(), signal.SIGSEGV)


def test_every_end_of_a_reading_is_told_apart(monkeypatch):
    monkeypatch.setattr(sandbox, "SECONDS", 0.5)
    readings = [
        lambda: {"a": np.arange(3)},
        lambda: fails(InputError("x.txt: no: give another")),
        lambda: fails(KeyError("a")),
        dies,
        lambda: time.sleep(30),
        lambda: bytes(3 * 2**30),
        lambda: fails(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")),
        lambda: os._exit(3),
        lambda: 1,
    ]
    kinds = [outcome.kind for outcome in observe(readings)]
    assert kinds == [OK, REFUSED, "traceback", "crash", "hang", "memory", "memory", "crash", OK]


SAME, OTHER = Outcome(OK, content="h"), Outcome(OK, content="g")


@pytest.mark.parametrize(
    ("outcome", "original", "must_refuse", "kind"),
    [
        (Outcome(REFUSED, "x.txt: no"), "h", True, REFUSED),
        (Outcome(REFUSED, "x.txt: no\nno"), "h", True, "two lines"),
        (Outcome(REFUSED, "something is wrong"), "h", True, "unnamed"),
        (SAME, "h", True, "believed"),
        (SAME, "h", False, OK),
        (OTHER, "h", False, "believed"),
        (OTHER, None, False, OK),
    ],
)
def test_an_outcome_is_judged_by_the_promise(outcome, original, must_refuse, kind):
    assert judged(outcome, names=["x.txt"], original=original, must_refuse=must_refuse).kind == kind
    assert {"believed", "two lines", "unnamed"} < set(FAULTS)


@pytest.mark.parametrize("name", ["x.txt", "x.json", "x.jsonl", "x.toml", "x.npy", "x.npz", "x.arrow", "x.safetensors"])
def test_damage_is_the_same_for_the_same_seed_and_always_a_change(name):
    assert len({mutation.__name__ for mutation in mutations_of(name)}) >= 6
    for content in (b"", b"[1, 2]\n", bytes(range(256))):
        first, again = ([damage(name, content, random.Random(seed)) for seed in range(20)] for _ in range(2))
        assert first == again
        assert all(changed != content for _, changed in first)
