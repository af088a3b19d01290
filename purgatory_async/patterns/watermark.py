"""A watermark: wait until a number that only grows has reached a value.

Kafka's high watermark is one, and Raft's commit index. Waiters are not asked one by one whether their time has
come: the values waited for are in order, so an advance looks at those that it reaches and at one more. (Kafka
keeps a `ThresholdPurgatory` for this, next to the keyed one, and for the same reason.)

Each value is a watch key of a purgatory of the watermark's own, and a heap of integers puts the keys in order, as
it orders the buckets of the timing wheel. A value whose waiters have all left stays in the heap as one integer
until the watermark passes it or such integers outnumber those who wait.
"""

from heapq import heapify, heappop, heappush
from typing import Final, Self

from purgatory_async import OperationExpired, Purgatory, Timer
from purgatory_async.clock import check_timeout
from purgatory_async.patterns._arguments import check_exception, check_integer

__all__ = ["Watermark"]

_FEW: Final = 64  # so many dead integers are not worth a sweep


class Watermark:
    """A number that never goes back, and those who wait for it to reach a value.

    As an asynchronous context manager it closes itself.

    Args:
        initial: Where it stands at first.
        timer: For the timeouts; if not given, it makes its own and closes it.

    Raises:
        TypeError: ``initial`` is no integer, or ``timer`` no `Timer`.

    >>> import asyncio
    >>> async def main():
    ...     async with Watermark(41) as high:
    ...         asyncio.get_running_loop().call_soon(high.advance, 45)
    ...         return await high.reach(42, timeout=5)
    >>> asyncio.run(main())
    45
    """

    __slots__ = ("_failures", "_in_heap", "_purgatory", "_values", "value")

    value: int
    """Where it stands."""

    def __init__(self, initial: int = 0, *, timer: Timer | None = None) -> None:
        check_integer("initial", initial)
        self.value = initial
        self._purgatory = Purgatory("watermark", timer=timer)
        self._values: list[int] = []  # a heap; each value once
        self._in_heap: set[int] = set()
        self._failures = 0  # how often everybody has failed

    def __repr__(self) -> str:
        return f"<Watermark at {self.value} waiting={self.waiting}>"

    @property
    def waiting(self) -> int:
        """How many wait. O(1)."""
        return self._purgatory.pending

    @property
    def timer(self) -> Timer:
        """The timer that expires its waits."""
        return self._purgatory.timer

    async def reach(self, value: int, timeout: float | None = None) -> int:
        """Wait until the watermark stands at ``value`` or above.

        Args:
            value: The value to wait for.
            timeout: Seconds, as for any operation.

        Returns:
            Where it stood when the wait ended, at least ``value``; at once if it has got there already.

        Raises:
            OperationExpired: It had not got there in time.
            PurgatoryClosed: The watermark was closed.
            PurgatoryFull: ``timer`` has a ``max_pending``, and as many are pending.
            BaseException: What `fail_all` was given.
            TypeError, ValueError: ``value`` is no integer, ``timeout`` is none.

        Cancelling the waiting task takes it out at once. O(log n) with n values waited for.
        """
        check_integer("value", value)
        check_timeout(timeout)
        if value <= self.value:
            return self.value
        if value not in self._in_heap:
            heappush(self._values, value)
            self._in_heap.add(value)
        failures = self._failures
        try:
            reached: int = await self._purgatory.wait(value, timeout=timeout)
        except OperationExpired:
            if failures != self._failures:  # it may be what `fail_all` was given
                raise
            raise OperationExpired(
                f"the watermark did not reach {value} within {timeout} s; it stands at {self.value}"
            ) from None
        finally:
            self._sweep()
        return reached

    def advance(self, value: int) -> int:
        """Move the watermark up, and let go everybody whose value it has reached, lower values first.

        Args:
            value: Where it stands from now on.

        Returns:
            How many it let go.

        Raises:
            ValueError: It is below where the watermark stands.
            TypeError: It is no integer.

        O(k + log n) where k are let go; the others are not looked at.
        """
        check_integer("value", value)
        if value < self.value:
            raise ValueError(f"the watermark stands at {self.value} and never goes back, got {value}")
        released = 0
        while self._values and self._values[0] <= value:
            released += self._purgatory.complete_for_key(self._values[0], value)
            self._in_heap.remove(heappop(self._values))
        self.value = value
        return released

    def fail_all(self, exception: BaseException) -> int:
        """Let everybody go with an exception, as a leader does that has lost its office.

        Args:
            exception: What `reach` raises in each of them. The watermark itself goes on.

        Returns:
            How many it let go.

        Raises:
            TypeError: It is not an exception instance.
        """
        check_exception(exception)
        self._failures += 1
        released = 0
        while self._values:
            released += self._purgatory.fail_for_key(self._values[0], exception)
            self._in_heap.remove(heappop(self._values))
        return released

    def close(self) -> int:
        """Let everybody go with `PurgatoryClosed`, and let nobody wait any more; closing again does nothing.

        Returns:
            How many waited.
        """
        return len(self._purgatory.close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        self.close()

    def _sweep(self) -> None:
        """Drop the values that nobody waits for any more, once they outnumber those who wait. O(1) amortised."""
        if len(self._values) > 2 * self._purgatory.pending + _FEW:
            self._in_heap = {operation.keys[0] for operation in self._purgatory.operations()}
            self._values = list(self._in_heap)
            heapify(self._values)
