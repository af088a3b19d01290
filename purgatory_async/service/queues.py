"""Queues and leases: an item goes to one taker, on loan, and comes back unless the taker says that it is done.

The queue is the library's `HandOff`: a taker whose client leaves in the very loop pass in which it got its item puts
it back. From then on a lease has the item, which is a delayed operation: acknowledged it is completed, returned it is
cancelled, and when its time is up its item is in front of its queue again. So what was lost on the wire comes back.
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
from purgatory_async.service.holds import ClientGone
from purgatory_async.web._asgi import listening
from purgatory_async.web._race import ClientLeft, Race

__all__ = ["LEASE", "Lease", "Queues"]

LEASE: Final = 30.0
"""How long a lease lasts when the taker does not say, in seconds."""

_ID_BYTES: Final = 16


@final
class Lease(DelayedOperation[None]):
    """An item on loan.

    Args:
        queues: Where it goes back to.
        queue: Whose item it is.
        item: As it was put.
        seconds: Until it goes back.
    """

    __slots__ = ("_queues", "id", "item", "queue")

    def __init__(self, queues: "Queues", queue: str, item: Raw, seconds: float) -> None:
        super().__init__(seconds)
        self._queues = queues
        self.queue = queue
        self.item = item
        self.id = secrets.token_urlsafe(_ID_BYTES)

    def on_expiration(self) -> None:
        """Unowned said that it is done: it goes to the next."""
        self._queues.ended(self, put_back=True)


class Queues:
    """All queues of the service, and the leases on their items.

    Args:
        timer: For takers, leases and what is remembered of ended ones.
        max_items: How many items there may be, kept or on loan, all together.
        max_takers: How many may wait for one.
        retention: Seconds for which an ended lease is told from one that never was.
        on_undelivered: Told when a taker was given an item as its client left, so that it came back.
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
        self._returned = 0  # of what the hand-off counts, how much was told

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
        """Give an item to the oldest taker of the queue, or keep it. O(log items of the queue).

        Args:
            queue: Checked.
            item: JSON.

        Returns:
            Whether a taker has it already.

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
            queue: Checked.
            wait: Seconds to wait for one; 0 takes what is there.
            lease: Seconds until it goes back.
            receive: The request's; its body has been read.

        Returns:
            The lease; None if the wait is over.

        Raises:
            Problem: ``overloaded``, or ``draining`` (also while it waits).
            ClientGone: The client left; the item that it may have been given is back in its place.
        """
        race = Race()
        try:
            with listening(receive, race):
                taken = await race.run(self._hand_off.take, (queue,), wait)
        except OperationExpired:
            return None
        except ClientLeft:
            raise ClientGone from None
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
        """End a lease: its item is done with. O(1).

        Raises:
            Problem: ``lease-expired`` or ``unknown-lease``.
        """
        lease = self._find(lease_id)
        lease.force_complete()
        self.ended(lease, put_back=False)

    def give_back(self, lease_id: str) -> None:
        """End a lease: its item goes to the oldest taker, or in front of its queue. O(log items of the queue).

        Raises:
            Problem: ``lease-expired`` or ``unknown-lease``.
        """
        lease = self._find(lease_id)
        lease.cancel()
        self.ended(lease, put_back=True)

    def ended(self, lease: Lease, *, put_back: bool) -> None:
        """Take note that a lease has ended, in whatever way.

        Args:
            lease: It has ended.
            put_back: Whether its item is to go to the next.
        """
        del self._leases[lease.id]
        self._ended.add(lease.id)
        self._timer.call_later(self._retention, self._ended.discard, lease.id)
        if put_back:
            self._hand_off.put_back(lease.queue, lease.item)

    def drain(self) -> int:
        """Let every taker go with ``draining``, and take no item from now on; leases end as they would. Idempotent.

        Returns:
            How many takers there were.
        """
        return len(self._takers.close())

    def close(self) -> None:
        """End everything that is on loan as closed. Idempotent."""
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
