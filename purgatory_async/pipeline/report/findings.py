"""The contents of a report as plain values, from which its figures and its page are made."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["OUTCOMES", "PERCENTILES", "Findings", "Step", "Stretch", "filled", "nice_width_ns"]

OUTCOMES: Final = ("completed", "expired", "cancelled", "failed", "closed", "pending")
"""The states of operations in a report, in the order of listing."""

PERCENTILES: Final = (50, 95, 99)

_LEAST_WIDTH_NS: Final = 1_000_000
_STRETCHES: Final = 240  # a figure as wide as a page shows no more

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a histogram: ``count`` durations, from ``low_ns`` to below ``high_ns``."""

    low_ns: float
    high_ns: float
    count: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Counts of operations in a stretch of time.

    Attributes:
        start_ns: When it began, since 1970.
        submitted: Operations submitted in it.
        ended: Operations that ended in it, by outcome.
        pending: Operations pending at its end.
    """

    start_ns: int
    submitted: int
    ended: Mapping[str, int]
    pending: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The contents of a report.

    Attributes:
        summary: The command's output.
        nodes: The journal's coverage, a row for each run and node.
        began_ns: The first record, since 1970; None without records.
        ended_ns: The last record.
        arrivals_per_s: Mean of operations submitted per second, by the time of all nodes together.
        held_mean_s: Mean time that an operation is pending; None without operations.
        curve_mean: The mean of ``pending`` over the stretches.
        width_ns: Of a stretch.
        stretches: In order, without gaps.
        latency: Histogram of completed operations.
        lateness: Histogram of expired operations.
        keys: The busiest keys, a row for each.
        anomalies: The first anomalies.
        quarantine: The first lines that are not records.
        prefixes: The busiest prefixes of keys, a row for each; empty if no key has one.
    """

    summary: Mapping[str, Any]
    nodes: Sequence[Row]
    began_ns: int | None
    ended_ns: int | None
    arrivals_per_s: float | None
    held_mean_s: float | None
    curve_mean: float | None
    width_ns: int
    stretches: Sequence[Stretch]
    latency: Sequence[Step]
    lateness: Sequence[Step]
    keys: Sequence[Row]
    anomalies: Sequence[Row]
    quarantine: Sequence[Row]
    prefixes: Sequence[Row] = ()


def nice_width_ns(span_ns: int) -> int:
    """A stretch's length that divides a time span into 100 to 240: 1, 2 or 5 and zeros, at least 1 ms.

    >>> nice_width_ns(60 * 10**9), nice_width_ns(0)
    (500000000, 1000000)
    """
    width = _LEAST_WIDTH_NS
    factors = (2, 5, 10)
    while width * _STRETCHES < span_ns:
        width = next(
            (width * factor for factor in factors if width * factor * _STRETCHES >= span_ns), width * 10
        )
    return width


def filled(rows: Iterable[Row], width_ns: int) -> list[Stretch]:
    """Sort stretches, insert the empty ones, and count the pending operations.

    >>> rows = [{"start_ns": 20, "submitted": 0, "expired": 1}, {"start_ns": 0, "submitted": 2, "expired": 0}]
    >>> [(stretch.start_ns, stretch.submitted, stretch.pending) for stretch in filled(rows, 10)]
    [(0, 2, 2), (10, 0, 2), (20, 0, 1)]
    """
    known = {row["start_ns"]: row for row in rows}
    stretches: list[Stretch] = []
    pending = 0
    for start_ns in range(min(known, default=0), max(known, default=-1) + 1, width_ns):
        row = known.get(start_ns, {})
        ended = {outcome: row.get(outcome, 0) for outcome in OUTCOMES[:-1]}
        pending += row.get("submitted", 0) - sum(ended.values())
        stretches.append(Stretch(start_ns, row.get("submitted", 0), ended, pending))
    return stretches
