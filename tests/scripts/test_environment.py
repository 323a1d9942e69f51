"""The set-up that the scripts share: which build of PyTorch it takes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def executable(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def clone(tmp_path):
    """A clone whose pip only notes what it is asked for, in ``asked``."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "environment.sh", tmp_path / "scripts")
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    executable(tmp_path / ".venv" / "bin" / "pip", f'echo "$@" >> {tmp_path}/asked')
    return tmp_path


def sourced(clone: Path, graphics: str) -> subprocess.CompletedProcess[str]:
    """Source the script where ``nvidia-smi`` is a given script."""
    executable(clone / "bin" / "nvidia-smi", graphics)
    path = f"{clone / 'bin'}{os.pathsep}{os.environ['PATH']}"
    command = ["bash", "-c", "source scripts/environment.sh dev"]
    environment = os.environ | {"PATH": path, "PYTHON": sys.executable}
    return subprocess.run(command, cwd=clone, env=environment, check=False, capture_output=True, text=True)


def set_up(clone: Path, graphics: str) -> list[str]:
    """What pip was asked for."""
    assert sourced(clone, graphics).returncode == 0
    return (clone / "asked").read_text().splitlines()


def test_what_pip_says_is_shown_if_it_fails(clone):
    for status in (0, 1):
        executable(clone / ".venv" / "bin" / "pip", f"echo WARNING: retrying >&2; exit {status}")
        ended = sourced(clone, "exit 9")
        assert (ended.returncode, ended.stderr) == (status, "WARNING: retrying\n" * status)
        (clone / ".venv" / "installed").unlink(missing_ok=True)


@pytest.mark.skipif(sys.platform != "linux", reason="PyTorch's builds for other systems have no CUDA")
@pytest.mark.parametrize("graphics", ["echo NVIDIA-SMI has failed; exit 9", "echo No devices found"])
def test_without_a_gpu_pytorch_is_the_build_for_the_cpu(clone, graphics):
    torch, rest = set_up(clone, graphics)
    assert torch.endswith("--extra-index-url https://download.pytorch.org/whl/cpu torch")
    assert rest.endswith("--constraint constraints.txt --editable .[dev]")


def test_with_a_gpu_pytorch_is_that_of_the_ordinary_index_and_is_installed_once(clone):
    for _ in range(2):
        (all_at_once,) = set_up(clone, "echo 'GPU 0: one (UUID: GPU-1)'")
        assert "index" not in all_at_once
