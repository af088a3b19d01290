"""Builders of points and readings for tests."""

from bench.measure.machine import Machine
from bench.proposal.point import Point, Reading
from bench.proposal.results import Measured


def point(contestant="purgatory_async", **changes):
    known = {"loop": "asyncio", "case": "low", "rate": 10_000, "requests": 1_000}
    return Point(contestant=contestant, **{**known, **changes})


def reading(**changes):
    known = {
        "rate_reached": 10_000.0,
        "cpu_s_per_million": 5.0,
        "timeout_rate": 0.08,
        "early": 0,
        "lateness_ms_p50": 1.0,
        "lateness_ms_p99": 2.0,
        "lateness_ms_p999": 3.0,
        "lateness_ms_max": 4.0,
        "gc_ms": 10.0,
        "gc_longest_ms": 1.0,
        "peak_pending": 500,
        "peak_rss_mib": 60.0,
        "held_mib": 0.5,
        "entries_left": 0,
    }
    return Reading(**{**known, **changes})


MACHINE = Machine(
    cpu="a <processor>",
    cores=2,
    system="Linux",
    python="CPython 3.11",
    optimised_build=False,
    uvloop="0.23",
)


def measured(readings, **changes):
    known = {"machine": MACHINE, "command": "python -m bench.proposal --quick", "date": "2026-01-02"}
    return Measured(readings=readings, **{**known, **changes})
