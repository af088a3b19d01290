"""Match replies to requests by id: the table in every RPC client, without its leaks.

A request id is a watch key, and the table is the purgatory. A request leaves the table once it ends: by its
reply, its timeout, a cancelled caller or a lost connection. A timeout needs no clean-up; a late reply finds nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Hashable
from contextlib import suppress
from inspect import isawaitable
from operator import index
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeGuard, TypeVar, cast

from purgatory_async import DelayedOperation, Outcome, Purgatory, PurgatoryFull
from purgatory_async.errors import check_exception, refuse_again
from purgatory_async.patterns._arguments import result_of

__all__ = ["Correlator", "Reply"]

T = TypeVar("T")

_REMEMBERED: Final = 4096  # ids, so that a late reply differs from one to an id that was never expected


class _Request(DelayedOperation[T]):
    """A pending request. It takes no reply once its caller is cancelled."""

    __slots__ = ("block", "correlator", "early", "lost", "sending")

    def __init__(self, correlator: "Correlator[Any]", timeout: float | None, *, sending: bool) -> None:
        super().__init__(timeout)
        self.correlator = correlator
        self.block: Reply[T] | None = None  # entered, and not left
        self.lost = False  # no reply can come any more
        self.sending = sending  # a reply waits for `sent`, and the deadline goes on
        self.early: tuple[T | None, BaseException | None] | None = None  # the reply that waits

    def sent(self) -> None:
        """End it with the reply that came while it was sent, if any did."""
        self.sending = False
        early, self.early = self.early, None
        if early is not None:
            result, exception = early
            if exception is None:
                self.force_complete(result)
            else:
                self.fail(exception)
            del exception  # the traceback refers to this frame: no cycle through it

    def lose(self, exception: BaseException) -> bool:
        """Fail it as no reply can come any more; False if it had ended."""
        failed = not self._given_up() and super().fail(exception)
        if failed:
            self._interrupt()
        return failed

    def on_expiration(self) -> None:
        """Interrupt the block."""
        self._interrupt()

    def _interrupt(self) -> None:
        self.lost = True
        if self.block is not None:
            self.block.interrupt()

    def force_complete(self, result: T | None = None) -> bool:
        """Take its reply, unless its caller is cancelled."""
        if self.sending:
            return self._keep(result, None)
        return not self._given_up() and super().force_complete(result)

    def fail(self, exception: BaseException) -> bool:
        """Take an exception as its reply, unless its caller is cancelled."""
        if self.sending:
            return self._keep(None, exception)
        return not self._given_up() and super().fail(exception)

    def _keep(self, result: T | None, exception: BaseException | None) -> bool:
        """Keep a reply until `sent`; False if there is one."""
        if self.early is not None:
            return False
        self.early = result, exception
        return True

    def _given_up(self) -> bool:
        return self.abandoned and self.cancel()


class Reply(Generic[T]):
    """The awaitable reply to one request; made by `Correlator.expect`.

    Awaiting it returns the value given to `Correlator.resolve`, or raises `OperationExpired`, `OperationCancelled`,
    `PurgatoryClosed`, or the exception given to `Correlator.reject`, `Correlator.fail_all` or `Correlator.close`.
    Awaiting it again does the same. Several tasks may await it: cancelling the last of them cancels the request.

    As a context manager it cancels a request still pending at the end of the block, as when sending it failed. Its
    deadline, `Correlator.fail_all` and `Correlator.close` interrupt the block, as `asyncio.timeout` does: the task in
    it is cancelled, and the block raises what awaiting the reply would. A block in which a task awaits the reply is
    not interrupted, since that raises there; nor is one whose reply has come.
    """

    __slots__ = ("__weakref__", "_awaiting", "_cancelled", "_cancelling", "_id", "_request", "_task")

    def __init__(self, request_id: Hashable, request: _Request[T]) -> None:
        refuse_again(self, "_request")
        self._id = request_id
        self._request = request
        self._awaiting = 0
        self._task: asyncio.Task[Any] | None = None  # in the block
        self._cancelling = 0  # requests to cancel it before
        self._cancelled = False  # by `interrupt`

    def __repr__(self) -> str:
        return f"<Reply to {self._id!r} {self._request.outcome or 'expected'}>"

    def __await__(self) -> Generator[Any, None, T]:
        self._awaiting += 1
        try:
            yield from self._request.__await__()
        except BaseException:
            if self._awaiting == 1:
                self._request.cancel()
            self._awaiting -= 1
            del self  # the traceback refers to this frame: no cycle through it
            raise
        self._awaiting -= 1
        if self._request.outcome is Outcome.COMPLETED:  # without the words of an error (bench.patterns)
            return cast("T", self._request.result)
        return result_of(self._request, f"the reply to {self._id!r}", self._id)

    def __enter__(self) -> Self:
        self._task = _current_task()
        if self._task is not None:
            # A cancellation that has yet to reach the task will reach the block: it is none from before.
            self._cancelling = self._task.cancelling() - getattr(self._task, "_must_cancel", False)
            self._request.block = self
            if self._request.lost:
                self.interrupt()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cancel()
        task, self._task = self._task, None
        self._request.block = None
        cancelled, self._cancelled = self._cancelled, False
        # As `asyncio.timeout` does: take this cancellation back; any other request to cancel goes on.
        if (
            cancelled
            and task is not None
            and task.uncancel() <= self._cancelling
            and isinstance(exception, asyncio.CancelledError)
        ):
            try:
                self._raise_ending()
            finally:
                del (
                    self,
                    exception,
                    task,
                    traceback,
                )  # the traceback refers to this frame: no cycle through it

    def interrupt(self) -> None:
        """Cancel the task in the block, unless the reply is awaited there; for the correlator."""
        task = self._task
        if task is None or self._awaiting or self._cancelled:
            return
        if _current_task() is not None:  # in it, or in what it has called, it may still await the reply
            task.get_loop().call_soon(self.interrupt)
        else:
            self._cancelled = task.cancel()

    def _raise_ending(self) -> None:
        """Raise as the ended request did."""
        try:
            with suppress(StopIteration):
                next(self._request.__await__())
            result_of(self._request, f"the reply to {self._id!r}", self._id)
        finally:
            del self  # as in `report`

    def cancel(self) -> bool:
        """Cancel the request, as when sending it failed; a reply that still comes counts as late.

        Returns:
            Whether it was pending.
        """
        return self._request.cancel()

    def reschedule(self, timeout: float | None) -> bool:
        """Move the deadline, as when the peer reports progress; as `DelayedOperation.reschedule`. O(1).

        Returns:
            Whether the request is pending; otherwise nothing changes.
        """
        return self._request.reschedule(timeout)


class Correlator(Generic[T]):
    """Delivers replies to pending requests by id.

    Args:
        purgatory: Keeps the requests; ids are its watch keys. Give it a purgatory of its own.
        ids: What `request` numbers requests with, in turn: as many as the protocol has.

    Raises:
        TypeError: ``purgatory`` is not a `Purgatory`, or ``ids`` is not a range.
        ValueError: ``ids`` is empty.

    >>> import asyncio
    >>> async def main():
    ...     async with Purgatory("calls") as purgatory:
    ...         calls = Correlator(purgatory, ids=range(256))
    ...         async def send(number):  # to a peer that answers at once
    ...             assert calls.resolve(number, f"pong {number}")
    ...         print(await calls.request(send, timeout=5), await calls.request(send, timeout=5))
    ...         print(calls.resolve(1, "again"), calls.resolve(2, "what?"), calls.late, calls.unknown)
    >>> asyncio.run(main())
    pong 0 pong 1
    False False 2 1
    """

    __slots__ = (
        "__weakref__",
        "_closed",
        "_count",
        "_expected",
        "_ids",
        "_purgatory",
        "_turn",
        "late",
        "unknown",
    )

    late: int
    """How many replies matched no pending request: unknown, late, duplicate or to a cancelled request."""
    unknown: int
    """How many of these had an id that was never expected: `request` has not issued it yet, nor is it among the
    newest 4 096 ids given to `expect`."""

    def __init__(self, purgatory: Purgatory, *, ids: range = range(1, 2**31)) -> None:
        refuse_again(self, "_purgatory")
        if not isinstance(purgatory, Purgatory):
            raise TypeError(f"purgatory must be a Purgatory, got {purgatory!r}")
        if not isinstance(ids, range):
            raise TypeError(f"ids must be a range, got {ids!r}")
        if not ids:
            raise ValueError(f"ids must not be empty, got {ids!r}")
        self._purgatory = purgatory
        self._ids = ids
        self._count = ids.index(ids[-1]) + 1  # `len` refuses 64 bits of them
        self._turn = 0  # ids issued or passed over, over all rounds
        self._closed: tuple[BaseException, TracebackType | None] | None = None
        self._expected: dict[Hashable, None] = {}  # the newest ids, the oldest first
        self.late = 0
        self.unknown = 0

    def __repr__(self) -> str:
        return f"<Correlator in {self._purgatory.name!r} late={self.late} unknown={self.unknown}>"

    def expect(self, request_id: Hashable, timeout: float | None) -> Reply[T]:
        """Expect the reply to a request; call it before the request is sent. O(1).

        Args:
            request_id: Any hashable but None that no other operation in the purgatory waits for.
            timeout: Seconds from now, as for any operation.

        Returns:
            The awaitable reply. It expires also if no task awaits it.

        Raises:
            ValueError: The id is taken or None, or ``timeout`` is out of bounds.
            TypeError: The id is not hashable, or ``timeout`` is not a number.
            PurgatoryFull, PurgatoryClosed, PurgatoryError: As `Purgatory.try_complete_else_watch`.
            BaseException: The exception given to `close`.
        """
        self._refuse_if_closed()
        if request_id is None:
            raise ValueError("request_id must not be None; give each request an id of its own")
        if self._is_taken(request_id):
            raise ValueError(
                f"a reply to {request_id!r} is expected already; give each request an id of its own"
            )
        request: _Request[T] = _Request(self, timeout, sending=False)
        self._purgatory.try_complete_else_watch(request, (request_id,))
        expected = self._expected
        expected.pop(request_id, None)
        expected[request_id] = None
        if len(expected) > _REMEMBERED:
            del expected[next(iter(expected))]
        return Reply(request_id, request)

    async def request(self, send: Callable[[int], Awaitable[object]], *, timeout: float | None) -> T:
        """Send a request and wait for its reply; one deadline is over both.

        The deadline, `fail_all` and `close` interrupt ``send``, as they do the block of a `Reply`. A reply that comes
        while ``send`` runs waits for its end. Close this before its purgatory, whose end interrupts no ``send``.

        Args:
            send: An async function that sends the request under the id it is given: the next of ``ids`` in turn, after
                the last again the first, that no operation in the purgatory waits for. What it raises ends the request.
            timeout: Seconds from now, as for any operation.

        Returns:
            The reply.

        Raises:
            PurgatoryFull: No id is free, or as `expect`; ``send`` is not called.
            OperationExpired, OperationCancelled: As awaiting a `Reply`.
            PurgatoryClosed, PurgatoryError, ValueError, TypeError: As `expect`.
            BaseException: What ``send`` raised, or the exception given to `reject`, `fail_all` or `close`.

        O(1 + ids in turn that are taken).
        """
        if not callable(send):
            raise TypeError(f"send must be callable, got {send!r}")
        self._refuse_if_closed()
        turn = self._next_turn()
        request_id = self._ids[turn % self._count]
        request: _Request[T] = _Request(self, timeout, sending=True)
        self._purgatory.try_complete_else_watch(request, (request_id,))
        self._turn = turn + 1
        reply = Reply(request_id, request)
        try:
            with reply:
                sending: object = send(request_id)
                if not isawaitable(sending):
                    raise TypeError(f"send must be an async function, but {send!r} returned {sending!r}")
                await sending
                request.sent()
                return await reply
        finally:
            del self, request, reply  # a failure's traceback refers to this frame: no cycle through it

    def resolve(self, request_id: object, value: T) -> bool:
        """Deliver a reply. O(1).

        Args:
            request_id: As received; an unhashable one counts as unknown.
            value: What awaiting the `Reply` returns.

        Returns:
            Whether the request was pending; False counts as `late`, and as `unknown` if it was never expected.
        """
        had_it = _hashable(request_id) and self._purgatory.complete_for_key(request_id, value)
        return self._counted(request_id, had_it)

    def reject(self, request_id: object, exception: BaseException) -> bool:
        """Deliver an exception as the reply, else like `resolve`. O(1).

        Raises:
            TypeError: ``exception`` is not an exception instance.
        """
        check_exception(exception)
        had_it = _hashable(request_id) and self._purgatory.fail_for_key(request_id, exception)
        return self._counted(request_id, had_it)

    def fail_all(self, exception: BaseException) -> int:
        """Fail every pending request, as when the connection is lost. O(operations in the purgatory).

        Later requests are expected as before; see `close`. All callers raise the same object; its traceback shows the
        one that raised last.

        Returns:
            How many were pending.

        Raises:
            TypeError: ``exception`` is not an exception instance.
        """
        check_exception(exception)
        requests = [each for each in self._purgatory.operations() if isinstance(each, _Request)]
        return sum(each.lose(exception) for each in requests if each.correlator is self)

    def close(self, exception: BaseException) -> int:
        """Fail every pending request, and let every later `expect` raise, as when the connection is lost for good.

        Closing again does nothing. The purgatory stays open. All callers raise the same object, as in `fail_all`.
        O(operations in the purgatory).

        Returns:
            How many were pending.

        Raises:
            TypeError: ``exception`` is not an exception instance.
        """
        check_exception(exception)
        if self._closed is not None:
            return 0
        self._closed = exception, exception.__traceback__
        return self.fail_all(exception)

    def _refuse_if_closed(self) -> None:
        if self._closed is not None:
            exception, traceback = self._closed
            raise exception.with_traceback(traceback)  # else the traceback grows with each call

    def _is_taken(self, request_id: Hashable) -> bool:
        for each in self._purgatory.operations(request_id):  # noqa: SIM110 - a generator doubles the cost (bench.patterns)
            if not each.abandoned:
                return True
        return False

    def _next_turn(self) -> int:
        """The turn of the next free id."""
        for turn in range(self._turn, self._turn + self._count):
            if not self._is_taken(self._ids[turn % self._count]):
                return turn
        raise PurgatoryFull(
            f"all {self._count} ids are taken: cannot send a request; retry when some have ended",
            limit=self._count,
        )

    def _counted(self, request_id: object, had_it: int) -> bool:
        if not had_it:
            self.late += 1
            self.unknown += not (
                _hashable(request_id) and (request_id in self._expected or self._was_issued(request_id))
            )
        return had_it > 0

    def _was_issued(self, request_id: Hashable) -> bool:
        """Whether `request` has issued an id; they are issued in turn, so that their number suffices."""
        try:
            number = index(request_id)  # type: ignore[arg-type]  # it raises
        except TypeError:
            return False
        return number in self._ids and self._ids.index(number) < self._turn


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop is running
        return None


def _hashable(request_id: object) -> TypeGuard[Hashable]:
    """Whether a received id can be a key: it may be a list."""
    try:
        hash(request_id)
    except TypeError:
        return False
    return True
