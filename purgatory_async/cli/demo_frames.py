"""The demo's display, once a second: a table in place on a terminal, one line elsewhere."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles
from typing import Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from purgatory_async import Outcome
from purgatory_async.cli.load import Load
from purgatory_async.service.http_service import HttpService

HISTORY: Final = 60
_BARS: Final = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The state at one instant, and the counts of the second before it."""

    second: int
    pending: int
    held: int
    items: int
    leases: int
    totals: dict[str, int]
    per_second: dict[str, int]
    signal_p50: float
    signal_p99: float

    def line(self) -> str:
        """The frame as one line of plain text."""
        rates = "  ".join(f"{name} {number}/s" for name, number in self.per_second.items())
        return (
            f"{self.second:5d} s  pending {self.pending}  held {self.held}  {rates}  "
            f"items {self.items}  leases {self.leases}  "
            f"signal p50 {self.signal_p50 * 1000:.1f} ms  p99 {self.signal_p99 * 1000:.1f} ms"
        )


class FrameTaker:
    """Takes a frame of the service and its clients each second."""

    def __init__(self, service: HttpService, load: Load) -> None:
        self._service = service
        self._load = load
        self._second = 0
        self._before = self._totals()
        self._pending: deque[int] = deque(maxlen=HISTORY)

    def take(self) -> Frame:
        """Take a frame; call it once a second."""
        self._second += 1
        totals, before = self._totals(), self._before
        self._before = totals
        pending = self._service.pending
        self._pending.append(pending)
        p50, p99 = _p50_and_p99(self._load.latencies)
        return Frame(
            second=self._second,
            pending=pending,
            held=self._service.held.requests.count,
            items=self._service.fold.queues.kept,
            leases=len(self._service.fold.queues.leases),
            totals=totals,
            per_second={name: number - before[name] for name, number in totals.items()},
            signal_p50=p50,
            signal_p99=p99,
        )

    def picture(self, frame: Frame, address: str) -> Group:
        """Draw a frame for a terminal."""
        table = Table("", "per second", "total", title=f"purgatory demo at {address}, {frame.second} s")
        for column in table.columns[1:]:
            column.justify = "right"
        for name, total in frame.totals.items():
            table.add_row(name, str(frame.per_second[name]), f"{total:,}")
        pending = Text(f"pending {frame.pending:6,}  {_bars(self._pending)}")
        held = Text(f"held    {frame.held:6,}  requests")
        jobs = Text(f"jobs    {frame.items:6,}  in the queue, {frame.leases:,} leased to workers")
        speed = Text(
            f"signals took {frame.signal_p50 * 1e3:.1f} ms (p50), {frame.signal_p99 * 1e3:.1f} ms (p99)"
        )
        return Group(table, pending, held, jobs, speed)

    def _totals(self) -> dict[str, int]:
        metrics = self._service.metrics
        shown = (Outcome.COMPLETED, Outcome.EXPIRED, Outcome.CANCELLED)
        ended = {outcome.value: metrics.ended[outcome] for outcome in shown}
        seen = {"signals": metrics.signals, "events read": self._load.events}
        return {"submitted": metrics.submitted, **ended, **seen}


def _p50_and_p99(latencies: Sequence[float]) -> tuple[float, float]:
    if len(latencies) < 2:  # noqa: PLR2004 - a quantile needs two points
        return (0.0, 0.0)
    cuts = quantiles(latencies, n=100, method="inclusive")
    return (cuts[49], cuts[98])


def _bars(history: Sequence[int]) -> str:
    top = max(*history, 1) if history else 1
    return "".join(_BARS[number * (len(_BARS) - 1) // top] for number in history)
