"""Function calls in worker processes on this machine, and stopping a long job by signal.

Each worker has a pipe of its own, and only the worker holds the pipe's other end: a process that dies in the middle of
a message, however large, ends the pipe, so no one waits for the rest.
"""

import os
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from threading import Thread, current_thread, main_thread
from typing import Any, NamedTuple

from structviews.errors import InputError

# Time for a worker that closed its pipe to end by itself, so that its exit code is there.
SECONDS_TO_EXIT = 5.0
REPORT, RESULT, ERROR = range(3)  # what a worker sends: how far a call is, its result, or what it raised
OnReport = Callable[[float], None]


def ignore(done: float) -> None:
    """Take a report that nobody waits for."""


_on_report: ContextVar[OnReport] = ContextVar("_on_report", default=ignore)


def report(done: float) -> None:
    """Within a call, say that so much more of it is done, to the ``on_report`` that it was submitted with, if any."""
    _on_report.get()(done)


@contextmanager
def reports_to(on_report: OnReport) -> Iterator[None]:
    """Pass what is reported in the block to a function."""
    token = _on_report.set(on_report)
    try:
        yield
    finally:
        _on_report.reset(token)


@contextmanager
def reporting(total: float, share: float = 1) -> Iterator[None]:
    """Pass on what is reported in the block, in all ``total`` times ``share``.

    What is more than ``total``, as of work that is done again, is dropped; what is missing at the end is added.
    """
    outer, reported = _on_report.get(), 0.0

    def pass_on(done: float) -> None:
        nonlocal reported
        new = min(done, total - reported)
        reported += new
        if new:
            outer(share * new)

    with reports_to(pass_on):
        yield
    pass_on(total - reported)


class Engine(NamedTuple):
    """Runs function calls, possibly in other processes.

    ``submit`` takes a module-level function and its arguments and returns the future of its result. ``on_report``,
    which may be called from another thread, is told what the function reports, if the engine can.
    """

    submit: Callable[..., Future[Any]]
    capacity: Callable[[], int]  # how many calls to keep pending, so that all workers are busy and memory is bounded


@contextmanager
def here() -> Iterator[Engine]:
    """Call functions immediately, in this process."""

    def submit(function: Callable[..., Any], /, *arguments: Any, on_report: OnReport = ignore) -> Future[Any]:
        future: Future[Any] = Future()
        with reports_to(on_report):
            future.set_result(function(*arguments))
        return future

    yield Engine(submit, lambda: 1)


@contextmanager
def in_processes(workers: int, load: Callable[[], Any]) -> Iterator[Engine]:
    """Call functions in worker processes that end with the block, or when this process dies.

    Each calls ``load`` first, so that all load their resources at the same time. What a function raises, its future
    raises; what cannot be pickled is an error of its future too. Once a worker has died, all futures without a result
    and all further calls of ``submit`` raise InputError.
    """
    pool = Pool()
    try:
        pool.start(workers, load)
        yield Engine(pool.submit, lambda: 2 * workers)
    finally:
        with interrupts_held():
            pool.end()


class Call(NamedTuple):
    """A function call, who is told how far it is, and the future of its result."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    on_report: OnReport
    future: Future[Any]


class Pool:
    """Workers and the calls that wait for them; a thread for each worker hands it one call after another."""

    def __init__(self) -> None:
        self._workers: list[Worker] = []
        self._threads: list[Thread] = []
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._failure: Exception | None = None

    def start(self, workers: int, load: Callable[[], Any]) -> None:
        """Start the workers, all at once; each calls ``load``."""
        with interrupts_held():
            for _ in range(workers):
                self._workers.append(Worker())
            for worker in self._workers:
                thread = Thread(target=self._attend, args=(worker, load), daemon=True)
                thread.start()
                self._threads.append(thread)

    def submit(self, function: Callable[..., Any], /, *arguments: Any, on_report: OnReport = ignore) -> Future[Any]:
        """Queue a call; see ``Engine``."""
        if self._failure:
            raise self._failure
        call = Call(function, arguments, on_report, Future())
        self._calls.put(call)
        return call.future

    def end(self) -> None:
        """Kill the workers and wait until they are gone; calls without a result fail."""
        self._failure = self._failure or RuntimeError("the worker processes have ended with their block")
        for worker in self._workers:
            worker.process.kill()  # also one that was stopped
            self._calls.put(None)
        for thread in self._threads:
            thread.join()
        for worker in self._workers:
            worker.process.join()
            worker.pipe.close()

    def _attend(self, worker: "Worker", load: Callable[[], Any]) -> None:
        """Run in a thread: carry out calls. If loading fails, the first call fails with the same error."""
        call: Call | None = Call(load, (), ignore, Future())
        while call:
            if call.future.set_running_or_notify_cancel():
                try:
                    if self._failure:
                        raise self._failure
                    call.future.set_result(worker.call(call))
                except WorkerDied:
                    self._failure = self._failure or worker.death()
                    call.future.set_exception(self._failure)
                except BaseException as error:  # anything that the function raises
                    call.future.set_exception(error)
            call = self._calls.get()


class WorkerDied(Exception):  # noqa: N818 - not an error of the caller
    """A worker's pipe ended."""


