"""Every writing command killed, called twice at once, without space and without permission: the same bytes after it.

With KILLS=20 in the environment, twenty kills by each signal; with SEED=2, at other moments.
"""

import os
import random
from functools import cache

import pytest
from commands import COMMANDS
from kills import SIGNALS, Stage, killed, twice_at_once, without_permission, without_space

SEED = int(os.environ.get("SEED", "1"))
KILLS = int(os.environ.get("KILLS", "2"))
# Commands that take a tenth of a second; of the others each kill takes seconds.
QUICK = [name for name, command in COMMANDS.items() if not command.slow]
SLOW = [name for name, command in COMMANDS.items() if command.slow]
PARAMETERS = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def stages(tmp_path_factory):
    """Each command's folder, made when it is first asked for."""
    root = tmp_path_factory.mktemp("commands")
    return cache(lambda name: Stage(COMMANDS[name], root))


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_killed_command_is_resumed_to_the_same_bytes(name, stages):
    number = SIGNALS[list(COMMANDS).index(name) % len(SIGNALS)]
    assert killed(stages(name), number, random.Random(SEED)) == []


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_full_disk_is_one_line(name, stages):
    assert without_space(stages(name), random.Random(SEED)) == []


ATTACKS = {
    "killed by each signal": lambda stage, rng: [f for number in SIGNALS * KILLS for f in killed(stage, number, rng)],
    "twice at once": twice_at_once,
    "read-only": lambda stage, rng: without_permission(stage),
}


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_disturbed_command_gives_the_same_bytes_in_the_end(name, attack, stages):
    assert ATTACKS[attack](stages(name), random.Random(SEED)) == []
