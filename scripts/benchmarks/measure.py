"""Timing that is robust on a shared machine: contenders take turns, and medians are reported. Tables of it."""

import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

import torch

# What is timed: given the number of the round, which decides the batch.
Run = Callable[[int], Any]
LEAST_ROUNDS = 3
CPU = torch.device("cpu")


def race(
    runs: Mapping[str, Run],
    rounds: int,
    seconds: float = float("inf"),
    device: torch.device = CPU,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of each run in each round, after one that does not count; they take turns.

    After so many ``seconds`` no more rounds start, but for the first three. The clock ``time.process_time`` counts one
    process' time, which other jobs disturb less.
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
            times[name].append((on_gpu if cuda else timed)(run, number, repeats, clock) / repeats)
    return times


def timed(run: Run, number: int, repeats: int, clock: Callable[[], float]) -> float:
    """Seconds of some runs in a row."""
    began = clock()
    for _ in range(repeats):
        run(number)
    return clock() - began


def on_gpu(run: Run, number: int, repeats: int, _: Callable[[], float]) -> float:
    """Seconds of some runs in a row, by the GPU's clock."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(repeats):
        run(number)
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1000


def processor_time(work: Callable[[], object]) -> float:
    """Processor time that something takes, in seconds."""
    return timed(lambda _: work(), 0, 1, time.process_time)


def median_ratio(over: list[float], under: list[float]) -> float:
    """Median ratio of two measurements, paired by round."""
    return median(a / b for a, b in zip(over, under, strict=True))


def product(size: int, dtype: torch.dtype, device: torch.device) -> tuple[Run, int]:
    """One large square matrix product, the ceiling for all matrix products, and its operations."""
    a, b = torch.randn(2, size, size, device=device).to(dtype)
    out = torch.empty_like(a)
    return lambda _: torch.mm(a, b, out=out), 2 * size**3


def machine() -> dict[str, Any]:
    """Hardware and software versions that the results depend on."""
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    for name in ("dgl", "triton"):
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    if torch.cuda.is_available():
        versions["on"] = torch.cuda.get_device_name()
    used = {"pytorch": torch.backends.cpu.get_cpu_capability(), "onednn": os.environ.get("ONEDNN_MAX_CPU_ISA", "ALL")}
    about = {"processor": processor(), "instructions": used, "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    return about | {"versions": versions}


def processor() -> str:
    """The processor's name and its instructions for matrix products."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    name = next((line.split(":")[1].strip() for line in text.splitlines() if line.startswith("model name")), "?")
    flags = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")
    return " ".join([name, *(flag for flag in flags if flag in text)])


def megabytes(kind: str, process: int | str = "self") -> float:
    """Memory of a process in MB, as Linux tells it: ``RssAnon``, ``VmRSS``, or ``VmHWM``, its peak; NaN elsewhere."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return float("nan")
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(f"{kind}:"))


def peak_gigabytes(device: torch.device = CPU) -> float:
    """Peak memory of this process or its GPU, in GB."""
    return torch.cuda.max_memory_allocated() / 1e9 if device.type == "cuda" else megabytes("VmHWM") / 1000


def table(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A table in Markdown; numbers have three digits."""
    lines = [list(header), *([figure(cell) for cell in row] for row in rows)]
    lines.insert(1, ["---", *["--:"] * (len(lines[0]) - 1)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def figure(value: Any) -> str:
    """A number with its significant digits."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
