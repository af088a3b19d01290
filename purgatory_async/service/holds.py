"""Held requests: each is a delayed operation of its own, in a purgatory of its own.

A hold watches what its client waits for: an operation (to end) or a key (to be signalled). It ends in one of
four ways, which are the library's outcomes: what it watches happened (completed), the wait is over (expired),
the client left (cancelled), the service drains (closed). So the end of a wait is never the end of an operation,
and one limit and one `close` cover every held request.
"""

import asyncio
from collections.abc import Callable
from typing import Final, final

from starlette.types import Receive

from purgatory_async import DelayedOperation, Outcome, Purgatory, PurgatoryClosed, PurgatoryFull, Timer
from purgatory_async.events import Event, KeySignalled, OperationEnded
from purgatory_async.service import problems


class ClientGone(Exception):  # noqa: N818 - an event, not a fault
    """The client of a held request closed its connection: there is nobody to answer."""


@final
class Hold(DelayedOperation[None]):
    """One held request; nothing completes it but what it watches."""

    __slots__ = ("gone",)

    def __init__(self, timeout: float | None) -> None:
        super().__init__(timeout)
        self.gone = False  # also when the client left in the pass in which the hold completed


class Holds:
    """All held requests; observes the purgatory of the operations.

    Args:
        timer: For the waits.
        limit: How many requests may be held.
        on_undelivered: Told when what a client waited for happened as it left.
    """

    def __init__(self, timer: Timer, limit: int, on_undelivered: Callable[[], None]) -> None:
        self._purgatory: Final = Purgatory("holds", timer=timer, max_pending=limit)
        self._limit: Final = limit
        self._on_undelivered: Final = on_undelivered

    def __repr__(self) -> str:
        return f"<Holds held={self.held} limit={self._limit}>"

    @property
    def held(self) -> int:
        """How many requests are held. O(1)."""
        return self._purgatory.pending

    def check_room(self) -> None:
        """Make sure that one more request can be held, before something is registered for it. O(1).

        Raises:
            Problem: ``overloaded`` or ``draining``.
        """
        if self._purgatory.closed:
            raise problems.draining()
        if self._purgatory.pending >= self._limit:
            raise problems.overloaded("requests", self._limit)

    async def until(self, watched: object, wait: float | None, receive: Receive) -> bool:
        """Hold a request until what it waits for happens.

        Args:
            watched: An operation that is pending, or a key.
            wait: Seconds; None for as long as it takes.
            receive: The request's; its body has been read.

        Returns:
            True if it happened, False if the wait is over.

        Raises:
            Problem: ``overloaded``, or ``draining`` (also while it is held).
            ClientGone: The client left; nothing is left of the hold.
        """
        hold = Hold(wait)
        try:
            self._purgatory.try_complete_else_watch(hold, (watched,))
        except PurgatoryFull:
            raise problems.overloaded("requests", self._limit) from None
        except PurgatoryClosed:
            raise problems.draining() from None
        listener = asyncio.get_running_loop().create_task(_listen(receive, hold))
        try:
            outcome = await hold
        finally:
            # The request's task may be cancelled too; either way nothing stays behind.
            hold.cancel()
            listener.cancel()
        if hold.gone:
            if outcome is Outcome.COMPLETED:
                self._on_undelivered()
            raise ClientGone
        if outcome is Outcome.CLOSED:
            raise problems.draining()
        return outcome is Outcome.COMPLETED

    def notify(self, event: Event) -> None:
        """Let the holds on an ended operation or a signalled key go on."""
        if isinstance(event, OperationEnded):
            self._purgatory.complete_for_key(event.operation)
        elif isinstance(event, KeySignalled):
            self._purgatory.complete_for_key(event.key)

    def close(self) -> int:
        """Let every held request go with ``draining``, and hold none from now on.

        Returns:
            How many were held.
        """
        return len(self._purgatory.close())


async def _listen(receive: Receive, hold: Hold) -> None:
    """Watch the connection while its request is held; what the client still sends is not looked at."""
    try:
        while (await receive())["type"] != "http.disconnect":
            pass
    except OSError:
        pass  # some servers say it this way
    hold.gone = True
    hold.cancel()
