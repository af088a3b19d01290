"""15 000 polls held in one process, and what it costs to hold them and to let them go."""

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from bench.measure.collector import Collector, collector_set
from bench.measure.line import Line
from bench.measure.loops import UVLOOP, run_on
from bench.measure.section import Section
from bench.service.crowd import all_files
from bench.service.dialects import READ, WAIT, Dialect
from bench.service.holding import CHANNELS, Release, hold, release_at_once, release_one_by_one
from bench.service.line import figure
from bench.service.probe import PERIOD_S, Probe, Waits
from bench.service.served import Served, processor_lost_ms
from bench.service.settings import ServiceSettings

__all__ = ["SECTION"]

MAX_KIB = 12
MAX_STALL_MS = 50
# Of those that all wait on one key.
MAX_HERD_STALL_MS = 10
MAX_HERD_MS = 1_000
IDLE_S = 3
# Nothing here ends by itself, and all keys are remembered as they would be.
FLAGS = ("--max-wait", "600s", "--jitter", "0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What was seen of one crowd of polls.

    Attributes:
        arriving_s: From the first connection to the moment in which all were held.
        kib: KiB of memory for each poll.
        release: How they were released.
        lost_ms: For how long the service, and the clients, had no processor meanwhile.
        idle: The probe's waits before the first client.
        arriving: The same while they came.
        leaving: The same while they were released.
        own_ms: The longest that the service itself was late for its own probe, since its start.
    """

    arriving_s: float
    kib: float
    release: Release
    lost_ms: tuple[float, float]
    idle: Waits
    arriving: Waits
    leaving: Waits
    own_ms: float


def lines(settings: ServiceSettings) -> Iterator[Line]:
    """For each kind of poll: on keys of their own, then all on one."""
    for dialect in (READ, WAIT):
        for together in (False, True):
            with ExitStack() as stack:
                stack.enter_context(all_files())
                served = stack.enter_context(Served(*FLAGS))
                probe = stack.enter_context(Probe(served.port, served.process.pid))
                stack.enter_context(collector_set(Collector.OFF))
                scene = run_on(UVLOOP, _play(settings, served, probe, dialect, together=together))
            yield from _figures(settings, dialect, scene, together=together)


async def _play(
    settings: ServiceSettings, served: Served, probe: Probe, dialect: Dialect, *, together: bool
) -> Scene:
    keys = ["herd"] * settings.polls if together else [f"key{number}" for number in range(settings.polls)]
    await asyncio.sleep(IDLE_S)
    idle, before = probe.waits(), served.resident_kib()
    begin = time.perf_counter()
    crowd = await hold(served, dialect, keys)
    arriving_s, after = time.perf_counter() - begin, served.resident_kib()
    arriving, lost_ms = probe.waits(), _lost_ms(served)
    try:
        if together:
            release = await release_at_once(served, dialect, crowd, keys[0])
        else:
            release = await release_one_by_one(served, dialect, crowd, keys, settings.rate)
        leaving, lost_after_ms = probe.waits(), _lost_ms(served)
        lag_s = (await served.stats())["delays"]["loop_lag"]["max"]
    finally:
        crowd.reset()
    return Scene(
        arriving_s=arriving_s,
        kib=(after - before) / len(keys),
        release=release,
        lost_ms=(lost_after_ms[0] - lost_ms[0], lost_after_ms[1] - lost_ms[1]),
        idle=idle,
        arriving=arriving,
        leaving=leaving,
        own_ms=(lag_s or 0.0) * 1e3,  # None in its first tenth of a second
    )


def _lost_ms(served: Served) -> tuple[float, float]:
    """For how long the service, and this process of the clients, had no processor so far."""
    return served.processor_lost_ms(), processor_lost_ms(os.getpid())


def _figures(settings: ServiceSettings, dialect: Dialect, scene: Scene, *, together: bool) -> Iterator[Line]:
    name = f"{dialect.name}, {'one key for all' if together else 'a key for each'}"
    took = scene.release.latencies
    held = f"{settings.polls:,} held after {scene.arriving_s:.1f} s"
    yield figure(f"{name}: memory of a poll", scene.kib, "KiB", target=MAX_KIB, note=held)
    lost = "no processor for {:,.0f} ms, clients {:,.0f} ms".format(*scene.lost_ms)
    if together:
        yield figure(f"{name}: p99", took.p99, "ms", note=f"one signal; {took}; {lost}")
        yield figure(f"{name}: until the last is answered", took.worst, "ms", target=MAX_HERD_MS)
    else:
        yield figure(f"{name}: p99", took.p99, "ms", note=f"{settings.rate:,} signals/s; {took}; {lost}")
    yield figure(f"{name}: not answered 200", scene.release.refused, "polls", target=0)
    own = f"the service's own, so far {scene.own_ms:.1f}; idle {scene.idle.loop.worst:.1f}"
    for doing, waits in (("come", scene.arriving), ("end", scene.leaving)):
        yield figure(
            f"{name}: stall while they {doing}",
            waits.loop.worst,
            "ms",
            target=MAX_HERD_STALL_MS if together and doing == "end" else MAX_STALL_MS,
            note=f"{waits}; {own}",
        )


SECTION = Section(
    name="held",
    title="Polls held in one process, and ended by signals",
    timed=(
        "Each poll has a connection of its own, from several loopback addresses. Memory: the growth of the "
        "service's resident set, from before the polls came until all were held, per poll; the kernel's "
        "memory for sockets is not in it. p99: from sending a signal to the last byte of the answer to its "
        "poll. The process of the clients takes both times, so its own work is included, and so is the time "
        "in which either process was ready to run and had no processor; the sum of that stands beside it. The "
        f"signals are sent at the given rate over {CHANNELS} connections, without waiting for earlier ones, or "
        f"one signal ends all polls. Stall: a process of its own reads /healthz every {PERIOD_S * 1e3:.0f} ms "
        "on one connection; the figure is its longest wait, less the time in which it or the service was "
        "ready to run and had no processor, as the system counts it. That is at least the longest pass of the "
        "loop less that period, and usually more, because a request takes two or three passes. Beside it "
        "stand the same wait with the lost time, the service's own longest lateness (measured ten times a "
        "second, lost time included), and the longest wait while idle."
    ),
    lines=lines,
)
