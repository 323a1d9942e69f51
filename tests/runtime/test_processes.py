"""Workers end, die and fail without anyone waiting for them."""

import multiprocessing
import os
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from scripts_for_tests import load

from structviews.errors import InputError
from structviews.runtime.processes import here, in_processes, report, reporting, reports_to

SOON = 60  # seconds; nothing here takes one
UNGUARDED = """
import os
from structviews.runtime.processes import in_processes

with in_processes(2, dict) as engine:
    engine.submit(os.getpid).result()
"""
MASKS = """
import signal
from structviews.runtime.processes import in_processes

if __name__ == "__main__":
    with in_processes(1, dict) as engine:
        print(signal.SIGINT in engine.submit(signal.pthread_sigmask, signal.SIG_BLOCK, []).result())
    print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))
"""


class NumberedError(InputError):
    def __init__(self, number, reason):
        super().__init__(number, reason)
        self.number = number


class AwkwardError(Exception):
    """Pickle cannot make it again."""

    def __init__(self, number, reason):
        super().__init__(f"{number}: {reason}")


def fail(kind, *arguments):
    raise kind(*arguments)


def die_amid_a_result():
    """Send the length and a part of a result."""
    (pipe,) = (number for number in range(3, 100) if is_socket(number))
    os.write(pipe, struct.pack("!i", 10**6) + b"a part")
    os.kill(os.getpid(), signal.SIGKILL)


def is_socket(number):
    with suppress(OSError):
        return stat.S_ISSOCK(os.fstat(number).st_mode)
    return False


def ended(script):
    return subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=SOON, check=False)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
@pytest.mark.parametrize("kind", ["interrupts", "kills"])
def test_disturbed_jobs_end_and_go_on(monkeypatch, kind):
    trials = load("worker_trials", monkeypatch)
    trials.HANG, trials.JOBS = SOON, 1
    ended = getattr(trials, kind)(2)
    assert [each.wrong for each in ended] == [""] * 2
    assert any(each.code > 0 for each in ended)  # some were disturbed


def test_a_worker_that_dies_amid_a_result_fails_all_that_wait():
    with in_processes(2, dict) as engine:
        first = engine.submit(die_amid_a_result)
        others = [engine.submit(time.sleep, 0.2) for _ in range(20)]
        with pytest.raises(InputError, match=r"^a worker process died \(signal 9, .*\): run the same"):
            first.result(SOON)
        endings = [each.exception(SOON) for each in others]  # none is left undone
        assert isinstance(endings[-1], InputError)
        with pytest.raises(InputError, match="a worker process died"):
            engine.submit(os.getpid)
    with in_processes(1, dict) as engine, pytest.raises(InputError, match=r"a worker process died \(exit code 3\)"):
        engine.submit(os._exit, 3).result(SOON)


def test_a_script_that_would_start_itself_again_is_told_so(tmp_path):
    (tmp_path / "script.py").write_text(UNGUARDED)
    done = ended(tmp_path / "script.py")
    line = done.stderr.splitlines()[-1]
    assert "the worker processes could not start (exit code 1" in line
    assert '`if __name__ == "__main__":`' in line


def test_what_a_function_raises_is_raised_here():
    with in_processes(1, dict) as engine:
        with pytest.raises(NumberedError) as raised:
            engine.submit(fail, NumberedError, 3, "too long").result(SOON)
        assert (raised.value.number, raised.value.args) == (3, (3, "too long"))
        assert not hasattr(raised.value, "__notes__")  # a user's mistake needs no traceback
        with pytest.raises(RuntimeError) as raised:
            engine.submit(fail, RuntimeError, "broken").result(SOON)
        assert "in fail\n    raise kind" in raised.value.__notes__[0]
        with pytest.raises(RuntimeError, match="AwkwardError: 3: too long"):
            engine.submit(fail, AwkwardError, 3, "too long").result(SOON)
        with pytest.raises(TypeError, match="the result of a worker process cannot be pickled"):
            engine.submit(threading.Lock).result(SOON)
        assert engine.submit(abs, -1).result(SOON) == 1


def test_a_cancelled_call_is_not_made(tmp_path):
    with in_processes(1, dict) as engine:
        engine.submit(time.sleep, 0.2)
        cancelled = engine.submit(os.mkdir, tmp_path / "made")
        assert cancelled.cancel()
        assert engine.submit(abs, -1).result(SOON) == 1
    assert not (tmp_path / "made").exists()


def test_stopped_and_busy_workers_end_with_the_block():
    with in_processes(2, dict) as engine:
        calls = [engine.submit(time.sleep, 10 * SOON) for _ in range(3)]
        for each in multiprocessing.active_children():
            os.kill(each.pid, signal.SIGSTOP)
    assert multiprocessing.active_children() == []
    assert all(call.exception(SOON) for call in calls)
    with pytest.raises(RuntimeError, match="have ended with their block"):
        engine.submit(os.getpid)


def test_workers_never_hear_the_terminals_interrupt(tmp_path):
    (tmp_path / "script.py").write_text(MASKS)
    done = ended(tmp_path / "script.py")
    assert done.stdout.split() == ["True", "False"], done.stderr


def parse_in_two_goes(fails_first):
    """Report four of ten, twice if the first go fails, and forget two."""
    with reporting(10):
        if fails_first:
            report(4)
        report(4)
        report(4)
    return "done"


@pytest.mark.parametrize("fails_first", [False, True])
@pytest.mark.parametrize("engine", [here, lambda: in_processes(2, dict)])
def test_a_call_reports_how_far_it_is(engine, fails_first):
    reported = []
    with engine() as open_engine:
        assert open_engine.submit(parse_in_two_goes, fails_first, on_report=reported.append).result() == "done"
        assert open_engine.submit(parse_in_two_goes, fails_first).result() == "done"  # to nobody
    assert reported == [4, 4, 2]
    with reports_to(reported.append), reporting(10, share=0.5):  # of two that do the same work
        report(4)
    assert reported[3:] == [2, 3]


def test_after_a_report_that_nobody_takes_no_result_is_that_of_another_call():
    """As where the terminal is gone."""

    def broken(done):
        raise BrokenPipeError

    with in_processes(1, dict) as engine:
        first = engine.submit(parse_in_two_goes, False, on_report=broken)
        second = engine.submit(os.getpid)
        with pytest.raises(BrokenPipeError):
            first.result(SOON)
        with pytest.raises(InputError, match="a worker process died"):
            second.result(SOON)
