"""The items of a hand-off by key: kept for a taker, or in hand, which is taken and not reported done."""

from collections.abc import Hashable
from heapq import heappop, heappush
from itertools import count
from operator import itemgetter
from typing import Final, Generic, TypeVar

from purgatory_async import PurgatoryError

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_REMEMBERED: Final = 4096  # keys with items in hand, while no call has asked for them


class Queue(list[tuple[int, T]]):
    """The items of one key: a heap of those kept, in which a returned item has its old number."""

    __slots__ = ("in_hand",)

    in_hand: int
    """How many were taken and are not done."""


class Items(Generic[K, T]):
    """The items by key; a key without any, kept or in hand, is forgotten."""

    __slots__ = ("counted", "kept", "limit", "numbers", "numbers_before", "queues")

    def __init__(self) -> None:
        self.queues: dict[K, Queue[T]] = {}
        self.kept = 0
        self.counted: bool | None = None  # whether a call has asked what is in hand; False: too late
        self.limit = _REMEMBERED
        self.numbers = count()
        self.numbers_before = count(-1, -1)

    def add(self, key: K) -> Queue[T]:
        """Begin the queue of a key."""
        if len(self.queues) >= self.limit and not self.counted:
            self._forget_hands()
        queue = self.queues[key] = Queue()
        queue.in_hand = 0
        return queue

    def keep(self, key: K, number: int, item: T) -> Queue[T]:
        """Keep an item in its place; returns its queue."""
        queue = self.queues.get(key)
        if queue is None:
            queue = self.add(key)
        heappush(queue, (number, item))
        self.kept += 1
        return queue

    def pick(self, keys: tuple[K, ...]) -> tuple[K, int, T] | None:
        """Take the first item of the first key that has one."""
        for key in keys:
            queue = self.queues.get(key)
            if queue:
                number, item = heappop(queue)
                queue.in_hand += 1
                self.kept -= 1
                return key, number, item
        return None

    def withdraw_newest(self, key: K) -> None:
        """Take back the item kept last: the newest is still where the heap appended it."""
        self.queues[key].pop()
        self.kept -= 1
        self._forget(key)

    def leave_hand(self, key: K) -> bool:
        """Count one item less as in hand; returns whether one was."""
        queue = self.queues.get(key)
        if queue is None or not queue.in_hand:
            return False
        queue.in_hand -= 1
        self._forget(key)
        return True

    def clear(self) -> list[tuple[K, T]]:
        """Take out all kept items, in the order of their numbers."""
        kept = [(number, key, item) for key, queue in self.queues.items() for number, item in queue]
        kept.sort(key=itemgetter(0))
        for key, queue in list(self.queues.items()):
            queue.clear()
            self._forget(key)
        self.kept = 0
        return [(key, item) for _, key, item in kept]

    def finished(self, keys: tuple[K, ...]) -> bool:
        """Whether no item of these keys, none for all, is kept or in hand."""
        return not any(key in self.queues for key in keys) if keys else not self.queues

    def ask(self) -> None:
        """Have what is in hand counted without a limit from now on."""
        if self.counted is False:
            raise PurgatoryError(
                f"items of more than {_REMEMBERED} keys were in hand before the first task_done or join: they are "
                "not counted; call join() before taking any"
            )
        self.counted = True

    def _forget(self, key: K) -> None:
        queue = self.queues[key]
        if not queue and not queue.in_hand:
            del self.queues[key]

    def _forget_hands(self) -> None:
        """Bound what is kept for a program that never reports an item as done."""
        idle = [key for key, queue in self.queues.items() if not queue]
        if len(idle) >= _REMEMBERED:
            for key in idle:
                del self.queues[key]
            self.counted = False
        self.limit = 2 * len(self.queues) + _REMEMBERED
