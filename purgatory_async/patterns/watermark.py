"""A watermark: wait until a growing number reaches a value.

Kafka's high watermark is one, and Raft's commit index. The values waited for are in order, so an advance checks only
those that it reaches and one more. (Kafka keeps a `ThresholdPurgatory` next to the keyed one for the same reason.)

Each value is a watch key of the watermark's own purgatory, and a heap of integers orders the keys. A value whose
waiters have all left stays in the heap until the watermark passes it or such values outnumber the waiters.
"""

from heapq import heapify, heappop, heappush
from typing import Final, Self

from purgatory_async import OperationExpired, Purgatory, Timer
from purgatory_async.clock import check_timeout
from purgatory_async.errors import check_exception, refuse_again
from purgatory_async.patterns._arguments import check_integer

__all__ = ["Watermark"]

_FEW: Final = 64  # dead integers not worth a sweep


class Watermark:
    """A number that never decreases, and the waits for it to reach a value.

    As an async context manager it closes itself.

    Args:
        initial: The first value.
        timer: For the timeouts; if not given, it makes its own and closes it.

    Raises:
        TypeError: ``initial`` is not an integer, or ``timer`` not a `Timer`.

    >>> import asyncio
    >>> async def main():
    ...     async with Watermark(41) as high:
    ...         asyncio.get_running_loop().call_soon(high.advance, 45)
    ...         return await high.reach(42, timeout=5)
    >>> asyncio.run(main())
    45
    """

    __slots__ = ("__weakref__", "_failures", "_in_heap", "_purgatory", "_values", "value")

    value: int
    """The current value."""

    def __init__(self, initial: int = 0, *, timer: Timer | None = None) -> None:
        refuse_again(self, "_purgatory")
        self.value = check_integer("initial", initial)
        self._purgatory = Purgatory("watermark", timer=timer)
        self._values: list[int] = []  # a heap; each value once
        self._in_heap: set[int] = set()
        self._failures = 0  # how many times `fail_all` was called

    def __repr__(self) -> str:
        return f"<Watermark at {self.value} waiting={self.waiting}>"

    @property
    def waiting(self) -> int:
        """The number of waiters. O(1)."""
        return self._purgatory.pending

    @property
    def timer(self) -> Timer:
        """The timer that expires its waits."""
        return self._purgatory.timer

    async def reach(self, value: int, timeout: float | None = None) -> int:
        """Wait until the watermark is at ``value`` or above.

        Args:
            value: The value to wait for.
            timeout: Seconds, as for any operation.

        Returns:
            The watermark at the end of the wait, at least ``value``; at once if reached already.

        Raises:
            OperationExpired: The watermark did not reach ``value`` in time.
            PurgatoryClosed: The watermark was closed.
            PurgatoryFull: ``timer`` has a ``max_pending``, and as many are pending.
            BaseException: The exception given to `fail_all`.
            TypeError, ValueError: ``value`` is not an integer, or ``timeout`` is invalid.

        Cancelling the waiting task removes the wait at once. O(log n) with n values waited for.
        """
        value = check_integer("value", value)
        timeout = check_timeout(timeout)
        if value <= self.value:
            return self.value
        if value not in self._in_heap:
            heappush(self._values, value)
            self._in_heap.add(value)
        failures = self._failures
        try:
            reached: int = await self._purgatory.wait(value, timeout=timeout)
        except OperationExpired:
            if failures != self._failures:  # it may come from `fail_all`
                raise
            raise OperationExpired(
                f"the watermark did not reach {value} within {timeout} s; it stands at {self.value}",
                keys=(value,),
                timeout=timeout,
            ) from None
        finally:
            self._sweep()
        return reached

    def advance(self, value: int) -> int:
        """Move the watermark up to ``value`` and complete the waits it reaches, lower values first.

        Returns:
            How many waits it completed.

        Raises:
            ValueError: ``value`` is below the watermark.
            TypeError: ``value`` is not an integer.

        O(k + log n) to complete k waits; the others cost nothing.
        """
        value = check_integer("value", value)
        if value < self.value:
            raise ValueError(f"value must be at least {self.value}, where the watermark is, got {value}")
        released = 0
        while self._values and self._values[0] <= value:
            released += self._purgatory.complete_for_key(self._values[0], value)
            self._in_heap.remove(heappop(self._values))
        self.value = value
        return released

    def fail_all(self, exception: BaseException) -> int:
        """Fail every wait, as a leader does when it is deposed; the watermark stays open.

        All waiters raise the same object; its traceback shows the one that raised last.

        Returns:
            How many waits it failed.

        Raises:
            TypeError: ``exception`` is not an exception instance.
        """
        check_exception(exception)
        self._failures += 1
        released = 0
        while self._values:
            released += self._purgatory.fail_for_key(self._values[0], exception)
            self._in_heap.remove(heappop(self._values))
        return released

    def close(self) -> int:
        """End every wait, and refuse later ones, with `PurgatoryClosed`; closing again does nothing.

        Returns:
            How many waits it ended.
        """
        return len(self._purgatory.close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        self.close()

    def _sweep(self) -> None:
        """Drop the values without waiters once they outnumber the waiters. O(1) amortised."""
        if len(self._values) > 2 * self._purgatory.pending + _FEW:
            self._in_heap = {operation.keys[0] for operation in self._purgatory.operations()}
            self._values = list(self._in_heap)
            heapify(self._values)
