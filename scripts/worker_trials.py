"""Interrupt jobs with worker processes, and kill their workers: none may hang, and all must go on to the same bytes.

    python scripts/worker_trials.py --interrupts 300 --kills 300                         # of a light job
    python scripts/worker_trials.py --interrupts 20 --kills 20 --parse data/corpus.txt   # of structviews parse

Each trial starts a job with two workers, disturbs it at a random moment, and runs the same command again. The light
job's workers return random bytes, from 1 byte to 64 MB at a time. Interrupts go to the job alone or, as from a
terminal, to its workers too. Kills are SIGKILL, or SIGSTOP and SIGKILL a little later. Needs Linux, for /proc.
"""

import argparse
import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from structviews.runtime.processes import in_processes

# Seconds after which a job that should have ended hangs.
HANG = 10.0
# Results of the light job, the binary logarithm of the largest one's bytes, and jobs that differ in their results.
RESULTS, LARGEST, JOBS = 16, 26, 10


@dataclass(frozen=True)
class Trial:
    """How a disturbed job ended: in how many seconds, its exit code, its last line, and what was wrong then."""

    seconds: float
    code: int
    line: str
    wrong: str = ""


def interrupts(n: int, text: Path | None = None, seed: int = 1) -> list[Trial]:
    """SIGINT to ``n`` jobs, which parse a text or are light ones."""

    def interrupt(job: subprocess.Popen[str], choice: random.Random) -> None:
        (os.kill if choice.random() < 0.5 else os.killpg)(job.pid, signal.SIGINT)

    return [trial(text, interrupt, (130, "stopped"), random.Random(f"{seed} {i}"), i) for i in range(n)]


def kills(n: int, text: Path | None = None, seed: int = 2) -> list[Trial]:
    """SIGKILL to a worker of each of ``n`` jobs, to half of them after SIGSTOP."""

    def kill(job: subprocess.Popen[str], choice: random.Random) -> None:
        worker = choice.choice(workers_of(job.pid) or [0])
        if worker and choice.random() < 0.5:
            os.kill(worker, signal.SIGSTOP)
            time.sleep(choice.uniform(0, 0.3))
        if worker:
            os.kill(worker, signal.SIGKILL)

    return [trial(text, kill, (2, "a worker process died"), random.Random(f"{seed} {i}"), i) for i in range(n)]


def trial(
    text: Path | None,
    disturb: Callable[[subprocess.Popen[str], random.Random], None],
    expected: tuple[int, str],
    choice: random.Random,
    number: int,
) -> Trial:
    """Disturb a job, and let it go on; it may also have ended before it could be disturbed."""
    whole, takes = undisturbed(text, number % JOBS)
    with TemporaryDirectory(prefix="structviews-") as temporary:
        out = Path(temporary) / "out"
        job = start(text, number % JOBS, out)
        while job.poll() is None and len(workers := workers_of(job.pid)) < 2:
            time.sleep(0.002)
        time.sleep(choice.uniform(0, 0.8 * takes))
        with suppress(ProcessLookupError):  # it may have ended
            disturb(job, choice)
        began = time.perf_counter()
        try:
            output, _ = job.communicate(timeout=HANG)
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)
            output, _ = job.communicate()
            return Trial(HANG, -1, output, "hangs")
        seconds, line = time.perf_counter() - began, (output.splitlines() or [""])[-1]
        found = partial(Trial, seconds, job.returncode, line)
        as_expected = job.returncode == expected[0] and expected[1] in line
        # Python itself ends by the signal when it comes after the last line of the program.
        if "Traceback" in output or not (as_expected or job.returncode in (0, -signal.SIGINT)):
            return found(f"ends otherwise: {job.returncode} {output}")
        if any(map(is_running, workers)):
            return found("leaves a worker")
        again = start(text, number % JOBS, out)
        again.communicate(timeout=60 * HANG)
        return found("" if contents(out) == whole else "goes on to other bytes")


