"""Wall time, processor time and energy of a computation."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

POWER = Path("/sys/class/powercap")
"""Where Linux counts the energy of processor packages (RAPL), if it may be read."""


class Spent(NamedTuple):
    """What a computation took.

    Attributes:
        wall: seconds.
        cpu: seconds of this process' threads.
        joules: of the whole machine's processors; None if it does not tell.
    """

    wall: float
    cpu: float
    joules: float | None


class Meter:
    """Measures computations.

    Args:
        power: folder of the energy counters.
    """

    def __init__(self, power: Path = POWER):
        # A package has a name like intel-rapl:0, on AMD too; intel-rapl:0:1 is a part of it.
        packages = [each for each in sorted(power.glob("*-rapl:*")) if each.name.count(":") == 1]
        self.counters = [each / "energy_uj" for each in packages]
        self.ranges = [each / "max_energy_range_uj" for each in packages]
        if self._read(self.counters) is None:
            self.counters = []

    @property
    def tells_energy(self) -> bool:
        """Whether the machine tells."""
        return bool(self.counters)

    def spent(self, run: Callable[[], Any]) -> Spent:
        """Run something, and say what it took."""
        before = self._read(self.counters)
        cpu, wall = time.process_time(), time.perf_counter()
        run()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        return Spent(wall, cpu, self._joules(before) if before else None)

    def _joules(self, before: list[int]) -> float | None:
        after, ends = self._read(self.counters), self._read(self.ranges)
        if after is None or ends is None:
            return None
        # A counter that has passed its end starts again.
        return sum((now - then) % (end + 1) for then, now, end in zip(before, after, ends, strict=True)) / 1e6

    def _read(self, files: list[Path]) -> list[int] | None:
        try:
            return [int(each.read_text()) for each in files]
        except (OSError, ValueError):
            return None
