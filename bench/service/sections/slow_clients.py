"""Thousands of clients that take their time, and a few good ones beside them."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass

from bench.measure.collector import Collector, collector_set
from bench.measure.line import Line
from bench.measure.loops import UVLOOP, run_on
from bench.measure.section import Section
from bench.service.channel import Channel, open_channel
from bench.service.crowd import all_files
from bench.service.dialects import request
from bench.service.latencies import Latencies
from bench.service.line import figure
from bench.service.served import Served
from bench.service.settings import ServiceSettings
from bench.service.trickle import KINDS, SlowClient, connect_all, trickle

__all__ = ["SECTION", "answered_rightly"]

MAX_P99_MS = 100
GOOD = 8
GOOD_RATE = 200  # exchanges a second, all together
SLACK = 1.5  # of the deadline: 15 s for 10 s


@dataclass(frozen=True, slots=True)
class Crawl:
    """What became of the slow and of the good.

    Attributes:
        longest_s: How long the server suffered the slow client that lasted longest.
        unclosed: How many slow clients it did not close.
        unanswered: How many that sent something did not get exactly one 408.
        good: How long the good ones waited for each answer.
        refused: How many of their requests were not answered as they should be.
    """

    longest_s: float
    unclosed: int
    unanswered: int
    good: Latencies
    refused: int


def lines(settings: ServiceSettings) -> Iterator[Line]:
    """How long the slow ones lasted, and how long the good ones waited."""
    deadline = f"{settings.deadline_s}s"
    flags = ("--header-timeout", deadline, "--body-timeout", deadline)
    with all_files(), Served(*flags) as served, collector_set(Collector.OFF):
        crawl = run_on(UVLOOP, _play(served, settings))
    name = f"{settings.slow:,} slow clients"
    yield figure(
        f"{name}: the last is closed after",
        crawl.longest_s,
        "s",
        target=settings.deadline_s * SLACK,
        note=f"--header-timeout {deadline} --body-timeout {deadline}",
    )
    yield figure(f"{name}: not closed", crawl.unclosed, "clients", target=0)
    yield figure(f"{name}: answered wrongly", crawl.unanswered, "clients", target=0)
    yield figure(
        f"{name}: p99 of good ones beside them", crawl.good.p99, "ms", target=MAX_P99_MS, note=str(crawl.good)
    )
    yield figure(f"{name}: refusals of good ones", crawl.refused, "answers", target=0)


async def _play(served: Served, settings: ServiceSettings) -> Crawl:
    kinds = list(KINDS.values())
    slow = [SlowClient(*kinds[number % len(kinds)]) for number in range(settings.slow)]
    channels = [await open_channel(served.port) for _ in range(GOOD)]
    over = asyncio.Event()
    good = [asyncio.ensure_future(_be_good(channel, number, over)) for number, channel in enumerate(channels)]
    try:
        await connect_all(served.port, slow)
        await trickle(slow, settings.deadline_s * 2 * SLACK)
    finally:
        over.set()
        seen = await asyncio.gather(*good)
        for client in slow:
            client.abort()
        for channel in channels:
            channel.close()
    lasted = [client.lasted_s for client in slow if client.lasted_s is not None]
    return Crawl(
        longest_s=max(lasted, default=0.0),
        unclosed=len(slow) - len(lasted),
        unanswered=sum(
            not answered_rightly(client, list(KINDS)[place % len(kinds)]) for place, client in enumerate(slow)
        ),
        good=Latencies.of_ns([took for waits, _ in seen for took in waits]),
        refused=sum(refused for _, refused in seen),
    )


async def _be_good(channel: Channel, number: int, over: asyncio.Event) -> tuple[list[int], int]:
    """Submit an operation and complete it, and again, at a steady rate; each request waits for its answer."""
    waits: list[int] = []
    refused = turn = 0
    loop = asyncio.get_running_loop()
    begin = loop.time() + number / GOOD_RATE
    while not over.is_set():
        name = f"good{number}-{turn}"
        body = f'{{"keys": ["{name}"], "id": "{name}"}}'.encode()
        for asked, expected in (
            (request("POST", "/v1/operations", body), 202),
            (request("POST", f"/v1/operations/{name}/complete", b'{"result": "done"}'), 200),
        ):
            sent_ns = time.perf_counter_ns()
            answer = await channel.ask(asked)
            waits.append(time.perf_counter_ns() - sent_ns)
            refused += answer.status != expected
        turn += 1
        await asyncio.sleep(max(0.0, begin + turn * GOOD / GOOD_RATE - loop.time()))
    return waits, refused


def answered_rightly(client: SlowClient, kind: str) -> bool:
    """Whether it got one 408, or nothing if it had sent nothing."""
    answer = client.received
    if kind == "silent":
        return answer == b""
    return answer.startswith(b"HTTP/1.1 408 ") and answer.count(b"HTTP/1.1 ") == 1


SECTION = Section(
    name="slow-clients",
    title="Slow clients, and good ones beside them",
    timed=(
        "A third each send nothing, a head, or a body, a byte a second. The service is started with --header- "
        "timeout 10s --body-timeout 10s (the default for a body is 30 s), so the target of 15 s fits every "
        "kind. A slow client's time runs from its connection until the server closes it; a client that sent "
        f"something must be answered 408. Beside them {GOOD} good clients submit and complete operations, "
        f"{GOOD_RATE} times a second in all. Each of their requests is timed at the client, in the process "
        "that also sends all the slow bytes."
    ),
    lines=lines,
)
