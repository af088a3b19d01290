"""A line of so many rows a second, beside how fast the machine was when they were taken."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from bench.measure.line import Verdict

__all__ = ["HEADING", "Rate", "loop_speed", "measured", "scratch"]

HEADING: Final = (
    f"{'':<44} {'rows':>12} {'seconds':>9} {'rows/s':>12} {'target':>12} {'per loop':>10}  verdict"
)

_ITERATIONS: Final = 1_000_000
_LOOPS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How fast something was.

    Args:
        name: What was measured.
        rows: In each sample; operations, records, or operations times settings.
        seconds: Median of the samples.
        loop_speed: Iterations per second of a plain loop of Python's, beside the samples.
        target: The least rows a second that were promised; None if it is only shown.
        note: Whatever else the reader should see.
    """

    name: str
    rows: int
    seconds: float
    loop_speed: float
    target: float | None = None
    note: str = ""

    @property
    def per_second(self) -> float:
        """Rows a second."""
        return self.rows / self.seconds

    @property
    def per_loop(self) -> float:
        """Rows while the plain loop turns a hundred times: what stays alike where the machine gets slower."""
        return 100 * self.per_second / self.loop_speed

    @property
    def verdict(self) -> Verdict:
        """Met, missed, or only shown."""
        if self.target is None:
            return Verdict.SHOWN
        return Verdict.MET if self.per_second >= self.target else Verdict.MISSED

    def __str__(self) -> str:
        target = "" if self.target is None else f">= {self.target:,.0f}"
        columns = (
            f"{self.name:<44} {self.rows:>12,} {self.seconds:>9.2f} {self.per_second:>12,.0f} {target:>12}"
        )
        return f"{columns} {self.per_loop:>10.2f}  {self.verdict}{f'  ({self.note})' if self.note else ''}"


def measured(
    name: str, rows: int, rounds: int, sample: Callable[[], object], target: float | None = None
) -> Rate:
    """Time something, the plain loop before and after each sample.

    Args:
        name: The name of the line.
        rows: In each sample.
        rounds: How many samples.
        sample: What is timed, by the wall clock.
        target: The least rows a second.
    """
    seconds, speeds = [], [loop_speed()]
    for _ in range(rounds):
        begin = time.perf_counter()
        sample()
        seconds.append(time.perf_counter() - begin)
        speeds.append(loop_speed())
    spread = f"{min(seconds):.2f}-{max(seconds):.2f} s in {rounds}" if rounds > 1 else ""
    return Rate(
        name=name, rows=rows, seconds=median(seconds), loop_speed=median(speeds), target=target, note=spread
    )


def loop_speed() -> float:
    """Iterations a second of a loop that nothing of ours, of numpy's or of Spark's is in; the best of a few."""
    best = 0.0
    for _ in range(_LOOPS):
        begin, total = time.perf_counter(), 0
        for number in range(_ITERATIONS):
            total += number
        best = max(best, _ITERATIONS / (time.perf_counter() - begin))
    return best


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory for what a section writes."""
    with TemporaryDirectory(prefix="purgatory-bench-") as directory:
        yield Path(directory)
