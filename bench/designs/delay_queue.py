"""Kafka 0.8's request purgatory: one heap of requests by deadline, and lists of watchers that are swept now and then.

What makes it that, each kept although later designs do it differently:

- **A request that ends stays where it is**, in the heap and in every list, until its deadline takes it out of the heap,
  a check of its key meets it, or a purge sweeps all.
- **The purge** looks at everything: it is due when so many requests have been watched since the last one.
- **A request is asked once for each of its keys** while it is watched (KAFKA-1952 was about that).
- **The reaper** takes out of the heap whatever is due, dead or alive: each costs O(log n) again.

What is left out favours it: no locks, no second thread that waits on the heap while requests come in.
"""

from collections.abc import Hashable, Sequence
from heapq import heapify, heappop, heappush
from typing import ClassVar

from bench.designs.interface import Design, Operation, Reaper, Traits, now_ms
from purgatory_async.clock import Clock

__all__ = ["DelayQueuePurgatory", "DelayedRequest"]


class DelayedRequest:
    """A request that may be satisfied; nothing but this flag tells that it has ended."""

    __slots__ = ("satisfied", "timeout_ms")

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.satisfied = False

    @property
    def ended(self) -> bool:
        """Whether it is satisfied or has expired."""
        return self.satisfied

    def try_complete(self) -> bool:
        """To override; not yet."""
        return False

    def force_complete(self) -> bool:
        """Satisfy it; it stays in heap and lists."""
        if self.satisfied:
            return False
        self.satisfied = True
        self.on_complete()
        return True

    def on_complete(self) -> None:
        """To override."""

    def on_expiration(self) -> None:
        """To override."""


class DelayQueuePurgatory(Design):
    """The purgatory of 2013.

    Args:
        clock: What time it is, and who wakes the reaper.
        purge_interval: After so many watched requests everything is swept.
    """

    name = "delay_queue"
    operation: ClassVar[type[Operation]] = DelayedRequest
    traits = Traits(purge_interval=1_000, keeps_timers=True, checks_per_watch=2)

    def __init__(self, clock: Clock, purge_interval: int = 1_000) -> None:
        self._clock = clock
        self._purge_interval = purge_interval
        self._watchers: dict[Hashable, list[Operation]] = {}
        self._heap: list[tuple[int, int, Operation]] = []
        self._arrived = 0  # makes equal deadlines comparable
        self._watched_since = 0
        self._reaper = Reaper(clock, self._reap)

    def watch(self, operation: Operation, keys: Sequence[Hashable]) -> bool:
        """Ask and enter it, key by key; then put it on the heap."""
        for key in keys:
            if operation.try_complete():
                return True
            self._watchers.setdefault(key, []).append(operation)
        self._watched_since += 1
        if operation.ended:
            return False
        self._arrived += 1
        deadline_ms = now_ms(self._clock) + 1 + operation.timeout_ms  # the clock is rounded down
        heappush(self._heap, (deadline_ms, self._arrived, operation))
        self._reaper.expect(self._heap[0][0])
        return False

    def check(self, key: Hashable) -> int:
        """Ask the key's requests in order; the list is made anew without those that have ended."""
        found = self._watchers.get(key)
        if found is None:
            return 0
        satisfied = sum(not request.ended and request.try_complete() for request in tuple(found))
        self._sweep(key, found)
        return satisfied

    def close(self) -> None:
        """Stop the reaper."""
        self._reaper.stop()

    @property
    def pending(self) -> int:
        """What is on the heap, ended or not: it knows no better."""
        return len(self._heap)

    @property
    def kept(self) -> int:
        """Entries in all lists."""
        return sum(map(len, self._watchers.values()))

    def _reap(self, present_ms: int) -> int | None:
        heap = self._heap
        while heap and heap[0][0] <= present_ms:
            request = heappop(heap)[2]
            if request.force_complete():
                request.on_expiration()
        if self._watched_since >= self._purge_interval:
            self._watched_since = 0
            self._purge()
        return heap[0][0] if heap else None

    def _purge(self) -> None:
        for key, found in tuple(self._watchers.items()):
            self._sweep(key, found)
        self._heap = [entry for entry in self._heap if not entry[2].ended]
        heapify(self._heap)

    def _sweep(self, key: Hashable, found: list[Operation]) -> None:
        found[:] = [request for request in found if not request.ended]
        if not found and self._watchers.get(key) is found:
            del self._watchers[key]
