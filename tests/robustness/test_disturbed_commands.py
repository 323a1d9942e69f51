"""Every writing command killed, called twice at once, without space and without permission: the same bytes after it.

With KILLS=20 in the environment, twenty kills by each signal; with SEED=2, at other moments.
"""

import os
import random
from functools import cache
from itertools import product

import pytest
from commands import BLOCK, COMMANDS, SLOW_COMMANDS
from kills import SIGNALS, Stage, killed, twice_at_once, without_permission, without_space
from processes import import_all

SEED = int(os.environ.get("SEED", "1"))
KILLS = int(os.environ.get("KILLS", "2"))
ALL = [*COMMANDS, *SLOW_COMMANDS]
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def stages(tmp_path_factory):
    """Each command's folder, made when it is first asked for."""
    import_all()
    root = tmp_path_factory.mktemp("commands")
    with pytest.MonkeyPatch.context() as patch:  # which forked commands inherit
        for module in ("encoding.streaming", "evaluation.retrieval.candidates"):
            patch.setattr(f"structviews.{module}.AT_ONCE", BLOCK)
        yield cache(lambda command: Stage(command, root))


def killed_once(stage, rng):
    return killed(stage, SIGNALS[ALL.index(stage.command) % len(SIGNALS)], rng)


def killed_by_each_signal(stage, rng):
    return [fault for number in SIGNALS * KILLS for fault in killed(stage, number, rng)]


QUICK = (killed_once, without_space)
SLOW = (killed_by_each_signal, twice_at_once, without_permission)


def case(command, attack):
    marks = () if command in COMMANDS and attack in QUICK else pytest.mark.slow
    return pytest.param(command, attack, id=f"{command.name}-{attack.__name__}", marks=marks)


@pytest.mark.parametrize(("command", "attack"), [case(*each) for each in product(ALL, QUICK + SLOW)])
def test_a_disturbed_command_gives_the_same_bytes_in_the_end(command, attack, stages):
    assert attack(stages(command), random.Random(SEED)) == []
