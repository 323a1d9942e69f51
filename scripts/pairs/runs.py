"""All runs of a study, one after another, and how its command ends."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch

from pairs.kept import score
from pairs.work import Work
from structviews.errors import DivergedError, InputError
from structviews.runs.folder import STATE
from structviews.runtime.documents import write_json
from structviews.runtime.processes import Interrupted


def run_all(work: Work, only: str, prepared: Callable[[], object]) -> None:
    """Train and score every run that has no scores yet and that no other process has.

    Args:
        work: the study.
        only: patterns of the names of the runs to do, comma-separated.
        prepared: called once what all runs need is there.

    Raises:
        InputError: if ``only`` names no run, or, after all others were done, if one diverged.
    """
    runs = [run for run in work.plan.runs() if any(fnmatch(run.name, each) for each in only.split(","))]
    if not runs:
        raise InputError(
            f"--only {only}: names no run: give names or patterns of runs, such as '{work.plan.runs()[0].name}'"
        )
    if all(work.file(run).exists() for run in runs):
        return
    work.prepare()
    prepared()
    diverged: list[str] = []
    for number, run in enumerate(runs, 1):
        with work.claimed(run.name) as ours:
            if ours and not work.file(run).exists():
                print(f"run {number} of {len(runs)}: {run.name}", file=sys.stderr, flush=True)
                try:
                    folder = work.train(run)
                except DivergedError as error:  # the others are still wanted
                    print(f"error: {error}", file=sys.stderr)
                    diverged.append(run.name)
                    continue
                write_json(work.file(run), score(work, run, folder), sealed=False)
                # The state is half of a folder, and copies of other runs' views are all of it; neither is needed again.
                shutil.rmtree(work.run(run) if run.row.parts else work.run(run) / STATE, ignore_errors=True)
    left = [run.name for run in runs if not work.file(run).exists() and run.name not in diverged]
    if left:
        print(f"with another process, or to be done again: {', '.join(left)}", file=sys.stderr)
    if diverged:
        raise DivergedError(f"training diverged: {', '.join(diverged)}: the other runs are not affected")


@contextmanager
def errors_as_exits() -> Iterator[None]:
    """End the process with one line, and the exit status of a command, if a step is stopped or its input is wrong."""
    try:
        yield
    except Interrupted as stop:
        print(f"stopped at step {stop.step}, saved; run the same command again to resume", file=sys.stderr)
        sys.exit(128 + stop.signal)
    except KeyboardInterrupt:  # while no run is trained
        print("stopped; run the same command again to resume", file=sys.stderr)
        sys.exit(130)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except subprocess.CalledProcessError as error:  # the command has said why
        sys.exit(error.returncode)
