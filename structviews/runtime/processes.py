"""Function calls in worker processes on this machine, and stopping a long job by signal.

Each worker has a pipe of its own, and only the worker holds the pipe's other end: a process that dies in the middle of
a message, however large, ends the pipe, so no one waits for the rest.
"""

import os
import pickle
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from threading import Condition, Thread, current_thread, main_thread
from typing import Any

from structviews.errors import InputError


class Interrupted(Exception):  # noqa: N818 - not an error
    """Training was stopped by a signal; its state is saved.

    Attributes:
        signal: number of the signal.
        step: steps taken so far.
    """

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
    came = [0]
    passed_on = "TORCHELASTIC_RUN_ID" in os.environ
    old: dict[int, Any] = {}

    def note(number: int, _frame: object) -> None:
        if came[0] and not passed_on:
            os._exit(128 + number)
        came[0] = came[0] or number

    # Only the main thread may set signal handlers.
    if current_thread() is main_thread():
        old = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: came[0]
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


SECONDS_TO_EXIT = 5.0
"""Time for a worker that closed its pipe to end by itself and tell how."""


Heard = Callable[[float], None]


def unheard(done: float) -> None:
    """Take a report that nobody waits for."""


_heard: ContextVar[Heard] = ContextVar("_heard", default=unheard)


def report(done: float) -> None:
    """Within a call, say that so much more of it is done, to the ``heard`` that it was submitted with, if any."""
    _heard.get()(done)


@contextmanager
def reporting(total: float, share: float = 1) -> Iterator[None]:
    """Pass on what is reported in the block, in all ``total`` times ``share``.

    What is more than ``total``, as of work that is done again, is dropped; what is missing at the end is added.
    """
    outer, told = _heard.get(), 0.0

    def tell(done: float) -> None:
        nonlocal told
        new = min(done, total - told)
        told += new
        if new:
            outer(share * new)

    token = _heard.set(tell)
    try:
        yield
    finally:
        _heard.reset(token)
    tell(total - told)


@dataclass(frozen=True)
class Engine:
    """Runs function calls, possibly in other processes.

    Attributes:
        submit: takes a module-level function and its arguments and returns the future of its result. With ``heard``,
            which may be called from another thread, it passes on what the function reports, if the engine can.
        room: returns how many calls to keep pending, so that all workers are busy and memory is bounded.
    """

    submit: Callable[..., Future[Any]]
    room: Callable[[], int]


@contextmanager
def here() -> Iterator[Engine]:
    """Call functions immediately, in this process."""

    def submit(function: Callable[..., Any], /, *arguments: Any, heard: Heard = unheard) -> Future[Any]:
        future: Future[Any] = Future()
        token = _heard.set(heard)
        try:
            future.set_result(function(*arguments))
        finally:
            _heard.reset(token)
        return future

    yield Engine(submit, lambda: 1)


@contextmanager
def in_processes(workers: int, load: Callable[[], Any]) -> Iterator[Engine]:
    """Call functions in worker processes that end with the block, or when this process dies.

    What a function raises, its future raises; what cannot be pickled is an error of its future too. Once a worker has
    died, all futures without a result and all further calls of ``submit`` raise InputError.

    Args:
        workers: number of processes.
        load: called first by each worker, so that all load their resources at the same time.

    Raises:
        InputError: in the block, if a worker process died or could not start.
    """
    crew = Crew()
    try:
        crew.start(workers, load)
        yield Engine(crew.submit, lambda: 2 * workers)
    finally:
        with interrupts_held():
            crew.end()


@dataclass
class Call:
    """A function call, and the future of its result."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    heard: Heard = unheard
    future: Future[Any] = field(default_factory=Future)

    def fail(self, error: Exception) -> None:
        """Finish a call that no worker has begun."""
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


class Crew:
    """Workers and the calls that wait for them; a thread for each worker hands it one call after another."""

    def __init__(self) -> None:
        self._workers: list[Worker] = []
        self._threads: list[Thread] = []
        self._waiting: deque[Call] = deque()
        self._failure: Exception | None = None
        self._changed = Condition()  # guards the two above

    def start(self, workers: int, load: Callable[[], Any]) -> None:
        """Start the workers, all at once; each calls ``load``."""
        with interrupts_held():
            for _ in range(workers):
                self._workers.append(Worker())
            for worker in self._workers:
                thread = Thread(target=self._attend, args=(worker, load), daemon=True)
                thread.start()
                self._threads.append(thread)

    def submit(self, function: Callable[..., Any], /, *arguments: Any, heard: Heard = unheard) -> Future[Any]:
        """Queue a call; see ``Engine``."""
        call = Call(function, arguments, heard)
        with self._changed:
            if self._failure:
                raise self._failure
            self._waiting.append(call)
            self._changed.notify()
        return call.future

    def end(self) -> None:
        """Kill the workers and wait until they are gone."""
        self._fail(RuntimeError("the worker processes have ended with their block"))
        for worker in self._workers:
            worker.kill()
        for thread in self._threads:
            thread.join()
        for worker in self._workers:
            worker.end()

    def _attend(self, worker: "Worker", load: Callable[[], Any]) -> None:
        # If loading fails, the first call fails with the same error and reports it.
        alive = self._carry_out(Call(load, ()), worker)
        while alive:
            alive = self._next(worker)

    def _next(self, worker: "Worker") -> bool:
        """Hand the next call to a worker; return whether there may be another."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._failure)
            call = self._waiting.popleft() if self._waiting else None
        return call is not None and self._carry_out(call, worker)

    def _carry_out(self, call: Call, worker: "Worker") -> bool:
        """Finish a call's future; return whether the worker lives."""
        if not call.future.set_running_or_notify_cancel():
            return True
        try:
            call.future.set_result(worker.call(call))
        except WorkerDied:
            call.future.set_exception(self._fail(worker.death()))
            return False
        except BaseException as error:  # anything that the function raises
            call.future.set_exception(error)
        return True

    def _fail(self, error: Exception) -> Exception:
        """Fail the waiting calls and all later ones; return the error that they get: the first one."""
        with self._changed:
            self._failure = failure = self._failure or error
            waiting, self._waiting = self._waiting, deque()
            self._changed.notify_all()
        for call in waiting:
            call.fail(failure)
        return failure


