"""What was measured, as a table: medians, and how far apart the readings were."""

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from bench.designs import DESIGNS
from bench.measure.machine import Machine
from bench.proposal.point import HARNESS, Point, Reading

__all__ = [
    "Measured",
    "Range",
    "Readings",
    "heading",
    "line",
    "middle",
    "net_cpu",
    "range_of",
    "takes_callbacks",
]

Readings: TypeAlias = Mapping[Point, Sequence[Reading]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """All of a run.

    Attributes:
        readings: The readings of each point, in the order in which they were taken.
        machine: On which.
        command: With which it was measured.
        date: When, as YYYY-MM-DD.
        failed: A sentence for each reading that could not be taken.
    """

    readings: Readings
    machine: Machine
    command: str
    date: str
    failed: Sequence[str] = ()


class Range(NamedTuple):
    """A median between the least and the greatest."""

    low: float
    median: float
    high: float


def takes_callbacks(point: Point) -> bool:
    """Whether requests of the point end in a callback, not in an awaiting task."""
    return point.contestant in DESIGNS


def range_of(readings: Sequence[Reading], value: Callable[[Reading], float | None]) -> Range | None:
    """Least, median and greatest of a figure; None if no reading has it."""
    values = [found for reading in readings if (found := value(reading)) is not None]
    return Range(min(values), statistics.median(values), max(values)) if values else None


def middle(readings: Sequence[Reading], name: str) -> float | None:
    """The median of an attribute; None if no reading has it."""
    found = range_of(readings, lambda reading: getattr(reading, name))
    return None if found is None else found.median


def net_cpu(readings: Readings, point: Point) -> Range | None:
    """Processor seconds per million, less the harness's in the same round; None if it ran in none of them."""
    harness = readings.get(dataclasses.replace(point, contestant=HARNESS, wheel_size=0, pure=False))
    if not harness:
        return None
    alone = {reading.round_number: reading.cpu_s_per_million for reading in harness}
    nets = [
        reading.cpu_s_per_million - alone[reading.round_number]
        for reading in readings[point]
        if reading.round_number in alone  # it may have failed there
    ]
    return Range(min(nets), statistics.median(nets), max(nets)) if nets else None


def heading() -> str:
    """The names of the columns of `line`."""
    return (
        f"{'contestant':<22} {'loop':<8} {'case':<5} {'gc':<8} {'offered':>10} {'reached/s':>10} "
        f"{'CPU s/M':>8} {'[range]':<13} {'net':>6} {'timed out':>9} {'early':>6} {'late p50':>9} "
        f"{'p99':>8} {'p99.9 ms':>9} {'gc ms':>8} {'pending':>8} {'held MiB':>8} {'entries':>8}"
    )


def line(readings: Readings, point: Point) -> str:
    """The medians of a point's readings."""
    of_point = readings[point]
    figures = {field.name: middle(of_point, field.name) for field in dataclasses.fields(Reading)}
    cpu = range_of(of_point, lambda reading: reading.cpu_s_per_million)
    assert cpu is not None, f"{point} has no reading"
    net = None if point.contestant == HARNESS else net_cpu(readings, point)
    return (
        f"{point.name:<22} {point.loop:<8} {point.case:<5} {point.collector:<8} {point.offered:>10} "
        f"{figures['rate_reached']:>10,.0f} {cpu.median:>8.2f} {f'[{cpu.low:.2f}-{cpu.high:.2f}]':<13} "
        f"{_if_any(None if net is None else net.median):>6} {figures['timeout_rate']:>9.1%} {figures['early']:>6,.0f} "
        f"{_if_any(figures['lateness_ms_p50']):>9} {_if_any(figures['lateness_ms_p99']):>8} "
        f"{_if_any(figures['lateness_ms_p999']):>9} {figures['gc_ms']:>8.0f} {figures['peak_pending']:>8,.0f} "
        f"{figures['held_mib']:>8.1f} {figures['entries_left']:>8,.0f}"
    )


def _if_any(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
