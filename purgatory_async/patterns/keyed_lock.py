"""A lock and a semaphore for each key, which keep nothing of a key that is not in use.

A dict of locks grows with every key there ever was; one that drops a lock when it is unlocked gives two tasks two
locks of one key, since a waiter that was woken has yet to lock it. Here a key has an entry while it is held, and its
waiters stand in line in the purgatory. A release hands the key to the oldest waiter before it returns, so no newcomer
gets between. A waiter cancelled in the same loop pass hands the key on.
"""

from collections.abc import Hashable
from contextlib import AbstractAsyncContextManager

from purgatory_async import (
    OperationCancelled,
    OperationExpired,
    Purgatory,
    PurgatoryClosed,
    PurgatoryError,
)
from purgatory_async.clock import check_timeout
from purgatory_async.errors import refuse_again
from purgatory_async.patterns._arguments import check_integer

__all__ = ["KeyedLock", "KeyedSemaphore"]


class _Line:
    """A key in use. It is the private watch key of those that wait for it."""

    __slots__ = ("free", "key")

    def __init__(self, key: Hashable, free: int) -> None:
        self.key = key
        self.free = free  # permits; of a lock one, which is taken as long as the line exists

    def __repr__(self) -> str:
        return f"a hold of {self.key!r}"


class _Keyed:
    """So many permits for each key, given in the order in which they were asked for."""

    __slots__ = ("__weakref__", "_lines", "_permits", "_purgatory")

    def __init__(self, purgatory: Purgatory, permits: int) -> None:
        refuse_again(self, "_purgatory")
        if not isinstance(purgatory, Purgatory):
            raise TypeError(f"purgatory must be a Purgatory, got {purgatory!r}")
        self._permits = check_integer("permits", permits, least=1)
        self._purgatory = purgatory
        self._lines: dict[Hashable, _Line] = {}

    def __repr__(self) -> str:
        waiting = sum(map(self.waiting, self._lines))
        return (
            f"<{type(self).__name__} in {self._purgatory.name!r} permits={self._permits} keys={len(self)} "
            f"waiting={waiting}>"
        )

    def __len__(self) -> int:
        """How many keys are held or waited for. O(1)."""
        return len(self._lines)

    def locked(self, key: Hashable) -> bool:
        """Whether acquiring ``key`` would wait. O(1)."""
        line = self._lines.get(key)
        return line is not None and not line.free

    def waiting(self, key: Hashable) -> int:
        """How many tasks wait for ``key``, without those cancelled in this loop pass. O(waiting)."""
        line = self._lines.get(key)
        return 0 if line is None else sum(not each.abandoned for each in self._purgatory.operations(line))

    def hold(self, key: Hashable, *, timeout: float | None = None) -> AbstractAsyncContextManager[None]:
        """Hold a key during an ``async with``: `acquire` before the block, `release` after it, in whatever way it ends.

        The block must not release the key itself: its end would release the hold of another task, or raise.

        Args:
            key: As for `acquire`, whose errors entering the block raises.
            timeout: Seconds to wait, from entering the block on.
        """
        return _Hold(self, key, timeout)

    async def acquire(self, key: Hashable, *, timeout: float | None = None) -> None:
        """Hold a key, once it is this task's turn; does not suspend if the key is free.

        Not reentrant: a task that holds the key waits as any other does. If the task is cancelled before this returns,
        it does not hold the key.

        Args:
            key: Any hashable; other keys are independent of it.
            timeout: Seconds to wait, as for any operation.

        Raises:
            OperationExpired: The key did not become free in time.
            PurgatoryClosed: The purgatory is closed, or closes meanwhile; or it is draining, and the key is not free.
            OperationCancelled: The wait was ended by its operation.
            PurgatoryFull, PurgatoryError, ValueError, TypeError: As `Purgatory.wait`.

        O(1).
        """
        timeout = check_timeout(timeout)
        line = self._lines.get(key)
        if self._purgatory.closed:
            raise PurgatoryClosed(f"{self._purgatory!r} is closed: cannot acquire {key!r}", keys=(key,))
        if line is None:
            self._lines[key] = _Line(key, self._permits - 1)
        elif line.free:
            line.free -= 1
        else:
            await self._wait(line, timeout)

    def release(self, key: Hashable) -> None:
        """End a hold of a key, and give it to the oldest waiter. Any task of the loop may. O(1), amortised.

        It works in a purgatory that is draining or closed, too.

        Raises:
            PurgatoryError: The key is not held. Or tasks wait for it, and the call comes from another loop or from
                inside a `try_complete` of the purgatory; it is held as before.
        """
        line = self._lines.get(key)
        if line is None:
            raise PurgatoryError(f"{key!r} is not held: cannot release it")
        line.free += 1
        try:
            if self._purgatory.pending:
                self._purgatory.check_and_complete(line, limit=1)
        except PurgatoryError:  # no waiter was asked
            line.free -= 1
            raise
        if line.free == self._permits:  # no waiter is left
            del self._lines[key]

    async def _wait(self, line: _Line, timeout: float | None) -> None:
        picked = False

        def pick() -> bool:
            """Take a free permit; only during a release there is one."""
            nonlocal picked
            if line.free:
                line.free -= 1
                picked = True
            return picked

        try:
            await self._purgatory.wait(line, until=pick, timeout=timeout)
        except (OperationExpired, OperationCancelled, PurgatoryClosed) as ended:
            ended.keys = (line.key,)
            raise
        except BaseException:
            if picked:
                self.release(line.key)
            raise
        if not picked:
            raise OperationCancelled(f"the wait for {line!r} was ended without one", keys=(line.key,))