class Message(Enum):
    """What a worker sends: how far a call is, its result, or what it raised."""

    REPORT, RESULT, ERROR = range(3)


class WorkerDied(Exception):  # noqa: N818 - not an error of the caller
    """A worker's pipe ended."""


class Worker:
    """A process that makes one call after another; starts with the object.

    All but ``kill`` is called from one thread, as a process can be waited for only once.
    """

    def __init__(self) -> None:
        spawn = get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        self._began = False
        # As a daemon it ends with this process even if ``end`` is never reached.
        self._process = spawn.Process(target=work, args=(theirs,), daemon=True)
        try:
            self._process.start()
        except OSError as error:  # too many processes or open files
            raise InputError(f"a worker process could not start ({error.strerror}): give fewer --workers") from None
        finally:
            theirs.close()

    def call(self, call: Call) -> Any:
        """The result of a call in the process; passes on what it reports.

        Raises:
            WorkerDied: if the process died.
            BaseException: what the function raised.
        """
        message = pickle.dumps((call.function, call.arguments))
        if not self._began:
            self._receive()
            self._began = True
        try:
            self._pipe.send_bytes(message)
        except OSError:
            raise WorkerDied from None
        kind, value = pickle.loads(self._receive())
        while kind is Message.REPORT:
            try:
                call.heard(value)
            except BaseException:
                self._leave()
                raise
            kind, value = pickle.loads(self._receive())
        if kind is Message.RESULT:
            return value
        raise value

    def _receive(self) -> bytes:
        try:
            if self._pipe not in wait([self._pipe, self._process.sentinel]):
                raise WorkerDied
            return self._pipe.recv_bytes()
        except (EOFError, OSError):
            raise WorkerDied from None
        except MemoryError:
            self._leave()
            raise

    def _leave(self) -> None:
        """Kill the process in the middle of a call; what it has already sent would be taken for the next one's."""
        self.kill()
        self._pipe.close()

    def death(self) -> InputError:
        """How the process died, as one line."""
        self._process.join(SECONDS_TO_EXIT)
        code = self._process.exitcode
        if code and code > 0 and not self._began:
            return InputError(
                f"the worker processes could not start (exit code {code}, see above): in a script, what starts them "
                'belongs below `if __name__ == "__main__":`, and the script in a file'
            )
        how = f"signal {-code}, possibly out of memory" if code and code < 0 else f"exit code {code}"
        return InputError(
            f"a worker process died ({how}): run the same command again to resume, with fewer processes (--workers, or "
            "OMP_NUM_THREADS where there is no such flag) if memory ran out"
        )

    def kill(self) -> None:
        """Kill the process, also one that was stopped."""
        self._process.kill()

    def end(self) -> None:
        """Wait until the killed process is gone."""
        self._process.join()
        self._pipe.close()


def work(pipe: Connection) -> None:
    """Run in a worker: make the calls that come through the pipe until it ends, and send their outcomes back."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which kills the workers
    Thread(target=end_with_parent, daemon=True).start()
    _heard.set(lambda done: pipe.send_bytes(pickle.dumps((Message.REPORT, done))))
    try:
        pipe.send_bytes(b"began")
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
    """Make a call; return, pickled, its result or what it raised."""
    try:
        function, arguments = pickle.loads(message)
        result = function(*arguments)
    except BaseException as error:
        return pickled_error(error)
    try:
        return pickle.dumps((Message.RESULT, result))
    except Exception as error:
        return pickled_error(TypeError(f"the result of a worker process cannot be pickled ({error})"))


def pickled_error(error: BaseException) -> bytes:
    """An error with its traceback as a note; if it cannot be pickled, a RuntimeError that quotes it."""
    quoted = RuntimeError(traceback.format_exception_only(error)[0].strip())
    if not isinstance(error, InputError):  # whose message says all
        error.add_note("in a worker process:\n" + "".join(traceback.format_exception(error)))
    try:
        message = pickle.dumps((Message.ERROR, error))
        pickle.loads(message)
    except Exception:
        return pickle.dumps((Message.ERROR, quoted))
    return message


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
