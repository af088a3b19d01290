"""What is measured of a deployment, from one process of clients."""

import asyncio
import json
import time
from collections.abc import Sequence
from itertools import count
from typing import Final

from bench.cluster.deployment import Deployment
from bench.service.answers import Answer
from bench.service.channel import Channel, open_channel
from bench.service.dialects import request

__all__ = ["answers_per_s", "expiry_ms", "idle_ms", "wakeup_ms"]

SHORTEST_S: Final = 1.0
LONGEST_S: Final = 1.5
PAUSE_S: Final = 0.01  # so that a poll is held before it is woken, and the next begins on an idle service
_NAMES: Final = count()


async def idle_ms(deployment: Deployment, number: int) -> tuple[list[float], list[float]]:
    """Return the milliseconds of submits, and of reads, one after another."""
    channel = await open_channel(deployment.workers[0].port)
    submits, reads = [], []
    for _ in range(number):
        name = _name()
        submits.append(await _took_ms(channel, _submit(name, 60)))
        reads.append(await _took_ms(channel, request("GET", f"/v1/operations/{name}")))
    channel.close()
    return submits, reads


async def answers_per_s(deployment: Deployment, workers: int, clients: int, seconds: float) -> float:
    """Return how many submits and signals are answered in a second, each client sending one after another."""
    ports = [worker.port for worker in deployment.workers[:workers]]
    channels = [await open_channel(ports[place % workers]) for place in range(clients)]
    until = time.perf_counter() + seconds

    async def work(channel: Channel) -> int:
        done = 0
        while time.perf_counter() < until:
            name = _name()
            _check(await channel.ask(_submit(name, 60)))
            _check(await channel.ask(_signal(name)))
            done += 2
        return done

    begin = time.perf_counter()
    total = sum(await asyncio.gather(*map(work, channels)))
    took_s = time.perf_counter() - begin
    for channel in channels:
        channel.close()
    return total / took_s


async def wakeup_ms(deployment: Deployment, number: int) -> list[float]:
    """Return the milliseconds from a signal at one worker to the answer of a poll that another one holds."""
    signals = await open_channel(deployment.workers[0].port)
    polls = await open_channel(deployment.workers[-1].port)
    took = []
    for _ in range(number):
        name = _name()
        polled = polls.ask(request("GET", f"/v1/keys/{name}?index=0&wait=30s"))
        await asyncio.sleep(PAUSE_S)
        begin = time.perf_counter()
        told = signals.ask(_signal(name))
        _check(await polled)
        took.append((time.perf_counter() - begin) * 1e3)
        _check(await told)
    signals.close()
    polls.close()
    return took


async def expiry_ms(deployment: Deployment, number: int, *, killed: bool = False) -> list[float]:
    """Return how many milliseconds operations expire after their timeouts, as polls see it that are held for them.

    Args:
        deployment: Its first worker takes the operations.
        number: How many operations.
        killed: Kill that worker before the first timeout; the polls are held by the last one.
    """
    submits = await open_channel(deployment.workers[0].port)
    channels = [await open_channel(deployment.workers[-1].port) for _ in range(number)]

    async def submit(name: str, timeout: float) -> float:
        begin = time.perf_counter()
        _check(await submits.ask(_submit(name, timeout)))
        return begin

    async def expire(channel: Channel, name: str, begin: float, timeout: float) -> float:
        answer = await channel.ask(request("GET", f"/v1/operations/{name}?wait=30s"))
        took_s = time.perf_counter() - begin
        state = json.loads(answer.body)["state"]
        if state != "expired":
            raise RuntimeError(f"an operation must be expired, got {state}")
        return (took_s - timeout) * 1e3

    step_s = (LONGEST_S - SHORTEST_S) / number
    timeouts = [SHORTEST_S + step_s * place for place in range(number)]
    names = [_name() for _ in timeouts]
    # One after another: the timeout begins when it is in the log, and many at once would wait for each other first.
    begun = [await submit(name, timeout) for name, timeout in zip(names, timeouts, strict=True)]
    expiring = [asyncio.create_task(each) for each in map(expire, channels, names, begun, timeouts)]
    if killed:
        await deployment.workers[0].kill()
    took = list(await asyncio.gather(*expiring))
    for channel in (submits, *channels):
        channel.close()
    return took


def _name() -> str:
    return f"n{next(_NAMES)}"


def _submit(name: str, timeout: float) -> bytes:
    body = {"id": name, "keys": [name], "timeout": timeout}
    return request("POST", "/v1/operations", json.dumps(body).encode())


def _signal(name: str) -> bytes:
    return request("POST", f"/v1/keys/{name}/signal", b'{"value": "done"}')


async def _took_ms(channel: Channel, raw: bytes) -> float:
    begin = time.perf_counter()
    _check(await channel.ask(raw))
    return (time.perf_counter() - begin) * 1e3


def _check(answer: Answer, good: Sequence[int] = (200, 201, 202)) -> None:
    if answer.status not in good:
        raise RuntimeError(f"an answer must be good, got {answer.status} {answer.body!r}")
