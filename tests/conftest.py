"""Makes this folder importable, for ``trees_for_tests``, and the tests the same on every run."""

import os
import signal
from contextlib import contextmanager

import pytest
import torch
from hypothesis import settings

from structviews.errors import InputError

# Triton reads this when it is imported: where there is no GPU, its interpreter runs the kernels.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

# A shell starts background jobs with interrupts ignored, which the commands that the tests interrupt would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("same", deadline=None, derandomize=True)
settings.load_profile("same")


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="session")
def _encoding_in_fp32():
    """Where no precision is asked for, tests compare vectors of fp32, whatever the CPU multiplies."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("encoding.kinds.trained", "pretrained.sentence_models"):
            patch.setattr(f"structviews.{module}.multiplies_half", lambda device: False)
        yield


@pytest.fixture(scope="module")
def one_thread():
    """The sums of several threads may differ from run to run."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """``structviews`` as the shell would run it, in this process and in the test's folder: code, output, errors."""
    from shell import shell

    return shell(monkeypatch, capsys, tmp_path)


@pytest.fixture
def does(command):
    """A command that ends well; what it prints."""

    def run(*arguments):
        code, output, errors = command(*arguments)
        assert code == 0, errors
        return output

    return run


@pytest.fixture(scope="session")
def one_line():
    """A block that must be refused with one line, which matches."""

    @contextmanager
    def refused(message):
        with pytest.raises(InputError, match=message) as error:
            yield error
        assert "\n" not in str(error.value)

    return refused


@pytest.fixture(scope="session")
def topics(tmp_path_factory):
    """A corpus of documents with words of their own."""
    from corpora import topic_corpus

    return topic_corpus(tmp_path_factory.mktemp("topics") / "x.parsed")


@pytest.fixture
def interrupted(monkeypatch):
    """A block in which encoding some sentences is cut short ``after`` some others; the calls until then."""
    from structviews.encoding.embedder import Embedder

    @contextmanager
    def cut(after):
        calls, encode = [], Embedder.encode

        def stopping(self, *arguments, **options):
            calls.append(1)
            if len(calls) > after:
                raise KeyboardInterrupt
            return encode(self, *arguments, **options)

        with monkeypatch.context() as patched:
            patched.setattr(Embedder, "encode", stopping)
            yield calls

    return cut
