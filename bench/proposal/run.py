"""Runs one point in this process, which should have been started for it; prints what was measured as JSON.

python -m bench.proposal.run '{"contestant": "wait", "loop": "uvloop", "case": "low", "rate": 30000, ...}'
"""

import asyncio
import dataclasses
import gc
import json
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.designs import DESIGNS
from bench.measure.loops import run_on
from bench.proposal.callbacks import callback_contestant
from bench.proposal.contestant import Contestant, Tally
from bench.proposal.feed import NS_PER_MS, Feed
from bench.proposal.lost import OURS
from bench.proposal.point import CASES, HARNESS, Point, Reading
from bench.proposal.waits import waiting_contestant
from purgatory_async import compiled
from purgatory_async.pipeline.workload import Workload

__all__ = ["load", "main", "measure", "run_point", "until_ended"]

RECIPE = (100_000, 50, 100)
PAGE_KIB = resource.getpagesize() / 1024
GRACE_S = 30.0


class _Nobody(Contestant):
    """Makes the payload, and ends every request when it is answered or at once."""

    def __init__(self, point: Point, tally: Tally) -> None:
        def submit(_: int) -> object:
            tally.submitted += 1
            tally.ended += 1
            return bytes(point.payload)

        self.submit = submit
        self.answer = lambda _: None

    @property
    def entries(self) -> int:
        """None."""
        return 0

    def close(self) -> None:
        """Nothing is armed."""


class Pauses:
    """How long the collector takes, from its own callbacks."""

    def __init__(self) -> None:
        self.total_ns = self.longest_ns = self._began_ns = 0

    def __call__(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._began_ns = time.perf_counter_ns()
        else:
            pause_ns = time.perf_counter_ns() - self._began_ns
            self.total_ns += pause_ns
            self.longest_ns = max(self.longest_ns, pause_ns)


def run_point(point: Point) -> Reading:
    """Run a point on a fresh loop of its kind."""
    return run_on(point.loop, measure(point))


async def measure(point: Point) -> Reading:
    """Run a point on the running loop: feed it, wait until every request has ended, look at what is left."""
    arrivals_ns, latencies_ms = load(point)
    tally, pauses = Tally(), Pauses()
    contestant = _contestant(point, tally)
    feed = Feed(arrivals_ns, latencies_ms, point.timeout_ms, contestant.submit, contestant.answer)
    peak = asyncio.get_running_loop().create_task(_watch_peak(tally))
    gc.collect()
    gc.freeze()
    if point.collector == "recipe":
        gc.set_threshold(*RECIPE)
    gc.callbacks.append(pauses)
    rss_before = _rss_mib()
    cpu = time.process_time()
    await feed.run()
    await until_ended(tally)
    cpu = time.process_time() - cpu
    held_mib = _rss_mib() - rss_before
    gc.callbacks.remove(pauses)
    peak.cancel()
    entries = contestant.entries
    contestant.close()
    lateness_ms = np.array(tally.lateness_ns) / NS_PER_MS
    return Reading(
        rate_reached=point.requests / feed.taken_s,
        cpu_s_per_million=cpu / point.requests * 1e6,
        timeout_rate=len(lateness_ms) / point.requests,
        early=int((lateness_ms < 0).sum()),
        lateness_ms_p50=_quantile(lateness_ms, 0.5),
        lateness_ms_p99=_quantile(lateness_ms, 0.99),
        lateness_ms_p999=_quantile(lateness_ms, 0.999),
        lateness_ms_max=_quantile(lateness_ms, 1.0),
        gc_ms=pauses.total_ns / NS_PER_MS,
        gc_longest_ms=pauses.longest_ns / NS_PER_MS,
        peak_pending=_Peak.pending,
        peak_rss_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        held_mib=held_mib,
        entries_left=entries,
    )


def load(point: Point) -> tuple[Sequence[int], Sequence[int]]:
    """When the requests of a point come, in nanoseconds, and how long each takes, in whole milliseconds."""
    p50, p75 = CASES[point.case]
    workload = Workload(
        requests=point.requests,
        rate=point.rate,
        p50=p50,
        p75=p75,
        timeout=point.timeout_ms / 1000,
        keys=1,
        key_space=1,
        seed=point.seed,
    )
    arrivals: list[int] = []
    latencies: list[int] = []
    for block in range(workload.blocks):
        rows = workload.rows(block, arrivals[-1] if arrivals else 0)
        arrivals += rows["submit_ns"].to_pylist()
        latencies += (rows["latency_ns"].to_numpy() // NS_PER_MS).tolist()
    return arrivals, latencies


class _Peak:
    pending = 0


async def _watch_peak(tally: Tally) -> None:
    _Peak.pending = 0
    while True:
        _Peak.pending = max(_Peak.pending, tally.submitted - tally.ended)
        await asyncio.sleep(0.01)


async def until_ended(tally: Tally) -> None:
    """Wait until every request that was submitted has ended.

    Raises:
        TimeoutError: Some have not half a minute later: the contestant has lost them.
    """
    give_up = time.monotonic() + GRACE_S
    while tally.ended < tally.submitted:
        if time.monotonic() > give_up:
            raise TimeoutError(
                f"{tally.submitted - tally.ended} requests have not ended {GRACE_S:.0f} s after the last"
            )
        await asyncio.sleep(0.001)


def _contestant(point: Point, tally: Tally) -> Contestant:
    if point.contestant == HARNESS:
        return _Nobody(point, tally)
    if point.contestant in DESIGNS:
        return callback_contestant(point, tally)
    return waiting_contestant(point, tally)


def _quantile(values: "np.typing.NDArray[np.float64]", share: float) -> float | None:
    return float(np.quantile(values, share)) if len(values) else None


def _rss_mib() -> float:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE_KIB / 1024


def main() -> None:
    """Run the point of the command line.

    Raises:
        RuntimeError: It is the library's, and this process has not the build that it names.
    """
    point = Point(**json.loads(sys.argv[1]))
    if point.contestant in OURS and point.pure == compiled:
        running = "the compiled core" if compiled else "pure Python"
        raise RuntimeError(f"{point.name} must not run on {running}; set PURGATORY_ASYNC_PURE={point.pure:d}")
    print(json.dumps(dataclasses.asdict(run_point(point))))


if __name__ == "__main__":
    main()
