"""The proposal as built, and Kafka's purgatory since 0.9: hierarchical timing wheel, watch lists, purge by estimate.

What makes it Kafka's:

- **Two checks** of a new operation, before and after it is put on its lists: between the two another thread might
  have signalled. There is one thread here, so the second never helps; it is part of the cost all the same.
- **A completed operation leaves the timer at once and the lists later**: when a check of the key meets it, or by a
  purge.
- **The purge is due by estimate**: every watched operation counts one, the timer knows how many are pending, and when
  the difference passes the interval all lists are swept and the estimate starts again from what is pending.
- **The timer fires early** by up to a tick: see `kafka_wheel`.

Left out: the 512 shards and their locks, which are there for threads, and the executor.
"""

from collections.abc import Hashable, Sequence
from typing import ClassVar, cast

from bench.designs.interface import Design, Operation, Reaper, Traits, now_ms
from bench.designs.kafka_operation import KafkaOperation
from bench.designs.kafka_wheel import KafkaTimer
from purgatory_async.clock import Clock

__all__ = ["PurgingWheelPurgatory"]


class PurgingWheelPurgatory(Design):
    """The purgatory of 2015 until today.

    Args:
        clock: What time it is, and who wakes the reaper.
        wheel_size: Buckets of a level.
        purge_interval: How many completed ones may gather, by estimate.
    """

    name = "purging_wheel"
    operation: ClassVar[type[Operation]] = KafkaOperation
    traits = Traits(early_ms=1, purge_interval=1_000, checks_per_watch=2)

    def __init__(self, clock: Clock, wheel_size: int = 20, purge_interval: int = 1_000) -> None:
        self._clock = clock
        self._timer = KafkaTimer(1, wheel_size, now_ms(clock))
        self._purge_interval = purge_interval
        self._estimated_total = 0
        self._watchers: dict[Hashable, list[KafkaOperation]] = {}
        self._reaper = Reaper(clock, self._reap)

    def watch(self, operation: Operation, keys: Sequence[Hashable]) -> bool:
        """Ask, put on every list, ask again, and only then into the timer."""
        delayed = cast("KafkaOperation", operation)
        if delayed.try_complete():
            return True
        for key in keys:
            if not delayed.completed:
                self._watchers.setdefault(key, []).append(delayed)
        self._estimated_total += 1
        if delayed.try_complete():
            return True
        if not delayed.completed:
            self._timer.add(delayed, now_ms(self._clock))
            next_ms = self._timer.next_expiration
            self._reaper.expect(now_ms(self._clock) if next_ms is None else next_ms)
        return False

    def check(self, key: Hashable) -> int:
        """Ask the key's operations in order, dropping those that have completed."""
        found = self._watchers.get(key)
        if found is None:
            return 0
        completed = sum(not delayed.completed and delayed.try_complete() for delayed in tuple(found))
        self._sweep(key, found)
        return completed

    def close(self) -> None:
        """Stop the reaper."""
        self._reaper.stop()

    @property
    def pending(self) -> int:
        """What is in the timer."""
        return len(self._timer)

    @property
    def kept(self) -> int:
        """Entries in all lists."""
        return sum(map(len, self._watchers.values()))

    def _reap(self, present_ms: int) -> int | None:
        for task in self._timer.advance_clock(present_ms):
            cast("KafkaOperation", task).run()
        if self._estimated_total - len(self._timer) > self._purge_interval:
            self._estimated_total = len(self._timer)
            for key, found in tuple(self._watchers.items()):
                self._sweep(key, found)
        return self._timer.next_expiration

    def _sweep(self, key: Hashable, found: list[KafkaOperation]) -> None:
        found[:] = [delayed for delayed in found if not delayed.completed]
        if not found and self._watchers.get(key) is found:
            del self._watchers[key]