class DeadWorkerError(InputError):
    """A worker process died, which says nothing of the input: the same call may succeed another time."""


class Worker:
    """A process that makes one call after another; starts with the object.

    Any thread may kill ``process``; all else is for one thread, as a process can be waited for only once.
    """

    def __init__(self) -> None:
        spawn = get_context("spawn")
        self.pipe, end_of_worker = spawn.Pipe()
        self._loaded = False
        # As a daemon it ends with this process even if ``Pool.end`` is never reached.
        self.process = spawn.Process(target=work, args=(end_of_worker,), daemon=True)
        try:
            self.process.start()
        except OSError as error:  # too many processes or open files
            raise InputError(f"a worker process could not start ({error.strerror}): give fewer --workers") from None
        finally:
            end_of_worker.close()

    def call(self, call: Call) -> Any:
        """The result of a call in the process; passes on what it reports, and raises what the function raised."""
        message = pickle.dumps((call.function, call.arguments))
        try:
            self.pipe.send_bytes(message)
        except OSError:
            raise WorkerDied from None
        while True:
            kind, value = pickle.loads(self._receive())
            if kind == RESULT:
                return value
            if kind == ERROR:
                raise value
            try:
                call.on_report(value)
            except BaseException:
                self._leave()
                raise

    def _receive(self) -> bytes:
        try:
            if self.pipe not in wait([self.pipe, self.process.sentinel]):
                raise WorkerDied
            message = self.pipe.recv_bytes()
        except (EOFError, OSError):
            raise WorkerDied from None
        except MemoryError:
            self._leave()
            raise
        self._loaded = True
        return message

    def _leave(self) -> None:
        """Kill the process in the middle of a call; what it has already sent would be taken for the next one's."""
        self.process.kill()
        self.pipe.close()

    def death(self) -> InputError:
        """How the process died, as one line."""
        self.process.join(SECONDS_TO_EXIT)
        code = self.process.exitcode
        if code and code > 0 and not self._loaded:
            return InputError(
                f"the worker processes could not start (exit code {code}, see above): in a script, what starts them "
                'belongs below `if __name__ == "__main__":`, and the script in a file'
            )
        end = f"signal {-code}, possibly out of memory" if code and code < 0 else f"exit code {code}"
        return DeadWorkerError(
            f"a worker process died ({end}): run the same command again to resume, with fewer processes (--workers, or "
            "OMP_NUM_THREADS where there is no such flag) if memory ran out"
        )


def work(pipe: Connection) -> None:
    """Run in a worker: make the calls that come through the pipe until it ends, and send their outcomes back."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which kills the workers
    Thread(target=end_with_parent, daemon=True).start()
    _on_report.set(lambda done: pipe.send_bytes(pickle.dumps((REPORT, done))))
    try:
        while True:
            pipe.send_bytes(outcome(pipe.recv_bytes()))
    except (EOFError, OSError):
        return  # the parent has gone


def end_with_parent() -> None:
    """Exit when the parent process does, whatever the other threads are doing."""
    if parent := parent_process():
        parent.join()
    os._exit(1)


def outcome(message: bytes) -> bytes:
    """Make a call; return, pickled, its result or what it raised, with its traceback as a note."""
    try:
        function, arguments = pickle.loads(message)
        result = function(*arguments)
        try:
            return pickle.dumps((RESULT, result))
        except Exception as error:
            raise TypeError(f"the result of a worker process cannot be pickled ({error})") from None
    except BaseException as error:
        quoted = RuntimeError(traceback.format_exception_only(error)[0].strip())
        if not isinstance(error, InputError):  # whose message says all
            error.add_note("in a worker process:\n" + "".join(traceback.format_exception(error)))
        try:
            pickled = pickle.dumps((ERROR, error))
            pickle.loads(pickled)
        except Exception:
            return pickle.dumps((ERROR, quoted))
        return pickled


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Block SIGINT; processes started meanwhile inherit the mask, and the parent stops them on Ctrl-C."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    # It would be started with the first process, and then unblock SIGINT.
    resource_tracker.ensure_running()
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


class Interrupted(Exception):  # noqa: N818 - not an error
    """Training was stopped by a signal after so many steps; its state is saved."""

    def __init__(self, signal_number: int, step: int):
        super().__init__(f"stopped at step {step}")
        self.signal = signal_number
        self.step = step


@contextmanager
def stop_signals() -> Iterator[Callable[[], int]]:
    """Record SIGINT and SIGTERM; yields a function that returns the number of the first one received, or 0.

    A second signal ends the process immediately, unless torchrun started it: torchrun forwards signals that the
    terminal has already sent to all processes, and has its own timeout.
    """
    received = 0
    passed_on = "TORCHELASTIC_RUN_ID" in os.environ
    old: dict[int, Any] = {}

    def note(number: int, _frame: object) -> None:
        nonlocal received
        if received and not passed_on:
            os._exit(128 + number)
        received = received or number

    # Only the main thread may set signal handlers.
    if current_thread() is main_thread():
        old = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: received
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
