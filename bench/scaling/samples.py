"""Samples of what an operation costs while others wait, in nanoseconds of processor time.

Those others stand there for most of an hour, with deadlines of their own, and are entered before the clock starts. Each
sample times as many operations as any other, however many stand there: only so can two sizes be compared.
"""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from bench.designs.interface import Design, Operation
from bench.measure.sampling import Sample
from purgatory_async.clock import MonotonicClock

__all__ = ["Scene", "batches", "churn", "complete_all", "expire"]

STANDING_MS = (600_000, 3_600_000)
CHUNK = 500
"""Operations before the loop gets a turn."""

SETTLE_S = 0.25
"""Longer than a purging reaper sleeps: its sweep belongs to the price."""

FIRST_MS, SPREAD_MS = 300, 200
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Scene:
    """What waits.

    Args:
        design: Whose operations.
        keys: The keys of each standing operation.
        operations: How many are timed.
        seed: The seed of timeouts and orders.
    """

    design: type[Design]
    keys: Sequence[tuple[str, ...]]
    operations: int
    seed: int

    def made(self) -> tuple[Design, Any, list[Operation]]:
        """The design with all that stands there, the type of operations, and those that stand there."""
        purgatory = self.design(MonotonicClock())
        kind = _kind_of(self.design)
        draw = random.Random(self.seed).randint
        standing = [kind(self.design.timeout(draw(*STANDING_MS))) for _ in self.keys]
        for operation, keys in zip(standing, self.keys, strict=True):
            purgatory.watch(operation, keys)
        return purgatory, kind, standing


def churn(scene: Scene) -> Sample:
    """One that stands there is completed, at random, and a new one made and watched in its place; both together."""
    draw = random.Random(scene.seed + 1).randrange
    places = [draw(len(scene.keys)) for _ in range(scene.operations)]

    async def sample() -> float:
        """Per operation, with the turns of the loop between and after."""
        purgatory, kind, standing = scene.made()
        watch, timeout = purgatory.watch, scene.design.timeout(STANDING_MS[1])
        started = time.process_time_ns()
        for first in range(0, len(places), CHUNK):
            for place in places[first : first + CHUNK]:
                standing[place].force_complete()
                standing[place] = operation = kind(timeout)
                watch(operation, scene.keys[place])
            await asyncio.sleep(0)
        await asyncio.sleep(SETTLE_S)
        spent = time.process_time_ns() - started
        purgatory.close()
        return spent / len(places)

    return sample


def batches(scene: Scene, timeouts_ms: Sequence[int], *, whole: bool = False) -> Sample:
    """New ones are watched, some hundred at a time, and completed in random order before the loop gets a turn.

    Args:
        scene: What else waits.
        timeouts_ms: Theirs; a short one does not expire in between, as no timer runs.
        whole: Whether those in seconds are integers.
    """
    chance = random.Random(scene.seed + 2)
    timeouts = [scene.design.timeout(timeout_ms) for timeout_ms in timeouts_ms]  # constants, as of a program
    timeouts = [int(timeout) for timeout in timeouts] if whole else timeouts
    drawn = [chance.choice(timeouts) for _ in range(scene.operations)]
    order = chance.sample(range(CHUNK), CHUNK)
    keys = [(f"new-{number}",) for number in range(CHUNK)]

    async def sample() -> float:
        """Per operation: make, watch, complete."""
        purgatory, kind, standing = scene.made()
        started = time.process_time_ns()
        for first in range(0, len(drawn), CHUNK):
            new = [kind(timeout) for timeout in drawn[first : first + CHUNK]]
            for operation, key in zip(new, keys, strict=False):
                purgatory.watch(operation, key)
            for place in order:
                if place < len(new):
                    new[place].force_complete()
            await asyncio.sleep(0)
        await asyncio.sleep(SETTLE_S)
        spent = time.process_time_ns() - started
        assert not any(operation.ended for operation in standing), "one that stands there has ended"
        purgatory.close()
        return spent / len(drawn)

    return sample


def expire(scene: Scene) -> Sample:
    """New ones are watched, untimed, and expire within a fifth of a second, while the others stand there."""
    draw = random.Random(scene.seed + 3).randrange
    timeouts = [scene.design.timeout(FIRST_MS + draw(SPREAD_MS)) for _ in range(scene.operations)]

    async def sample() -> float:
        """Per operation: the timer's passes; sleeping is free."""
        purgatory, kind, standing = scene.made()
        kind.expired = 0
        for number, timeout in enumerate(timeouts):
            purgatory.watch(kind(timeout), (f"new-{number}",))
        give_up = time.monotonic() + PATIENCE_S
        started = time.process_time_ns()
        while kind.expired < len(timeouts):
            assert time.monotonic() < give_up, f"{len(timeouts) - kind.expired} have not expired"
            await asyncio.sleep(0.02)
        spent = time.process_time_ns() - started
        assert not any(operation.ended for operation in standing), "one that stands there has ended"
        purgatory.close()
        return spent / len(timeouts)

    return sample


def complete_all(scene: Scene) -> Sample:
    """A check of the one key completes all that stand there; again and again, entering them untimed."""
    passes = max(1, scene.operations // len(scene.keys))
    [key] = scene.keys[0]

    async def sample() -> float:
        """Per operation that was completed."""
        spent = 0
        purgatory = scene.design(MonotonicClock())
        kind = _kind_of(scene.design)
        for _ in range(passes):
            kind.ready = False
            for keys in scene.keys:
                purgatory.watch(kind(scene.design.timeout(STANDING_MS[1])), keys)
            kind.ready = True
            started = time.process_time_ns()
            completed = purgatory.check(key)
            spent += time.process_time_ns() - started
            assert completed == len(scene.keys), f"{completed} of {len(scene.keys)} completed"
        purgatory.close()
        return spent / passes / len(scene.keys)

    return sample


def _kind_of(design: type[Design]) -> Any:
    """A new type of that design's operations: ready all at once or not at all, and counted when they expire."""

    class Waiting(design.operation):  # type: ignore[name-defined,misc]  # its base is the design's
        """Does nothing but count."""

        __slots__ = ()
        ready: ClassVar[bool] = False
        expired: ClassVar[int] = 0

        def try_complete(self) -> bool:
            """Complete if all are ready."""
            return Waiting.ready and self.force_complete()

        def on_expiration(self) -> None:
            """Count it."""
            Waiting.expired += 1

    return Waiting
