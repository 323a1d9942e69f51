"""Attack every reader of files with damaged ones, and every writing command with kills, for some minutes.

    python scripts/robustness.py --minutes 60
    python scripts/robustness.py --minutes 5 --only corpus --seed 2

Readers and commands take turns, so that each gets its share of the time; a reader is done after `--inputs` damaged
files, a command after `--kills`. A table at the end says how all of them ended. Each fault is kept as a file, with the
line that does it again; there is exit code 1 if there was one. docs/reliability.md says what is a fault.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# Sums of several threads may differ; and one command at a time is attacked.
os.environ["OMP_NUM_THREADS"] = "1"
sys.path[:0] = [str(ROOT / "tests" / "robustness"), str(ROOT / "tests")]
SHARE_OF_READERS = 0.5
INPUTS_A_TURN = 40


def options() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0, help="time for all of it")
    parser.add_argument("--only", default="", help="comma-separated readers or commands")
    parser.add_argument("--inputs", type=int, default=1000, help="damaged files for each reader")
    parser.add_argument("--kills", type=int, default=20, help="kills of each command")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--turn", type=int, help="only this one of the turns of a reader or a command")
    parser.add_argument("-o", "--out", type=Path, default=Path("build/robustness"), help="folder for faults")
    return parser.parse_args()


@dataclass
class Tally:
    """How the attacks on one reader or command ended.

    Attributes:
        attacks: how many there were.
        ends: their number by kind.
        turn: how many times it had its turn.
    """

    name: str
    attacks: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    turn: int = 0


class Readers:
    """Damaged files for readers, `INPUTS_A_TURN` at a time."""

    def __init__(self, chosen: argparse.Namespace, folder: Path):
        from all_readers import READERS  # noqa: PLC0415 - after the number of threads is set

        self.readers, self.chosen, self.folder = READERS, chosen, folder
        self.samples: dict[str, Any] = {}

    def take_turn(self, tally: Tally) -> bool:
        """Attack a reader; whether it is done."""
        from readers import Sample, damages, outcomes, whole  # noqa: PLC0415

        if tally.name not in self.samples:
            sample = Sample.of(self.readers[tally.name], self.folder)
            self.samples[tally.name] = sample, whole(sample)
        sample, original = self.samples[tally.name]
        inputs = min(INPUTS_A_TURN, self.chosen.inputs - tally.attacks)
        damaged = list(islice(damages(sample, f"{self.chosen.seed} {tally.turn}"), inputs))
        for each, outcome in zip(damaged, outcomes(sample, original, damaged), strict=True):
            tally.attacks += 1
            tally.ends[outcome.kind] += 1
            if outcome.kind not in ("ok", "refused"):
                again = f"{each.mutation}{', resealed' * each.resealed}"
                self.keep(tally, each.path.name, each.content, f"{outcome.kind}: {outcome.detail} ({again})")
        return tally.attacks >= self.chosen.inputs

    def keep(self, tally: Tally, name: str, content: bytes, what: str) -> None:
        """Keep a damaged file, with what it did and how to see it again."""
        folder = self.chosen.out / tally.name
        folder.mkdir(parents=True, exist_ok=True)
        number = f"{tally.turn:03d}-{tally.attacks:04d}"
        (folder / f"{number}-{name}").write_bytes(content)
        report(self.chosen, tally, f"{what} [{number}-{name}]")


class Commands:
    """Disturbances of commands, one at a time."""

    def __init__(self, chosen: argparse.Namespace, folder: Path):
        import kills  # noqa: PLC0415 - after the number of threads is set
        from commands import COMMANDS  # noqa: PLC0415

        self.commands, self.kills, self.chosen, self.folder = COMMANDS, kills, chosen, folder
        self.stages: dict[str, Any] = {}

    def take_turn(self, tally: Tally) -> bool:
        """Disturb a command; whether it is done. Every fourth turn is not a kill."""
        if tally.name not in self.stages:
            self.stages[tally.name] = self.kills.Stage.of(self.commands[tally.name], self.folder)
        stage, kills = self.stages[tally.name], self.kills
        rng = random.Random(f"{self.chosen.seed} {tally.name} {tally.turn}")
        kind, number = divmod(tally.turn, 4)[::-1]
        if kind < 3:
            tally.attacks += 1
            faults = kills.killed(stage, kills.SIGNALS[kind], rng)
        else:
            others = [
                lambda: kills.same_twice(stage),
                lambda: kills.twice_at_once(stage, rng),
                lambda: kills.without_space(stage, rng),
                lambda: kills.without_permission(stage),
            ]
            faults = others[number % len(others)]()
        tally.ends["fault" if faults else "same bytes"] += 1
        for fault in faults[:5]:
            report(self.chosen, tally, fault)
        return tally.attacks >= self.chosen.kills


def report(chosen: argparse.Namespace, tally: Tally, what: str) -> None:
    """Print a fault, and add it to the list, with the command that does it again."""
    chosen.out.mkdir(parents=True, exist_ok=True)
    again = f"python scripts/robustness.py --only {tally.name} --seed {chosen.seed} --turn {tally.turn}"
    line = f"{tally.name}: {' '.join(what.split())[:400]}"
    print(line, flush=True)
    with (chosen.out / "faults.txt").open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(f"{line}\n    {again}\n")


def attack(attackers: Any, tallies: list[Tally], until: float, turn: int | None) -> None:
    """Give each its turn until all are done or the time is over."""
    waiting = list(tallies)
    while waiting and time.monotonic() < until:
        for tally in list(waiting):
            if time.monotonic() > until:
                return
            tally.turn = tally.turn if turn is None else turn
            try:
                done = attackers.take_turn(tally)
            except AssertionError as error:  # undisturbed, it does not work
                print(f"{tally.name}: {error}", flush=True)
                tally.ends["broken"] += 1
                done = True
            if done or turn is not None:
                waiting.remove(tally)
            tally.turn += 1


def table(title: str, what: str, tallies: list[Tally]) -> None:
    """Print how the attacks ended."""
    kinds = list(dict.fromkeys(kind for tally in tallies for kind in sorted(tally.ends, key="okrefused".find)[::-1]))
    print(f"\n| {title} | {what} | {' | '.join(kinds)} |\n|---{'|---' * (len(kinds) + 1)}|")
    for tally in tallies:
        print(f"| {tally.name} | {tally.attacks:,} | {' | '.join(f'{tally.ends[kind]:,}' for kind in kinds)} |")
    sums = [sum(tally.ends[kind] for tally in tallies) for kind in kinds]
    print(f"| all | {sum(tally.attacks for tally in tallies):,} | {' | '.join(f'{n:,}' for n in sums)} |", flush=True)


def main() -> None:
    """Attack, and say how it ended."""
    chosen = options()
    import torch  # noqa: PLC0415 - after the number of threads is set

    torch.set_num_threads(1)
    folder = Path(tempfile.mkdtemp(prefix="robustness-"))
    began = time.monotonic()
    only = set(filter(None, chosen.only.split(",")))
    try:
        parts = [(Readers(chosen, folder), "readers", "inputs"), (Commands(chosen, folder), "commands", "kills")]
        tallies = []
        for number, (attackers, name, _) in enumerate(parts):
            names = [each for each in getattr(attackers, name) if not only or each in only]
            tallies.append([Tally(each) for each in names])
            share = SHARE_OF_READERS if number == 0 and not only else 1
            attack(attackers, tallies[-1], began + share * 60 * chosen.minutes, chosen.turn)
        for (_, name, what), found in zip(parts, tallies, strict=True):
            if found:
                table(name[:-1], what, found)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ends = Counter(kind for found in tallies for tally in found for kind in tally.ends.elements())
    faults = sum(n for kind, n in ends.items() if kind not in ("ok", "refused", "same bytes"))
    print(f"\n{faults:,} faults" + (f", in {chosen.out}" if faults else ""))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
