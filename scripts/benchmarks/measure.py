"""Timing that is robust on a shared machine: contenders take turns, and medians are reported."""

import os
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

import torch

# What is timed: given the number of the round, which decides the batch.
Run = Callable[[int], Any]
LEAST_ROUNDS = 3


def race(runs: dict[str, Run], rounds: int, seconds: float, device: torch.device) -> dict[str, list[float]]:
    """Seconds of each run in each round; they take turns.

    Args:
        runs: by name.
        rounds: how many.
        seconds: start no more rounds, but for the first three, after so long.
        device: where they run.
    """
    cuda = device.type == "cuda"
    # Launches are queued, so only many steps in a row show a GPU's speed.
    repeats = 10 if cuda else 1
    for run in runs.values():
        for number in range(LEAST_ROUNDS if cuda else 1):
            run(number)
    times: dict[str, list[float]] = {name: [] for name in runs}
    began = time.perf_counter()
    for number in range(rounds):
        if number >= LEAST_ROUNDS and time.perf_counter() - began > seconds:
            break
        for name, run in runs.items():
            times[name].append(clock(run, number, repeats, cuda) / repeats)
    return times


def clock(run: Run, number: int, repeats: int, cuda: bool) -> float:
    """Seconds of some runs in a row."""
    if not cuda:
        began = time.perf_counter()
        for _ in range(repeats):
            run(number)
        return time.perf_counter() - began
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(repeats):
        run(number)
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1000


def median_ratio(over: list[float], under: list[float]) -> float:
    """Median ratio of two measurements, paired by round."""
    return median(a / b for a, b in zip(over, under, strict=True))


def product(size: int, dtype: torch.dtype, device: torch.device) -> tuple[Run, int]:
    """One large square matrix product, the ceiling for all matrix products, and its operations."""
    a, b = torch.randn(2, size, size, device=device).to(dtype)
    out = torch.empty_like(a)
    return lambda _: torch.mm(a, b, out=out), 2 * size**3


def machine(device: torch.device) -> dict[str, Any]:
    """Hardware and software versions that the results depend on."""
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    for name in ("dgl", "triton"):
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "versions": versions,
    }


def processor() -> str:
    """The processor's name and its instructions for half-precision products."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    name = next((line.split(":")[1].strip() for line in text.splitlines() if line.startswith("model name")), "?")
    return " ".join([name, *(flag for flag in ("avx512f", "avx512_bf16", "amx_bf16") if flag in text)])


def peak_gigabytes(device: torch.device) -> float:
    """Peak memory of this process or its GPU, in GB."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated() / 1e9
    # Not getrusage's value, which starts from the parent process' size.
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024 / 1e9