class _Hold:
    """Holds a key in its block."""

    __slots__ = ("_holder", "_key", "_timeout")

    def __init__(self, holder: _Keyed, key: Hashable, timeout: float | None) -> None:
        self._holder = holder
        self._key = key
        self._timeout = timeout

    async def __aenter__(self) -> None:
        await self._holder.acquire(self._key, timeout=self._timeout)

    async def __aexit__(self, *raised: object) -> None:
        self._holder.release(self._key)


class KeyedLock(_Keyed):
    """A lock for each key: one task holds a key, the others wait for it in the order of their coming.

    A key that no task holds is forgotten at once. When the purgatory closes, waiters get `PurgatoryClosed`; a holder
    keeps its key, and may release it.

    Args:
        purgatory: Keeps the waiters, under private watch keys: other patterns may share it.

    Raises:
        TypeError: It is not a `Purgatory`.

    >>> import asyncio
    >>> async def main():
    ...     async with Purgatory("sessions") as purgatory:
    ...         lock = KeyedLock(purgatory)
    ...         async with lock.hold("session:7", timeout=5):
    ...             print(lock.locked("session:7"), lock.locked("session:8"), len(lock))
    ...         print(len(lock))
    >>> asyncio.run(main())
    True False 1
    0
    """

    __slots__ = ()

    def __init__(self, purgatory: Purgatory) -> None:
        super().__init__(purgatory, 1)


class KeyedSemaphore(_Keyed):
    """A semaphore for each key: so many tasks hold a key at once; else as `KeyedLock`.

    Args:
        purgatory: As for `KeyedLock`.
        permits: How many may hold a key.

    Raises:
        TypeError, ValueError: An argument has the wrong type or is out of bounds.

    >>> import asyncio
    >>> async def main():
    ...     async with Purgatory("hosts") as purgatory:
    ...         connections = KeyedSemaphore(purgatory, permits=2)
    ...         async with connections.hold("a.example"), connections.hold("a.example"):
    ...             print(connections)
    >>> asyncio.run(main())
    <KeyedSemaphore in 'hosts' permits=2 keys=1 waiting=0>
    """

    __slots__ = ()

    def __init__(self, purgatory: Purgatory, permits: int) -> None:
        super().__init__(purgatory, permits)
