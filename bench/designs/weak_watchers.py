"""The proposal's first draft: timing wheel, and watch lists of weak references.

The idea: only the timer holds a pending operation. When it completes it leaves the timer, no reference is left, and the
collector clears the references to it in the watch lists. Cleared references are counted, and when enough have gathered
the lists are swept. So a completed operation and what it carries are free at once, although its entries stay.

In CPython a reference count falls to zero in the call that completes the operation, so the draft's hope comes true
as well as it can; what it costs is a reference object with a callback for each key.
"""

from collections.abc import Hashable, Sequence
from typing import ClassVar, cast
from weakref import ref

from bench.designs.interface import Design, Operation, Reaper, Traits, now_ms
from bench.designs.kafka_operation import KafkaOperation
from bench.designs.kafka_wheel import KafkaTimer
from purgatory_async.clock import Clock

__all__ = ["WeakWatchersPurgatory"]

_References = list["ref[KafkaOperation]"]


class WeakWatchersPurgatory(Design):
    """The purgatory that was drawn and not built.

    Args:
        clock: What time it is, and who wakes the reaper.
        wheel_size: Buckets of a level.
        purge_interval: How many cleared references may gather.
    """

    name = "weak_watchers"
    operation: ClassVar[type[Operation]] = KafkaOperation
    traits = Traits(early_ms=1, purge_interval=1_000)

    def __init__(self, clock: Clock, wheel_size: int = 20, purge_interval: int = 1_000) -> None:
        self._clock = clock
        self._timer = KafkaTimer(1, wheel_size, now_ms(clock))
        self._purge_interval = purge_interval
        self._cleared = 0
        self._watchers: dict[Hashable, _References] = {}
        self._reaper = Reaper(clock, self._reap)

    def watch(self, operation: Operation, keys: Sequence[Hashable]) -> bool:
        """Ask, refer to it weakly from every list, and let the timer hold it."""
        delayed = cast("KafkaOperation", operation)
        if delayed.try_complete():
            return True
        if delayed.completed:
            return False
        for key in keys:
            self._watchers.setdefault(key, []).append(ref(delayed, self._count))
        self._timer.add(delayed, now_ms(self._clock))
        next_ms = self._timer.next_expiration
        self._reaper.expect(now_ms(self._clock) if next_ms is None else next_ms)
        return False

    def check(self, key: Hashable) -> int:
        """Ask those that are still there, in order."""
        found = self._watchers.get(key)
        if found is None:
            return 0
        completed = 0
        for reference in tuple(found):
            delayed = reference()
            completed += delayed is not None and not delayed.completed and delayed.try_complete()
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
        """References in all lists, cleared ones included."""
        return sum(map(len, self._watchers.values()))

    def _count(self, _: "ref[KafkaOperation]") -> None:
        self._cleared += 1

    def _reap(self, present_ms: int) -> int | None:
        for task in self._timer.advance_clock(present_ms):
            cast("KafkaOperation", task).run()
        if self._cleared > self._purge_interval:
            self._cleared = 0
            for key, found in tuple(self._watchers.items()):
                self._sweep(key, found)
        return self._timer.next_expiration

    def _sweep(self, key: Hashable, found: _References) -> None:
        found[:] = [reference for reference in found if _alive(reference)]
        if not found and self._watchers.get(key) is found:
            del self._watchers[key]


def _alive(reference: "ref[KafkaOperation]") -> bool:
    delayed = reference()
    return delayed is not None and not delayed.completed
