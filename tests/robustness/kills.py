"""Commands that are disturbed: killed at random moments, called twice at once, without space, without permission.

Whatever happened, the same command brings the same bytes as one that nothing disturbed, and leaves nothing behind.
"""

import random
import shutil
import signal
import stat
import time
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

from commands import Command, snapshot
from processes import Ended, Process, small_files, start, without_privileges

SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
SECONDS = 120


class Stage:
    """A folder in which a command is called again and again, from the same files.

    Raises:
        AssertionError: if the command fails undisturbed.
    """

    def __init__(self, command: Command, root: Path):
        self.command = command
        self.given = root / command.name / "given"  # the files that it reads
        self.work = root / command.name / "work"  # where it is called; always the same, as results may hold paths
        (self.given / ".home").mkdir(parents=True)
        with chdir(self.given):
            command.make(self.given)
        self.fresh()
        began = time.monotonic()
        ended = self.start().wait(SECONDS)
        self.seconds = time.monotonic() - began
        assert ended.code == 0, f"{command.name}: undisturbed, it ends with {ended.code}: {ended.errors}"
        self.expected = snapshot(self.work)

    def fresh(self) -> None:
        """The folder as it was made, times included."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.given, self.work)

    def start(self, prepare: Callable[[], object] | None = None, number: int = 0) -> Process:
        errors = self.work.with_name(f"errors.{number}")
        return start(self.command.arguments.split(), self.work, errors, prepare)

    def again(self) -> list[str]:
        """Call the command once more, undisturbed; what is wrong with the result."""
        ended = self.start().wait(SECONDS)
        if ended.code and not (ended.code == 2 and "already exists" in ended.errors):
            return [f"afterwards the same command ends with {unforeseen(ended)}"]
        return [ended.fault] * bool(ended.fault) + self.differences()

    def differences(self) -> list[str]:
        """What differs from the result of a call that nothing disturbed."""
        now, expected = snapshot(self.work), self.expected
        found = [f"{name} is left behind" for name in now if name not in expected]
        found += [f"{name} is missing" for name in expected if name not in now]
        return found + [f"{name} differs" for name in now if name in expected and now[name] != expected[name]]


def killed(stage: Stage, number: int, rng: random.Random) -> list[str]:
    """Kill the command up to three times, then let it end."""
    stage.fresh()
    faults = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        process = stage.start()
        time.sleep(rng.uniform(0, stage.seconds))
        process.send(number)
        faults.append(process.wait(10 if number != signal.SIGKILL else 1).fault)
    return [f"{signal.Signals(number).name}: {fault}" for fault in (*filter(None, faults), *stage.again())]


def twice_at_once(stage: Stage, rng: random.Random) -> list[str]:
    """Two calls at the same time: one does the work; the other does it too, or says in one line who has it."""
    stage.fresh()
    processes = []
    for number in range(2):
        processes.append(stage.start(number=number))
        time.sleep(rng.uniform(0, stage.seconds / 2))
    ended = [process.wait(SECONDS) for process in processes]
    faults = [fault for each in ended for fault in refusal(each)]
    if all(each.code for each in ended):
        faults.append(f"neither ends: {' / '.join(map(unforeseen, ended))}")
    faults += stage.differences() or stage.again()
    return [f"two at once: {fault}" for fault in faults]


def without_space(stage: Stage, rng: random.Random) -> list[str]:
    """A limit on the size of files stands for a full disk; afterwards there is space again."""
    stage.fresh()
    sizes = [len(content) for name, content in stage.expected.items() if content and not (stage.given / name).exists()]
    limit = rng.randrange(max(sizes, default=4096))
    ended = stage.start(lambda: small_files(limit)).wait(SECONDS)
    return [f"no space after {limit} bytes: {fault}" for fault in refusal(ended) + stage.again()]


def without_permission(stage: Stage, rng: random.Random) -> list[str]:
    """Folders that are read-only; afterwards they can be written again."""
    stage.fresh()
    folders = [stage.work, *(path for path in stage.work.rglob("*") if path.is_dir() and path.name != ".home")]
    before = snapshot(stage.work)
    for folder in folders:
        folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    ended = stage.start(without_privileges).wait(SECONDS)
    for folder in folders:
        folder.chmod(stat.S_IRWXU)
    faults = refusal(ended) if ended.code else ["no error"]
    faults += [
        f"{name} was written"
        for name, content in snapshot(stage.work).items()
        if before.get(name, 0) != content and not name.startswith(".home/")
    ]
    # Where the folder of a vector file cannot be written, its cache is in the user's.
    shutil.rmtree(stage.work / ".home" / "structviews", ignore_errors=True)
    return [f"read-only: {fault}" for fault in faults + stage.again()]


def refusal(ended: Ended) -> list[str]:
    """What is wrong with the end of a command that could not write, if it could not: it must say why in one line."""
    errors = [line for line in ended.errors.splitlines() if line.startswith("error:")]
    refused = ended.code == 2 and len(errors) == 1 and not ended.fault
    return [] if ended.code == 0 or refused else [ended.fault or unforeseen(ended)]


def unforeseen(ended: Ended) -> str:
    return f"code {ended.code}: {ended.errors.strip()[-300:]}"
