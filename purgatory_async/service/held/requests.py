"""Held requests: each is a delayed operation, in a separate purgatory.

A held request watches an operation (until it ends), a key (until its next signal), what a follower of signals hears, or
a place in line at a queue (until it has an item). Its outcomes: that happened (completed), the wait is over (expired),
the client left (cancelled), the service drains (closed). So the end of a wait never ends an operation, and one limit
and one `close` cover all held requests.

Those that watch the same are completed a few at a time. Until its turn comes a held request can end otherwise, so a
request whose wait is over reads the state once more.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Any, Final, final

from purgatory_async import DelayedOperation, Outcome, Purgatory, PurgatoryClosed, PurgatoryFull, Timer
from purgatory_async.durable.fold.operations import Operation
from purgatory_async.events import Event, KeySignalled, OperationEnded
from purgatory_async.service.contract import problems
from purgatory_async.service.held.pacing import Pace
from purgatory_async.service.http.exchange import Exchange
from purgatory_async.service.visit import check_admission, forget_held, note_held
from purgatory_async.web.asgi import Receive
from purgatory_async.web.race import ClientLeft


@final
class HeldRequest(DelayedOperation[None]):
    """A held request."""

    __slots__ = ("gone", "lost")

    def __init__(self, timeout: float | None) -> None:
        super().__init__(timeout)
        self.gone = False  # also if the client left in the loop pass that completed it
        self.lost = False

    def leave(self) -> None:
        """End, because the client has left."""
        self.gone = True
        self.cancel()

    def release(self) -> None:
        """End early: its request may not go on."""
        self.force_complete(None)


class HeldRequests:
    """Held requests of one sort; those for operations and keys observe the operations.

    Args:
        name: The name of their purgatory.
        timer: For the waits.
        pace: At which those that watch the same complete.
        limit: The most requests held at once.
        on_undelivered: Called when one completes as its client leaves.

    Attributes:
        limit: The most requests held at once.
    """

    def __init__(
        self, name: str, timer: Timer, pace: Pace, limit: int, on_undelivered: Callable[[], None]
    ) -> None:
        self._purgatory: Final = Purgatory(name, timer=timer, max_pending=limit)
        self._pace: Final = pace
        self.limit: Final = limit
        self._on_undelivered: Final = on_undelivered

    def __repr__(self) -> str:
        return f"<HeldRequests {self._purgatory.name} held={self.count} limit={self.limit}>"

    @property
    def count(self) -> int:
        """How many requests are held. O(1)."""
        return self._purgatory.pending

    def check_limit(self) -> None:
        """Check that one more request can be held, before registering anything for it. O(1).

        Raises:
            Problem: ``overloaded`` or ``draining``.
        """
        if self._purgatory.closed:
            raise problems.draining()
        if self._purgatory.pending >= self.limit:
            raise problems.overloaded("requests", self.limit)

    async def until(
        self,
        watched: Hashable,
        wait: float | None,
        receive: Receive,
        begin: Callable[[], Awaitable[bool]] | None = None,
    ) -> bool:
        """Hold a request until what it watches happens.

        Args:
            watched: A key, `end_of` a pending operation, or what `happened` is called with.
            wait: Seconds; None for no limit.
            receive: The request's; its body has been read.
            begin: Awaited first, when the request is watched for already; False if there is nothing to wait for.

        Returns:
            True if it happened, False if the wait is over.

        Raises:
            Problem: ``overloaded``, ``draining`` (also while held) or ``gap``; ``unauthorized`` or ``forbidden`` if
                the tokens have changed.
            ClientLeft: The client left; the held request is cancelled.
        """
        check_admission()
        request = HeldRequest(wait)
        try:
            self._purgatory.try_complete_else_watch(request, (watched,))
        except PurgatoryFull:
            raise problems.overloaded("requests", self.limit) from None
        except PurgatoryClosed:
            raise problems.draining() from None
        unwatch = _watch_client(receive, request)
        note_held(request)
        try:
            if begin is not None and not await begin():
                return False
            outcome = await request
        finally:
            # Also when the request's task is cancelled.
            request.cancel()
            unwatch()
            forget_held(request)
        if request.gone:
            if outcome is Outcome.COMPLETED:
                self._on_undelivered()
            raise ClientLeft
        check_admission()
        if request.lost:
            raise problems.gap()
        if outcome is Outcome.CLOSED:
            raise problems.draining()
        return outcome is Outcome.COMPLETED

    def notify(self, event: Event) -> None:
        """Complete the requests held for an ended operation or a signalled key."""
        if not self._purgatory.pending:
            return  # what ends most often has none
        if isinstance(event, OperationEnded):
            self.happened(end_of(event.operation))
        elif isinstance(event, KeySignalled):
            self.happened(event.key)

    def happened(self, watched: Hashable) -> bool:
        """Complete the requests held for something, the oldest first; return whether there are any. O(requests)."""
        requests = list(self._purgatory.operations(watched))
        if len(requests) == 1:
            return requests[0].force_complete()
        if requests:
            self._pace.complete(requests)
        return bool(requests)

    def each_happened(self, watched: Iterable[Hashable]) -> None:
        """Complete the requests held for several things, in this order; looks for them when their turn comes."""
        self._pace.complete(request for each in watched for request in self._purgatory.operations(each))

    def look_again(self, *, lost: bool) -> None:
        """Complete all, because the state was loaded again; with ``lost`` it is another history. O(held requests)."""
        for request in list(self._purgatory.operations()):
            assert isinstance(request, HeldRequest), "only requests are held"
            request.lost = lost
            request.force_complete(None)

    def close(self) -> int:
        """End every held request with ``draining``, refuse new ones; return how many were held."""
        return len(self._purgatory.close())


def end_of(operation: DelayedOperation[Any]) -> Hashable:
    """Return what requests held for an operation watch: its id in a tuple, as keys are text; or a one-shot wait."""
    return (operation.id,) if isinstance(operation, Operation) else operation


def _watch_client(receive: Receive, request: HeldRequest) -> Callable[[], object]:
    """Cancel a held request when its client disconnects; return what ends that.

    Under the service's own server that is a call; a task each would add a seventh to the memory of a held request.
    """
    exchange = getattr(receive, "__self__", None)
    if isinstance(exchange, Exchange) and exchange.watch(request.leave):
        return exchange.unwatch
    return asyncio.get_running_loop().create_task(_listen(receive, request)).cancel


async def _listen(receive: Receive, request: HeldRequest) -> None:
    """Cancel a held request when its client disconnects; ignore other messages."""
    try:
        while (await receive())["type"] != "http.disconnect":
            pass
    except OSError:
        pass  # some servers raise on a disconnect
    request.leave()
