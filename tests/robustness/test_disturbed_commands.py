"""Every writing command killed, called twice at once, without space and without permission: the same bytes after it.

``scripts/robustness.py`` does the same many times.
"""

import random

import pytest
import typer
from commands import COMMANDS
from kills import SIGNALS, Stage, killed, same_twice, twice_at_once, without_permission, without_space

from structviews.cli.app import app

SEED = 1
# Commands that are not attacked, each with the reason.
OTHERS = {
    **dict.fromkeys(("verify", "corpus stats", "recipes", "table", "compare", "serve"), "writes nothing"),
    **dict.fromkeys(("inspect", "tasks sentences", "runs project"), "one file, as of export"),
    **dict.fromkeys(("tasks analogies", "tasks retrieval", "tasks captions"), "one file, written as eval does"),
    **dict.fromkeys(("push", "parser download"), "needs a network"),
    "gate": "one file, written as a run's components are",
    "runs export": "one folder, written as join does",
    "demo": "parse, train and eval one after another",
}
# Commands that take a tenth of a second; of the others each kill takes seconds.
QUICK = [name for name, command in COMMANDS.items() if not command.slow]
SLOW = [name for name, command in COMMANDS.items() if command.slow]
PARAMETERS = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("commands")


@pytest.fixture(scope="module")
def stages(root):
    """Each command's folder, made when it is first asked for."""
    made = {}

    def stage(name):
        if name not in made:
            made[name] = Stage.of(COMMANDS[name], root)
        return made[name]

    return stage


def names_of(command, prefix=""):
    """The names of all commands, with those of their groups."""
    for name, inner in command.commands.items():
        yield from names_of(inner, f"{prefix}{name} ") if hasattr(inner, "commands") else [prefix + name]


def test_no_command_is_forgotten():
    typed = [command.arguments for command in COMMANDS.values()]
    attacked = {
        name for name in names_of(typer.main.get_command(app)) if any(f"{t} ".startswith(f"{name} ") for t in typed)
    }
    assert sorted(attacked | OTHERS.keys()) == sorted(names_of(typer.main.get_command(app)))
    assert not attacked & OTHERS.keys()


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_killed_command_is_resumed_to_the_same_bytes(name, stages):
    number = SIGNALS[list(COMMANDS).index(name) % len(SIGNALS)]
    assert killed(stages(name), number, random.Random(SEED)) == []


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_full_disk_is_one_line(name, stages):
    assert without_space(stages(name), random.Random(SEED)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_killed_by_each_signal_is_resumed_to_the_same_bytes(name, stages):
    rng = random.Random(SEED)
    assert [fault for number in SIGNALS * 2 for fault in killed(stages(name), number, rng)] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_two_calls_give_the_same_bytes(name, stages):
    assert same_twice(stages(name)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_two_calls_at_once_do_not_disturb_each_other(name, stages):
    assert twice_at_once(stages(name), random.Random(SEED)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_read_only_folder_is_one_line(name, stages):
    assert without_permission(stages(name)) == []
