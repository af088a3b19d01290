"""A client that goes to another worker when one does not answer, and repeats its request there."""

import asyncio
import json
import random
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

from bench.service.answers import Answer
from bench.service.channel import Channel, open_channel
from bench.service.dialects import request

__all__ = ["Client", "Reply", "Served", "Unanswered"]

PATIENCE_S: Final = 12.0  # of one attempt; a request waits up to 5 s for the store
LASTING_S: Final = 60.0  # of all attempts
PAUSE_S: Final = 0.05
UNAVAILABLE: Final = 503
# A kill seldom falls between the append and the answer: clients that do not wait for it make the same case often.
HANGING_UP: Final = 0.05
HANG_UP_S: Final = 0.02


class Unanswered(Exception):  # noqa: N818 - what happened
    """No worker answered for a minute."""


class Served(Protocol):
    """A worker, as clients know it."""

    @property
    def port(self) -> int:
        """Where it listens; another one after each start, unless it was given one."""
        ...


class Reply(NamedTuple):
    """An answer.

    Attributes:
        status: HTTP's.
        body: JSON, decoded; None if there is none.
        began: When the answered attempt was sent.
        attempts: How many there were; of those before it is not known whether they had an effect.
    """

    status: int
    body: Any
    began: float
    attempts: int


class Client:
    """A client of all workers, with one request at a time.

    Args:
        workers: To choose from.
        draw: Its random choices.

    Attributes:
        hanging_up: The share of requests at which it hangs up before it has read the answer, and repeats them.
        answered: How many of its requests were.
        repeated: How many attempts it repeated.
    """

    def __init__(self, workers: Sequence[Served], draw: random.Random) -> None:
        self.hanging_up = HANGING_UP
        self.answered = self.repeated = 0
        self._workers: Final = workers
        self._draw: Final = draw
        self._channels: Final[dict[Served, tuple[int, Channel]]] = {}

    async def ask(
        self,
        method: str,
        target: str,
        body: object = None,
        *,
        once: str = "",
        worker: Served | None = None,
    ) -> Reply:
        """Send a request until it is answered.

        Args:
            method: HTTP's.
            target: Path and query.
            body: To be sent as JSON; None for none.
            once: Its Idempotency-Key.
            worker: Ask only that one.

        Raises:
            Unanswered: It was not.
        """
        raw = request(method, target, None if body is None else json.dumps(body).encode(), once=once)
        until, attempts = time.monotonic() + LASTING_S, 0
        while time.monotonic() < until:
            chosen = worker or self._draw.choice(self._workers)
            began = time.monotonic()
            attempts += 1
            hangs_up = attempts == 1 and self._draw.random() < self.hanging_up
            answer = await self._attempt(chosen, raw, hangs_up=hangs_up)
            if answer is not None and answer.status != UNAVAILABLE:
                self.answered += 1
                return Reply(answer.status, json.loads(answer.body) if answer.body else None, began, attempts)
            self.repeated += 1
            await asyncio.sleep(PAUSE_S)
        raise Unanswered(f"{method} {target}")

    def close(self) -> None:
        """Hang up everywhere."""
        for _, channel in self._channels.values():
            channel.close()

    async def _attempt(self, worker: Served, raw: bytes, *, hangs_up: bool) -> Answer | None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                port, channel = self._channels.get(worker, (0, None))
                if channel is None or port != worker.port:
                    channel = await open_channel(worker.port)
                    self._channels[worker] = worker.port, channel
                if not hangs_up:
                    return await channel.ask(raw)
                async with asyncio.timeout(self._draw.random() * HANG_UP_S):
                    await channel.ask(raw)
                raise ConnectionResetError("hung up")
        except (OSError, TimeoutError, ValueError):
            _, channel = self._channels.pop(worker, (0, None))
            if channel is not None:
                channel.close()
            return None
