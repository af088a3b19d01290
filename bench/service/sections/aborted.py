"""Thousands of clients leave at the same moment: how long until nothing is left of their requests."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.measure.collector import Collector, collector_set
from bench.measure.line import Line
from bench.measure.loops import UVLOOP, run_on
from bench.measure.section import Section
from bench.service.channel import Channel, open_channel
from bench.service.crowd import Crowd, all_files
from bench.service.dialects import OURS
from bench.service.holding import until_held
from bench.service.line import figure
from bench.service.served import Served, stats_over
from bench.service.settings import ServiceSettings

__all__ = ["SECTION"]

MAX_S = 2
LOOK_S = 0.01
PATIENCE_S = 60.0
FLAGS = ("--max-wait", "600s", "--jitter", "0")
COUNTS = ("pending", "watched", "keys", "held", "takers")
WAYS: dict[str, Callable[[Crowd], None]] = {"reset": Crowd.reset, "closed": Crowd.hang_up}


@dataclass(frozen=True, slots=True)
class Leaving:
    """How a crowd left.

    Attributes:
        left_s: How long it took the clients to leave, in seconds.
        clean_s: From the first that left to nothing pending, watched or held.
        files: How many files more than before it has open then.
    """

    left_s: float
    clean_s: float
    files: int


def lines(settings: ServiceSettings) -> Iterator[Line]:
    """For each way to leave."""
    for way, leave in WAYS.items():
        with all_files(), Served(*FLAGS) as served, collector_set(Collector.OFF):
            seen = run_on(UVLOOP, _play(served, settings.leaving, leave))
        name = f"{settings.leaving:,} polls {way} by their clients"
        yield figure(
            f"{name}: all freed after",
            seen.clean_s,
            "s",
            target=MAX_S,
            note=f"the clients took {seen.left_s:.2f} s; {seen.files} files more open than before",
        )


async def _play(served: Served, number: int, leave: Callable[[Crowd], None]) -> Leaving:
    channel = await open_channel(served.port)
    try:
        await stats_over(channel)
        files = served.files()
        polls = [OURS[place % len(OURS)].poll(f"key{place}") for place in range(number)]
        crowd = await Crowd.gather(served.port, polls)
        await until_held(served, number)
        begin = time.perf_counter()
        leave(crowd)
        left_s = time.perf_counter() - begin
        await _until_clean(channel, begin)
        return Leaving(left_s, time.perf_counter() - begin, served.files() - files)
    finally:
        channel.close()


async def _until_clean(channel: Channel, begin: float) -> None:
    while True:
        counts = (await stats_over(channel))["counts"]
        left = {name: counts[name] for name in COUNTS if counts[name]}
        if not left:
            return
        if time.perf_counter() - begin > PATIENCE_S:
            raise TimeoutError(f"after {PATIENCE_S:.0f} s the service still has {left}")
        await asyncio.sleep(LOOK_S)


SECTION = Section(
    name="aborted",
    title="Clients that disconnect while their requests are held",
    timed=(
        "A third each are blocking reads of a key, one-shot waits and takes from a queue, each on a key of "
        "its own; all are held. Then all clients disconnect at once, by a reset (SO_LINGER with no time) or "
        "by closing. Wall time from the first disconnect until /v1/admin/stats, read every 10 ms, counts no "
        "pending operation or one-shot wait, no watched key, no held request and no taker. It includes the "
        "time that the one process of the clients takes to disconnect them."
    ),
    lines=lines,
)
