"""Takers of this process: requests held for an item of a queue, each of which stands in line in the state."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from msgspec import UnsetType

from purgatory_async import PurgatoryFull, Timer
from purgatory_async.cluster.log import LogError
from purgatory_async.durable.fold.entries import LeaveLine, WantItem
from purgatory_async.durable.fold.leases import ItemLeased, Lease, TakerLeft
from purgatory_async.durable.fold.results import Nothing
from purgatory_async.durable.fold.shared import SECOND, Effect, microseconds
from purgatory_async.durable.state import State
from purgatory_async.service.contract.names import new_id
from purgatory_async.service.held.pacing import Pace
from purgatory_async.service.held.requests import HeldRequests
from purgatory_async.web.asgi import Receive

OF_TAKERS: Final = ItemLeased, TakerLeft
"""The effects that takers hear; most steps have none."""


class Takers:
    """The takers of this process.

    Args:
        state: Has their lines.
        timer: For the rest of a wait.
        pace: At which they complete.
        limit: The most takers at once.
        on_undelivered: Called when a taker's client left as it got an item, which went back.
        overdue: Seconds after a wait until the store is asked why it has not ended; None if the state cannot be away.
    """

    def __init__(
        self,
        state: State,
        timer: Timer,
        pace: Pace,
        limit: int,
        on_undelivered: Callable[[], None],
        *,
        overdue: float | None,
    ) -> None:
        self.held_requests: Final = HeldRequests("takers", timer, pace, limit, on_undelivered)
        self._state: Final = state
        self._timer: Final = timer
        self._overdue: Final = overdue
        self._leased: dict[str, list[Lease]] = {}  # to takers that have yet to wake
        self._left: dict[str, str] = {}  # and why others left the line

    def __repr__(self) -> str:
        return f"<Takers held={self.held_requests.count}>"

    async def take(
        self,
        queue: str,
        wait: float,
        lease: int | UnsetType,
        most: int,
        receive: Receive,
        *,
        owner: str | None = None,
    ) -> list[Lease]:
        """Lease the oldest items of a queue.

        Args:
            queue: Its checked name.
            wait: Seconds to stand in line; 0 for not at all.
            lease: Microseconds until the items go back; `UNSET` for as long as the queue says.
            most: The most items.
            receive: The request's; its body has been read.
            owner: Whose the leases are; None without tokens.

        Returns:
            The leases; none if the wait is over.

        Raises:
            Problem: ``overloaded``, ``draining`` (also while it waits) or ``gap``; ``unauthorized`` or ``forbidden`` if
                the tokens have changed; its items, if any, are back in their places.
            ClientLeft: The client left; its items, if any, are back in their places.
        """
        until = self._timer.time() + wait
        while True:
            order = WantItem(
                queue=queue,
                lease_id=new_id(),
                lease_us=lease,
                wait_us=microseconds(wait),
                max=most,
                owner=owner,
            )
            leased, why = await self._stand_in_line(order, receive)
            wait = until - self._timer.time()
            # After a long silence of this worker its takers have left their lines: they join again, at the end.
            if leased or why != "silent" or wait <= 0:
                return leased

    def hear(self, effect: Effect) -> None:
        """Wake the taker that an effect is about, if it is of this process. O(1)."""
        if isinstance(effect, ItemLeased):
            taker = effect.lease.taker
            if taker in self._leased:
                self._leased[taker].append(effect.lease)
            elif self.held_requests.happened(taker):
                self._leased[taker] = [effect.lease]
        elif isinstance(effect, TakerLeft) and self.held_requests.happened(effect.lease_id):
            self._left[effect.lease_id] = effect.why

    async def _stand_in_line(self, order: WantItem, receive: Receive) -> tuple[list[Lease], str | None]:
        """Return the leases, or none and why the taker left the line; None if it did not stand there."""
        asked = stands = False

        async def _stand() -> bool:
            nonlocal asked, stands
            asked = True
            stands = not isinstance((await self._state.propose(order)).result, Nothing)
            return stands

        try:
            overdue = None if self._overdue is None else order.wait_us / SECOND + self._overdue
            await self.held_requests.until(order.lease_id, overdue, receive, _stand)
            while stands and order.lease_id not in self._leased and order.lease_id not in self._left:
                await self._look_again(order.lease_id, receive)
        except BaseException:  # the client left, the service drains, or the request's task was cancelled
            if asked:
                with suppress(LogError, PurgatoryFull):  # then the item comes back when its lease ends
                    self._state.post(LeaveLine(lease_id=order.lease_id))
            raise
        finally:
            leased, why = self._leased.pop(order.lease_id, []), self._left.pop(order.lease_id, None)
        return leased, why

    async def _look_again(self, lease_id: str, receive: Receive) -> None:
        """Find what became of a taker, because the state was loaded again, or the wait should have ended."""
        await self._state.caught_up()
        queues = self._state.fold.queues
        if leased := list(queues.leases.of(lease_id)):
            self._leased[lease_id] = leased
        elif lease_id in queues.takers:
            await self.held_requests.until(lease_id, self._overdue, receive)
        else:
            self._left[lease_id] = "silent"
