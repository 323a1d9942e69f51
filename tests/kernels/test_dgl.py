"""How DGL is loaded, and what happens where it is missing; test_cells.py runs the cells in it."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch
from test_cells import make
from trees_for_tests import chain

from structviews.errors import InputError
from structviews.kernels import dispatch, message_passing

needs_dgl = pytest.mark.skipif(find_spec("dgl") is None, reason="needs structviews[dgl]")


@needs_dgl
def test_it_is_loaded_when_it_is_used_and_nothing_is_written_into_the_home(tmp_path):
    code = "import sys, structviews.training.loop; assert 'dgl' not in sys.modules; "
    code += "from structviews.kernels.message_passing import load; print(load().__version__)"
    environment = {name: value for name, value in os.environ.items() if name != "DGLBACKEND"} | {"HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert (len(done.stdout.split()), done.stderr) == (1, "")
    assert list(tmp_path.iterdir()) == []


def test_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "dgl", None)
    with pytest.raises(InputError, match=r"'dgl': DGL did not load .*: pip install 'structviews\[dgl\]'"):
        dispatch.run(*make("dep", [chain(3)]), backend="dgl")


def test_a_device_that_it_cannot_use(monkeypatch):
    class OnlyCPU:
        DGLError = RuntimeError

        def graph(self, *_, **__):
            raise RuntimeError("[03:30:00] /opt/dgl/src/runtime/c_runtime_api.cc:82: Check failed\nno CUDA")

    monkeypatch.setattr(message_passing, "load", OnlyCPU)
    with pytest.raises(InputError, match=r"cannot use cuda \(no CUDA\): install its build for cuda"):
        message_passing.require(torch.device("cuda"))
