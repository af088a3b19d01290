"""One point of a curve: what is run, and what came out of it."""

from dataclasses import dataclass

__all__ = ["CASES", "FLOOD", "HARNESS", "Point", "Reading"]

CASES = {"low": (0.02, 0.06), "high": (0.2, 0.4)}
"""Median and third quartile of the latency, in seconds: few time out, or half of them."""

FLOOD = 10**9
"""A rate that nothing reaches: requests come as fast as they are taken."""


HARNESS = "harness"
"""The contestant that does nothing: what its run costs is the harness's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What is run in a process of its own.

    Attributes:
        contestant: `HARNESS`, or a name in `bench.designs.DESIGNS` or `bench.proposal.waits.WAITS`.
        loop: Of ``asyncio``, ``uvloop``.
        case: Of `CASES`.
        rate: Requests offered per second, on average.
        requests: How many.
        collector: ``default``: CPython's thresholds; ``recipe``: those that bench/README.md recommends.
        wheel_size: The size of the wheel of the designs that have a wheel; 0 for each one's own.
        pure: Without the library's compiled core.
        timeout_ms: The timeout of every request.
        payload: Bytes that each carries.
        seed: The seed of arrivals and latencies.
    """

    contestant: str
    loop: str
    case: str
    rate: int
    requests: int
    collector: str = "default"
    wheel_size: int = 0
    pure: bool = False
    timeout_ms: int = 200
    payload: int = 100
    seed: int = 1

    @property
    def name(self) -> str:
        """The contestant, with the size of its wheel if that is not its own, and whether it is pure Python."""
        size = f"/{self.wheel_size}" if self.wheel_size else ""
        return f"{self.contestant}{size}{', pure' if self.pure else ''}"

    @property
    def offered(self) -> str:
        """The rate in words."""
        return "flood" if self.rate == FLOOD else f"{self.rate:,}/s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was measured of a point.

    Attributes:
        rate_reached: Requests taken per second, until the last was.
        cpu_s_per_million: Processor seconds of the whole process from the first arrival to the last end.
        timeout_rate: Share of requests that expired.
        early: Requests that expired before their time was up.
        lateness_ms_p50: From the deadline to the request's callback or wakeup; None if none expired.
        lateness_ms_p99: The same.
        lateness_ms_p999: The same.
        lateness_ms_max: The same.
        gc_ms: Time the collector took, all in all.
        gc_longest_ms: Its longest pause.
        peak_pending: Most requests pending at once.
        peak_rss_mib: Most memory of the process.
        held_mib: Memory held when all had ended, over that before the first.
        entries_left: Entries in watch lists when all had ended.
        round_number: The round in which it was taken, from 1. Readings of one round are a few minutes apart.
    """

    rate_reached: float
    cpu_s_per_million: float
    timeout_rate: float
    early: int
    lateness_ms_p50: float | None
    lateness_ms_p99: float | None
    lateness_ms_p999: float | None
    lateness_ms_max: float | None
    gc_ms: float
    gc_longest_ms: float
    peak_pending: int
    peak_rss_mib: float
    held_mib: float
    entries_left: int
    round_number: int = 0
