"""Dubbo's timer: a hashed wheel with rounds, one tick after another, and futures in a dict.

What makes it Dubbo's (a copy of an older Netty):

- **One wheel**: what is further away than a turn waits for so many rounds, and is looked at in each.
- **Tick by tick**: the wheel turns as long as it is in use, whether or not anything is due.
- **New and cancelled timeouts queue up** and are let into or out of the buckets by the next tick, 100 000 at most.
- **A tick more than asked for**: the bucket of tick n is looked at when that tick is over.

Dubbo has no watch lists; a dict of futures by request id is its. Here it is a dict of operations by key, which they
leave at once.
"""

from collections import deque
from collections.abc import Hashable, Sequence
from typing import ClassVar, cast

from bench.designs.interface import NS_PER_MS, Operation, Traits, now_ms
from bench.designs.keyed import KeyedDesign, PlainOperation
from purgatory_async.clock import Clock

__all__ = ["HashedOperation", "HashedPurgatory"]

TRANSFERS = 100_000


class HashedOperation(PlainOperation):
    """An operation that is its own timeout: in a bucket, or on the way to one."""

    __slots__ = ("bucket", "cancelled", "deadline_ms", "home", "keys", "rounds")

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.done = False
        self.cancelled = False
        self.home: HashedPurgatory | None = None
        self.bucket: dict[HashedOperation, None] | None = None

    deadline_ms: int
    rounds: int
    keys: Sequence[Hashable]

    def force_complete(self) -> bool:
        """Complete it: it leaves the dict now, and the wheel with the next tick."""
        if self.done:
            return False
        self.done = True
        if self.home is not None:
            self.home.let_go(self)
        self.on_complete()
        return True


class HashedPurgatory(KeyedDesign):
    """Operations in a dict by key, deadlines in a hashed wheel.

    Args:
        clock: What time it is, and who wakes it for each tick.
        ticks_per_wheel: Buckets.
        tick_ms: Dubbo's own futures use 30.
    """

    name = "hashed"
    operation: ClassVar[type[Operation]] = HashedOperation
    traits = Traits(late_ms=2)

    def __init__(self, clock: Clock, ticks_per_wheel: int = 512, tick_ms: int = 1) -> None:
        self._clock = clock
        self._tick_ms = tick_ms
        self._wheel: list[dict[HashedOperation, None]] = [{} for _ in range(ticks_per_wheel)]
        self._new: deque[HashedOperation] = deque()
        self._gone: deque[HashedOperation] = deque()
        self._watchers: dict[Hashable, dict[HashedOperation, None]] = {}
        self._pending = 0
        self._start_ms = now_ms(clock)
        self._tick = 0
        self._wakeup = clock.call_at_ns(clock.time_ns() + tick_ms * NS_PER_MS, self._turn)

    def watch(self, operation: Operation, keys: Sequence[Hashable]) -> bool:
        """Ask, enter it in the dict, and let the next tick put it into its bucket."""
        waiting = cast("HashedOperation", operation)
        if waiting.try_complete():
            return True
        if waiting.done:
            return False
        self._enter(waiting, keys)
        waiting.deadline_ms = now_ms(self._clock) + waiting.timeout_ms - self._start_ms
        self._new.append(waiting)
        return False

    def close(self) -> None:
        """Stop turning."""
        self._wakeup.cancel()

    def let_go(self, waiting: HashedOperation) -> None:
        """Take an operation that has ended out of the dict, and have it taken out of the wheel."""
        super().let_go(waiting)
        if not waiting.cancelled:
            waiting.cancelled = True
            self._gone.append(waiting)

    def _turn(self) -> None:
        """The ticks that are over by now, one after another."""
        over = (now_ms(self._clock) - self._start_ms) // self._tick_ms
        while self._tick < over:
            self._remove_gone()
            self._transfer_new()
            self._expire(self._wheel[self._tick % len(self._wheel)])
            self._tick += 1
        next_ms = self._start_ms + (self._tick + 1) * self._tick_ms
        self._wakeup = self._clock.call_at_ns(next_ms * NS_PER_MS, self._turn)

    def _remove_gone(self) -> None:
        while self._gone:
            waiting = self._gone.popleft()
            if waiting.bucket is not None:
                del waiting.bucket[waiting]
                waiting.bucket = None

    def _transfer_new(self) -> None:
        size = len(self._wheel)
        for _ in range(min(TRANSFERS, len(self._new))):
            waiting = self._new.popleft()
            if not waiting.cancelled:
                due = waiting.deadline_ms // self._tick_ms
                waiting.rounds = max(due - self._tick, 0) // size
                waiting.bucket = self._wheel[max(due, self._tick) % size]
                waiting.bucket[waiting] = None

    def _expire(self, bucket: dict[HashedOperation, None]) -> None:
        for waiting in tuple(bucket):
            if waiting.rounds > 0:
                waiting.rounds -= 1
            elif not waiting.cancelled:
                del bucket[waiting]
                waiting.bucket = None
                waiting.cancelled = True
                if waiting.force_complete():
                    waiting.on_expiration()
