"""Queues and leases: one taker gets an item on loan, and the item returns unless the taker acknowledges it.

A queue is the library's `HandOff`: if a taker's client leaves in the loop pass that gives it an item, the item goes
back. A lease is a delayed operation: an acknowledgement completes it, a return cancels it, and its expiration puts the
item in front of its queue. So an item lost on the wire comes back.
"""

import secrets
from collections.abc import Callable
from typing import Final, cast, final

from msgspec import Raw
from starlette.types import Receive

from purgatory_async import (
    DelayedOperation,
    OperationExpired,
    Purgatory,
    PurgatoryClosed,
    PurgatoryFull,
    Timer,
)
from purgatory_async.patterns import HandOff
from purgatory_async.service import problems
from purgatory_async.web._asgi import listening
from purgatory_async.web._race import Race

__all__ = ["LEASE", "Lease", "Queues"]

LEASE: Final = 30.0
"""The default duration of a lease, in seconds."""

_ID_BYTES: Final = 16


@final
class Lease(DelayedOperation[None]):
    """An item of a queue, on loan for some seconds."""

    __slots__ = ("_queues", "id", "item", "queue")

    def __init__(self, queues: "Queues", queue: str, item: Raw, seconds: float) -> None:
        super().__init__(seconds)
        self._queues = queues
        self.queue = queue
        self.item = item
        self.id = secrets.token_urlsafe(_ID_BYTES)

    def on_expiration(self) -> None:
        """Put the item back."""
        self._queues.ended(self, put_back=True)


class Queues:
    """All queues of the service, and the leases on their items.

    Args:
        max_items: The most items, kept or on loan, over all queues.
        max_takers: The most waiting takers.
        retention: Seconds for which the id of an ended lease is remembered.
        on_undelivered: Called when a taker's client left as it got an item, which went back.
    """

    def __init__(
        self,
        timer: Timer,
        *,
        max_items: int,
        max_takers: int,
        retention: float,
        on_undelivered: Callable[[], None],
    ) -> None:
        self._timer: Final = timer
        self._takers: Final = Purgatory("takers", timer=timer, max_pending=max_takers)
        self._hand_off: Final[HandOff[str, Raw]] = HandOff(self._takers)
        self._on_loan: Final = Purgatory("leases", timer=timer)
        self._leases: dict[str, Lease] = {}
        self._ended: set[str] = set()
        self._max_items = max_items
        self._max_takers = max_takers
        self._retention = retention
        self._on_undelivered = on_undelivered
        self._returned = 0  # how many of the hand-off's returns were reported

    def __repr__(self) -> str:
        return f"<Queues items={self.items} leases={self.leases} takers={self.takers}>"

    @property
    def items(self) -> int:
        """How many items are kept. O(1)."""
        return len(self._hand_off)

    @property
    def leases(self) -> int:
        """How many items are on loan. O(1)."""
        return len(self._leases)

    @property
    def takers(self) -> int:
        """How many requests wait for an item. O(1)."""
        return self._takers.pending

    def put(self, queue: str, item: Raw) -> bool:
        """Give an item to the queue's oldest taker, or keep it. O(log items of the queue).

        Returns:
            Whether a taker got it.

        Raises:
            Problem: ``overloaded`` or ``draining``.
        """
        if self.items + self.leases >= self._max_items:
            raise problems.overloaded("items", self._max_items)
        try:
            return self._hand_off.put(queue, item)
        except PurgatoryClosed:
            raise problems.draining() from None

    async def take(self, queue: str, wait: float, lease: float, receive: Receive) -> Lease | None:
        """Take the oldest item of a queue on loan.

        Args:
            queue: Its checked name.
            wait: Seconds to wait for an item; 0 for none.
            lease: Seconds until the item goes back.
            receive: The request's; its body has been read.

        Returns:
            The lease; None if the wait is over.

        Raises:
            Problem: ``overloaded``, or ``draining`` (also while it waits).
            ClientLeft: The client left; its item, if any, is back in its place.
        """
        race = Race()
        try:
            with listening(receive, race):
                taken = await race.run(self._hand_off.take, (queue,), wait)
        except OperationExpired:
            return None
        except PurgatoryFull:
            raise problems.overloaded("requests", self._max_takers) from None
        except PurgatoryClosed:
            raise problems.draining() from None
        finally:
            while self._returned < self._hand_off.returned:
                self._returned += 1
                self._on_undelivered()
        _, item = cast("tuple[str, Raw]", taken)
        return self._lend(queue, item, lease)

    def acknowledge(self, lease_id: str) -> None:
        """Complete a lease and drop its item. O(1).

        Raises:
            Problem: ``lease-expired`` or ``unknown-lease``.
        """
        lease = self._find(lease_id)
        lease.force_complete()
        self.ended(lease, put_back=False)

    def give_back(self, lease_id: str) -> None:
        """Cancel a lease: its item goes to the oldest taker, or in front of its queue. O(log items of the queue).

        Raises:
            Problem: ``lease-expired`` or ``unknown-lease``.
        """
        lease = self._find(lease_id)
        lease.cancel()
        self.ended(lease, put_back=True)

    def ended(self, lease: Lease, *, put_back: bool) -> None:
        """Forget a lease that has ended, and put its item back if asked."""
        del self._leases[lease.id]
        self._ended.add(lease.id)
        self._timer.call_later(self._retention, self._ended.discard, lease.id)
        if put_back:
            self._hand_off.put_back(lease.queue, lease.item)

    def drain(self) -> int:
        """End every taker with ``draining`` and refuse new items; leases go on. Idempotent.

        Returns:
            How many takers waited.
        """
        return len(self._takers.close())

    def close(self) -> None:
        """Drain, and close all leases. Idempotent."""
        self.drain()
        self._on_loan.close()

    def _lend(self, queue: str, item: Raw, seconds: float) -> Lease:
        lease = Lease(self, queue, item, seconds)
        self._on_loan.try_complete_else_watch(lease, (queue,))
        self._leases[lease.id] = lease
        return lease

    def _find(self, lease_id: str) -> Lease:
        lease = self._leases.get(lease_id)
        if lease is not None and lease.outcome is None:
            return lease
        if lease is not None or lease_id in self._ended:
            raise problems.lease_expired(lease_id)
        raise problems.unknown_lease(lease_id)
