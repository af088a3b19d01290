"""Polls that are held, and then released: at a steady rate, each by a request of its own, or all by one."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Protocol

from bench.service.channel import Channel, open_channel
from bench.service.crowd import Crowd
from bench.service.dialects import Dialect
from bench.service.latencies import Latencies

__all__ = [
    "CHANNELS",
    "Release",
    "Server",
    "hold",
    "release_at_once",
    "release_of",
    "release_one_by_one",
    "until_held",
]

CHANNELS = 8  # connections over which the releasing requests are sent
LOOK_S = 0.05
PATIENCE_S = 120.0


class Server(Protocol):
    """What is needed of a server that holds polls."""

    port: int

    async def held(self) -> int:
        """How many requests it holds."""


@dataclass(frozen=True, slots=True)
class Release:
    """How polls were released.

    Attributes:
        latencies: From sending the releasing request to the last byte of the poll's answer, both at the client.
        refused: How many polls were not answered 200.
    """

    latencies: Latencies
    refused: int


async def until_held(server: Server, number: int) -> None:
    """Wait until a server holds so many requests.

    Raises:
        TimeoutError: It does not for two minutes.
    """
    give_up = time.monotonic() + PATIENCE_S
    while (found := await server.held()) != number:
        if time.monotonic() > give_up:
            raise TimeoutError(f"{found} requests are held after {PATIENCE_S:.0f} s, not {number}")
        await asyncio.sleep(LOOK_S)


async def hold(server: Server, dialect: Dialect, keys: Sequence[str]) -> Crowd:
    """Let a poll be held for each of the keys.

    Args:
        server: Which holds what it holds for longer than this takes.
        dialect: How it is polled.
        keys: The keys of the polls.

    Returns:
        The polls, all held.

    Raises:
        TimeoutError: They are not.
    """
    number = await server.held() + len(keys)
    crowd = await Crowd.gather(server.port, [dialect.poll(key) for key in keys])
    await until_held(server, number)
    return crowd


async def release_one_by_one(
    server: Server, dialect: Dialect, crowd: Crowd, keys: Sequence[str], rate: int
) -> Release:
    """Let each poll go by a request of its own, whatever becomes of the requests before it.

    Args:
        server: Which holds them.
        dialect: How they polled.
        crowd: The polls.
        keys: Theirs, all different.
        rate: Requests a second.

    Returns:
        How it went.
    """
    sent_ns: list[int] = []
    async with AsyncExitStack() as stack:
        channels = [await _channel(server, stack) for _ in range(CHANNELS)]
        signals = []
        begin = time.perf_counter()
        for number, key in enumerate(keys):
            early = begin + number / rate - time.perf_counter()
            if early > 0:
                await asyncio.sleep(early)
            sent_ns.append(time.perf_counter_ns())
            signals.append(channels[number % CHANNELS].ask(dialect.tell(key)))
        await asyncio.gather(*signals)
        await crowd.all_settled()
    return release_of(crowd, sent_ns)


async def release_at_once(server: Server, dialect: Dialect, crowd: Crowd, key: str) -> Release:
    """Let all polls go by one request.

    Args:
        server: Which holds them.
        dialect: How they polled.
        crowd: The polls.
        key: On which all of them wait.

    Returns:
        How it went.
    """
    async with AsyncExitStack() as stack:
        channel = await _channel(server, stack)
        sent_ns = time.perf_counter_ns()
        await channel.ask(dialect.tell(key))
        await crowd.all_settled()
    return release_of(crowd, [sent_ns] * len(crowd.polls))


async def _channel(server: Server, stack: AsyncExitStack) -> Channel:
    channel = await open_channel(server.port)
    stack.callback(channel.close)
    return channel


def release_of(crowd: Crowd, sent_ns: Sequence[int]) -> Release:
    """Sum up how a crowd was released.

    Args:
        crowd: All of it settled, at least one answered 200.
        sent_ns: When the request that releases each poll was sent, in the order of the polls.

    Returns:
        It.
    """
    served = [poll.answer is not None and poll.answer.status == 200 for poll in crowd.polls]  # noqa: PLR2004 - HTTP's
    took = [
        poll.answered_ns - at for poll, at, good in zip(crowd.polls, sent_ns, served, strict=True) if good
    ]
    return Release(Latencies.of_ns(took), served.count(False))
