"""What every peer goes through: messages, a herd, polls that are held and abandoned, restarts."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Final

from bench.measure.loops import UVLOOP, run_on
from bench.service.beside.exchanging import CHANNELS, Exchanged, exchange
from bench.service.beside.peers import Peer, PeerServer
from bench.service.channel import open_channel
from bench.service.crowd import Crowd
from bench.service.dialects import Dialect
from bench.service.holding import hold, release_at_once, until_held
from bench.service.latencies import Latencies
from bench.service.processes import Memory, cpu_s, memory_of
from bench.service.visitors import FAILURES, Visitors

__all__ = ["Abandoned", "Messages", "abandon", "exchanged", "herd", "not_served", "restarted"]

BETWEEN_S: Final = 1.0  # of load between two restarts
KEPT: Final = 100  # messages that a restart may lose
LOOK_S: Final = 0.1
FREED_S: Final = 10.0  # after so long, polls that are still held count as held for ever
ANSWERED_S: Final = 5.0  # after so long, a poll that should be answered at once counts as not answered


@dataclass(frozen=True, slots=True)
class Messages:
    """A load, and what it cost the server.

    Attributes:
        load: As the clients saw it.
        cpu_s: The processor time of all the server's processes.
    """

    load: Exchanged
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandoned:
    """Polls that were held, and whose clients left.

    Attributes:
        held_s: From the first connection until all were held.
        memory: What each took while it was held, in bytes.
        left: What each still took afterwards: most servers keep the memory for the next.
        again: What each of as many new polls took then, with what was left.
        freed_s: From the first client that left until the server held none, but for those still held.
        still_held: How many it held ten seconds later.
        lost: How many messages, published just after, no later poll was answered with.
    """

    held_s: float
    memory: Memory
    left: Memory
    again: Memory
    freed_s: float
    still_held: int
    lost: int


def exchanged(peer: Peer, server: PeerServer, stamp: str, seconds: float) -> Messages:
    """Let messages through a server for so many seconds, on keys of their own."""
    before = run_on(UVLOOP, _quiet(server))
    begin_s = cpu_s(server.process.pid)
    load = exchange(
        server.port,
        peer.conversation,
        stamp,
        seconds,
        lambda: run_on(UVLOOP, until_held(server, before + CHANNELS)),
    )
    return Messages(load, cpu_s(server.process.pid) - begin_s)


async def _quiet(server: PeerServer) -> int:
    """Wait until polls that were left are forgotten, as far as they are; return how many are held."""
    held = await server.held()
    while True:
        await asyncio.sleep(LOOK_S)
        last, held = held, await server.held()
        if held == last:
            return held


async def herd(peer: Peer, server: PeerServer, key: str, number: int) -> Latencies:
    """Hold polls on one key, and answer all with one message.

    Raises:
        RuntimeError: Some were not answered 200.
    """
    await _quiet(server)
    crowd = await hold(server, peer.dialect, [key] * number)
    try:
        release = await release_at_once(server, peer.dialect, crowd, key)
    finally:
        crowd.reset()
    if release.refused:
        raise RuntimeError(f"{release.refused} of {number} polls, {peer.name}, were not answered 200")
    return release.latencies


async def abandon(peer: Peer, server: PeerServer, number: int, published: int) -> Abandoned:
    """Hold polls, let all their clients leave, publish to some at once, see what is left, and hold as many again."""
    await server.held()  # the first request makes a server import what it needs
    pid = server.process.pid
    before = memory_of(pid)
    keys = [f"left{place}" for place in range(number)]
    begin = time.perf_counter()
    crowd = await hold(server, peer.dialect, keys)
    held_s, held = time.perf_counter() - begin, memory_of(pid)
    begin = time.perf_counter()
    crowd.reset()
    told = keys[:published]
    await _tell(server.port, peer.dialect, told)
    still_held = await server.held()
    while still_held and time.perf_counter() - begin < FREED_S:
        await asyncio.sleep(LOOK_S)
        still_held = await server.held()
    freed_s, after = time.perf_counter() - begin, memory_of(pid)
    lost = await _unanswered(server.port, peer.dialect, told)
    crowd = await hold(server, peer.dialect, [f"again{place}" for place in range(number)])
    again = memory_of(pid)
    crowd.reset()
    return Abandoned(
        held_s=held_s,
        memory=_each(before, held, number),
        left=_each(before, after, number),
        again=_each(before, again, number),
        freed_s=freed_s,
        still_held=still_held,
        lost=lost,
    )


def _each(before: Memory, after: Memory, number: int) -> Memory:
    return Memory(
        (after.resident_bytes - before.resident_bytes) // number,
        (after.proportional_bytes - before.proportional_bytes) // number,
    )


async def restarted(peer: Peer, visitors: int, restarts: int) -> tuple[Counter[str], int]:
    """Restart a server under clients in a loop.

    Args:
        peer: The server.
        visitors: How many clients.
        restarts: How often.

    Returns:
        What they counted; and of a hundred messages, published before, how many are lost.
    """
    keys = [f"kept{number}" for number in range(KEPT)]
    async with peer.restarted() as service:
        await _tell(service.port, peer.dialect, keys)
        clients = Visitors(service.port, visitors, peer.visits)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(clients.run())
            for _ in range(restarts):
                await asyncio.sleep(BETWEEN_S)
                await service.restart()
            await asyncio.sleep(BETWEEN_S)
            clients.end()
        return clients.counts, await _unanswered(service.port, peer.dialect, keys)


def not_served(counts: Counter[str]) -> int:
    """Return how many requests were refused, reset or lost."""
    return sum(counts[failure] for failure in FAILURES)


async def _tell(port: int, dialect: Dialect, keys: Sequence[str]) -> None:
    """Publish to each key, and wait for the answers.

    Raises:
        RuntimeError: One is a refusal.
    """
    async with AsyncExitStack() as stack:
        channel = await open_channel(port)
        stack.callback(channel.close)
        for key in keys:
            answer = await channel.ask(dialect.tell(key))
            if answer.status // 100 != 2:  # noqa: PLR2004 - HTTP's
                raise RuntimeError(f"a message must be answered 2xx, got {answer}")


async def _unanswered(port: int, dialect: Dialect, keys: Sequence[str]) -> int:
    """Poll each key that has a message; return how many polls are not answered with it."""
    crowd = await Crowd.gather(port, [dialect.poll(key) for key in keys])
    with suppress(TimeoutError):  # those that are not answered are counted
        await crowd.all_settled(ANSWERED_S)
    crowd.reset()
    return sum(poll.answer is None or b"done" not in poll.answer.body for poll in crowd.polls)