@cache
def undisturbed(text: Path | None, seed: int) -> tuple[dict[str, bytes], float]:
    """What a job writes, and the seconds from the start of its workers to its end."""
    with TemporaryDirectory(prefix="structviews-") as temporary:
        job = start(text, seed, Path(temporary) / "out")
        while job.poll() is None and len(workers_of(job.pid)) < 2:
            time.sleep(0.002)
        began = time.perf_counter()
        output, _ = job.communicate()
        if job.returncode:
            raise SystemExit(output)
        return contents(Path(temporary) / "out"), time.perf_counter() - began


def start(text: Path | None, seed: int, out: Path) -> "subprocess.Popen[str]":
    """A job in a process group of its own."""
    light = [__file__, "--job", str(seed), str(out)]
    parse = ["-m", "structviews", "parse", str(text), "--workers", "2", "-o", str(out)]
    return subprocess.Popen(
        [sys.executable, *(parse if text else light)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def contents(out: Path) -> dict[str, bytes]:
    """The files that a job wrote."""
    paths = out.iterdir() if out.is_dir() else [out]
    return {path.name: path.read_bytes() for path in paths}


def workers_of(pid: int) -> list[int]:
    """Process ids of the workers of a job."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(each) for each in children if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def is_running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def light_job(seed: int, out: Path) -> None:
    """Write the digest of one result after the other, ending as ``structviews parse`` does; go on from whole lines."""
    sizes = random.Random(seed)
    calls = [(seed, number, int(2 ** sizes.uniform(0, LARGEST))) for number in range(RESULTS)]
    done = [line for line in (out.read_text() if out.exists() else "").splitlines(keepends=True) if line[-1] == "\n"]
    out.write_text("".join(done))
    pending: deque[Any] = deque()
    try:
        with in_processes(2, dict) as engine, out.open("a") as file:
            for number in range(len(done), RESULTS):
                while len(pending) < engine.capacity() and calls[number + len(pending) :]:
                    pending.append(engine.submit(random_bytes, *calls[number + len(pending)]))
                file.write(hashlib.sha256(pending.popleft().result()).hexdigest() + "\n")
                file.flush()
    except KeyboardInterrupt:
        print("stopped")
        sys.exit(130)
    except ValueError as error:
        print(error)
        sys.exit(2)


def random_bytes(seed: int, number: int, size: int) -> bytes:
    """Run in a worker: a result."""
    return random.Random(f"{seed} {number}").randbytes(size)


def table(trials: dict[str, list[Trial]]) -> str:
    """A row for each kind of trial."""
    rows = ["trials              n  disturbed  longest s  median s  wrong"]
    for name, each in trials.items():
        seconds = sorted(one.seconds for one in each)
        wrong = Counter(one.wrong.partition(":")[0] for one in each if one.wrong)
        faults = ", ".join(f"{count} {what}" for what, count in wrong.items()) or "none"
        disturbed = sum(one.code > 0 for one in each)
        rows.append(
            f"{name:14} {len(each):6} {disturbed:10} {seconds[-1]:10.2f} {seconds[len(seconds) // 2]:9.2f}  {faults}"
        )
    return "\n".join(rows)


def main() -> None:
    """Run the trials and print a table; exit code 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interrupts", type=int, default=0)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--parse", type=Path, help="a text that structviews parse reads, in place of the light job")
    parser.add_argument("--job", nargs=2, metavar=("SEED", "OUT"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    # A shell's background job ignores SIGINT and hands that down.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if args.job:
        light_job(int(args.job[0]), Path(args.job[1]))
        return
    trials = {"interrupts": interrupts(args.interrupts, args.parse), "kills": kills(args.kills, args.parse)}
    trials = {name: each for name, each in trials.items() if each}
    for name, each in trials.items():
        for number, one in enumerate(each):
            if one.wrong:
                print(f"{name} {number}: {one.wrong}")
    print(table(trials))
    sys.exit(any(one.wrong for each in trials.values() for one in each))


if __name__ == "__main__":
    main()
