"""Takers of this process: each waits for items of a queue, and stands in line in the state."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, Generic, NamedTuple

from msgspec.structs import replace

from purgatory_async import PurgatoryFull, Timer
from purgatory_async.cluster.log import LogError
from purgatory_async.durable.documents import problems
from purgatory_async.durable.documents.names import new_id
from purgatory_async.durable.fold.entries import LeaveLine, WantItem
from purgatory_async.durable.fold.leases import ItemLeased, Lease, LeasesShared, TakerLeft
from purgatory_async.durable.fold.results import Nothing, Refused
from purgatory_async.durable.fold.shared import SECOND, Effect, microseconds
from purgatory_async.durable.later import at_last
from purgatory_async.durable.state import Answer, State
from purgatory_async.durable.waiting.waiters import G, Waiters

OF_TAKERS: Final = ItemLeased, LeasesShared, TakerLeft
"""The effects that takers hear; most steps have none."""


class Taken(NamedTuple):
    """What a taker gets: leases, none if its wait is over; ``replayed`` if an earlier one with its key took them."""

    leases: list[Lease]
    replayed: bool = False


class Takers(Generic[G]):
    """The takers of this process.

    Args:
        state: Has their lines.
        timer: For the rest of a wait.
        waiters: Hold them.
        overdue: Seconds after a wait until the store is asked why it has not ended; None if the state cannot be away.
        catch_up: Called with the end of a wait to catch up with what was answered anywhere; None not to outlast the
            absence of the store.
    """

    def __init__(
        self,
        state: State,
        timer: Timer,
        waiters: Waiters[G],
        *,
        overdue: float | None,
        catch_up: Callable[[float], Awaitable[None]] | None = None,
    ) -> None:
        self.waiters: Final = waiters
        self._state: Final = state
        self._timer: Final = timer
        self._overdue: Final = overdue
        self._patiently: Final = catch_up
        self._leased: dict[str, list[Lease]] = {}  # to takers that have yet to wake
        self._left: dict[str, str] = {}  # and why others left the line
        self._standing = 0
        self._gone: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<Takers held={self.waiters.count}>"

    async def take(self, by: G, order: WantItem) -> Taken:
        """Lease the oldest items of a queue, once there are some.

        Args:
            by: Who takes.
            order: What it asks for; it gets an id.

        Raises:
            Problem: ``overloaded``, ``draining`` (also while it waits) or ``gap``; its items, if any, are back in their
                places. ``idempotency-mismatch``.
        """
        self.waiters.check_limit()
        order.lease_id = new_id()
        return await self._take(by, order, None)

    async def _take(self, by: G, order: WantItem, answer: Coroutine[Any, Any, Answer] | None) -> Taken:
        until = self._timer.time() + order.wait_us / SECOND
        while True:
            leased, why = await self._stand_in_line(by, order, answer, until)
            wait = until - self._timer.time()
            # After a long silence of this worker its takers have left their lines: they join again, at the end.
            if leased or why != "silent" or wait <= 0:
                return taken_by(leased, order)
            # A new entry: the one before belongs to the log.
            order = replace(order, lease_id=new_id(), wait_us=microseconds(wait), writer=None, number=0)
            answer = None

    def hear(self, effect: Effect) -> None:
        """Wake the taker that an effect is about, if it is of this process. O(1)."""
        if isinstance(effect, ItemLeased):
            taker = effect.lease.taker
            if taker in self._leased:
                self._leased[taker].append(effect.lease)
            elif self.waiters.happened(taker):
                self._leased[taker] = [effect.lease]
        elif isinstance(effect, LeasesShared):
            if self.waiters.happened(effect.lease_id):
                self._leased[effect.lease_id] = list(effect.leases)
        elif isinstance(effect, TakerLeft) and self.waiters.happened(effect.lease_id):
            self._left[effect.lease_id] = effect.why

    async def _stand_in_line(
        self, by: G, order: WantItem, answer: Coroutine[Any, Any, Answer] | None, until: float
    ) -> tuple[list[Lease], str | None]:
        """Return the leases, or none and why the taker left the line; None if it did not stand there."""
        asked = stands = False
        self._standing += 1

        async def _stand() -> bool:
            nonlocal asked, stands
            asked = True
            given = await (answer or at_last(self._state.propose(order, by)))
            asked = not isinstance(given.result, Refused)
            if leases := leases_in(given, order):
                self._leased.setdefault(order.lease_id, leases)
                return False
            stands = not isinstance(given.result, Nothing)
            return stands

        try:
            overdue = None if self._overdue is None else order.wait_us / SECOND + self._overdue
            await self.waiters.until(by, order.lease_id, overdue, _stand)
            while stands and order.lease_id not in self._leased and order.lease_id not in self._left:
                await self._look_again(order.lease_id, by, until)
        except BaseException:  # the client left, the service drains, or the request's task was cancelled
            if asked:
                self._leave(order)
            elif answer is not None:
                answer.close()
            raise
        finally:
            woken = self._woken(order)
            self._standing -= 1
            if self._gone is not None and not self._standing:
                self._gone.set_result(None)
        return woken

    async def gone(self) -> None:
        """Return once none stands in line, after all were ended."""
        if self._standing:
            self._gone = asyncio.get_running_loop().create_future()
            await self._gone

    def _leave(self, order: WantItem, _: Exception | None = None) -> None:
        """Leave the line; what was leased goes back."""
        self._woken(order)
        with suppress(LogError, PurgatoryFull):  # then the item comes back when its lease ends
            self._state.post(LeaveLine(lease_id=order.lease_id))

    def _woken(self, order: WantItem) -> tuple[list[Lease], str | None]:
        """Return what a taker was leased while it slept, and why it left the line."""
        return self._leased.pop(order.lease_id, []), self._left.pop(order.lease_id, None)

    async def _look_again(self, lease_id: str, by: G, until: float) -> None:
        """Look what became of a taker, because the state was loaded again, or the wait should have ended."""
        await (self._state.caught_up() if self._patiently is None else self._patiently(until))
        queues = self._state.fold.queues
        if leased := list(queues.leases.of(lease_id)):
            self._leased[lease_id] = leased
        elif lease_id in queues.takers:
            await self.waiters.until(by, lease_id, self._overdue)
        else:
            self._left[lease_id] = "silent"


def leases_in(answer: Answer, order: WantItem) -> list[Lease]:
    """Return the leases that a taker has at once; raise why it was refused."""
    if isinstance(answer.result, Refused):
        raise problems.idempotency_mismatch(str(order.idem))
    leases = list[Lease]()
    for each in answer.effects:
        if isinstance(each, ItemLeased) and each.lease.taker == order.lease_id:
            leases.append(each.lease)
        elif isinstance(each, LeasesShared) and each.lease_id == order.lease_id:
            leases += each.leases
    return leases


def taken_by(leases: list[Lease], order: WantItem) -> Taken:
    """Return what a taker has: leases that another taker has were replayed. O(1)."""
    return Taken(leases, bool(leases) and leases[0].taker != order.lease_id)
