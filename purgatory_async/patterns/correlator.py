"""Replies to requests by their ids: the table in every RPC client, without its leaks.

A request id is a watch key, and the table is the purgatory. What ends a request (the reply, its timeout, the caller
who gave up, a lost connection) takes it out of the table at once, so there is nothing to clean up after a timeout
and nothing that a late reply could find.
"""

from collections.abc import Generator, Hashable
from types import TracebackType
from typing import Any, Generic, Self, TypeGuard, TypeVar

from purgatory_async import DelayedOperation, Purgatory
from purgatory_async.patterns._answer import answer
from purgatory_async.patterns._arguments import check_exception

__all__ = ["Correlator", "Reply"]

T = TypeVar("T")


class _Request(DelayedOperation[T]):
    """A request on its way. One whose caller was cancelled a moment ago takes no reply."""

    __slots__ = ("correlator",)

    def __init__(self, correlator: "Correlator[Any]", timeout: float | None) -> None:
        super().__init__(timeout)
        self.correlator = correlator

    def force_complete(self, result: T | None = None) -> bool:
        """End it with its reply, unless nobody is left to have it."""
        return not self._given_up() and super().force_complete(result)

    def fail(self, exception: BaseException) -> bool:
        """End it with an exception, unless nobody is left to have it."""
        return not self._given_up() and super().fail(exception)

    def _given_up(self) -> bool:
        return self.abandoned and self.cancel()


class Reply(Generic[T]):
    """The reply to one request, to be awaited; made by `Correlator.expect`.

    Awaiting it returns the value given to `Correlator.resolve`, or raises `OperationExpired`, `OperationCancelled`,
    `PurgatoryClosed`, or what was given to `Correlator.reject`, `Correlator.fail_all` or `Correlator.close`.
    Several tasks may await it: cancelling one leaves the others waiting, cancelling the last gives the request up.
    Awaited again, it answers the same. In a ``with`` block it is given up when the block is left before it came, as
    when sending the request failed.
    """

    __slots__ = ("_awaiting", "_id", "_request")

    def __init__(self, request_id: Hashable, request: _Request[T]) -> None:
        self._id = request_id
        self._request = request
        self._awaiting = 0

    def __repr__(self) -> str:
        return f"<Reply to {self._id!r} {self._request.outcome or 'expected'}>"

    def __await__(self) -> Generator[Any, None, T]:
        self._awaiting += 1
        try:
            yield from self._request.__await__()
        except BaseException:
            if self._awaiting == 1:
                self._request.cancel()
            raise
        finally:
            self._awaiting -= 1
        return answer(self._request, f"the reply to {self._id!r}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.cancel()

    def cancel(self) -> bool:
        """Give the request up, as when sending it failed; a reply that comes all the same is late.

        Returns:
            Whether it was still expected.
        """
        return self._request.cancel()


class Correlator(Generic[T]):
    """Brings replies to those who expect them, by request id.

    Args:
        purgatory: Keeps the requests; ids are its watch keys. Best one of its own.

    Raises:
        TypeError: It is no `Purgatory`.

    >>> import asyncio
    >>> async def main():
    ...     async with Purgatory("calls") as purgatory:
    ...         calls = Correlator(purgatory)
    ...         reply = calls.expect(7, timeout=5)  # before the request is sent, so no reply can be too early
    ...         assert calls.resolve(7, "pong")
    ...         print(await reply, calls.resolve(7, "pong again"), calls.late)
    >>> asyncio.run(main())
    pong False 1
    """

    __slots__ = ("_closed", "_purgatory", "late")

    late: int
    """Replies to no pending request: unknown, too late, doubled, or to a request given up."""

    def __init__(self, purgatory: Purgatory) -> None:
        if not isinstance(purgatory, Purgatory):
            raise TypeError(f"purgatory must be a Purgatory, got {purgatory!r}")
        self._purgatory = purgatory
        self._closed: tuple[BaseException, TracebackType | None] | None = None
        self.late = 0

    def __repr__(self) -> str:
        return f"<Correlator in {self._purgatory.name!r} late={self.late}>"

    def expect(self, request_id: Hashable, timeout: float | None) -> Reply[T]:
        """Expect the reply to a request; call it before the request is sent. O(1).

        Args:
            request_id: Any hashable but None that nothing else in the purgatory waits for at the moment.
            timeout: Seconds from now, as for any operation.

        Returns:
            The reply, to be awaited. If nobody awaits it, it expires by itself.

        Raises:
            ValueError: The id is taken, or None, or ``timeout`` is out of bounds.
            TypeError: The id is not hashable, or ``timeout`` is no number.
            PurgatoryFull, PurgatoryClosed, PurgatoryError: As `Purgatory.try_complete_else_watch`.
            BaseException: What `close` was given.
        """
        if self._closed is not None:
            exception, traceback = self._closed
            raise exception.with_traceback(traceback)  # or the traceback would grow with each call
        if request_id is None:
            raise ValueError("request_id must not be None; give each request an id of its own")
        if any(not each.abandoned for each in self._purgatory.operations(request_id)):
            raise ValueError(
                f"a reply to {request_id!r} is expected already; give each request an id of its own"
            )
        request: _Request[T] = _Request(self, timeout)
        self._purgatory.try_complete_else_watch(request, (request_id,))
        return Reply(request_id, request)

    def resolve(self, request_id: object, value: T) -> bool:
        """Bring a reply. O(1).

        Args:
            request_id: As it came; one that cannot be hashed is as unknown as any other.
            value: What awaiting the `Reply` returns.

        Returns:
            Whether the request was pending; False counts as `late`.
        """
        return self._counted(_hashable(request_id) and self._purgatory.complete_for_key(request_id, value))

    def reject(self, request_id: object, exception: BaseException) -> bool:
        """Bring an exception as the reply. O(1).

        Args:
            request_id: As for `resolve`.
            exception: What awaiting the `Reply` raises.

        Returns:
            Whether the request was pending; False counts as `late`.

        Raises:
            TypeError: It is not an exception instance.
        """
        check_exception(exception)
        return self._counted(_hashable(request_id) and self._purgatory.fail_for_key(request_id, exception))

    def fail_all(self, exception: BaseException) -> int:
        """Let every request fail, as when the connection is lost. O(operations in the purgatory).

        Later requests are expected as before; see `close`.

        Returns:
            How many were expected.

        Raises:
            TypeError: It is not an exception instance.
        """
        check_exception(exception)
        requests = [each for each in self._purgatory.operations() if isinstance(each, _Request)]
        return sum(each.fail(exception) for each in requests if each.correlator is self)

    def close(self, exception: BaseException) -> int:
        """Let every request fail, and every later one at once, as when the connection is lost for good.

        Closed again, it does nothing. The purgatory stays open. O(operations in the purgatory).

        Args:
            exception: What awaiting a pending `Reply` raises, and `expect` from now on.

        Returns:
            How many were expected.

        Raises:
            TypeError: It is not an exception instance.
        """
        check_exception(exception)
        if self._closed is not None:
            return 0
        self._closed = exception, exception.__traceback__
        return self.fail_all(exception)

    def _counted(self, had_it: int) -> bool:
        self.late += not had_it
        return had_it > 0


def _hashable(request_id: object) -> TypeGuard[Hashable]:
    """Whether a reply's id can be a key at all: what came over a wire may be a list."""
    try:
        hash(request_id)
    except TypeError:
        return False
    return True
