"""The rules for the entries of queues: what each refuses, and what it gives."""

from collections.abc import Callable
from typing import Any, Final

from msgspec import UNSET, UnsetType

from purgatory_async.durable.fold import entries as kinds
from purgatory_async.durable.fold.kept_bytes import PIECE_BYTES, text_bytes
from purgatory_async.durable.fold.queues import Queues
from purgatory_async.durable.fold.replays import Replays
from purgatory_async.durable.fold.results import (
    APPLIED,
    OVER_BUDGET,
    Extended,
    InLine,
    Leased,
    LeasedBefore,
    Moved,
    Nothing,
    Put,
    PutSome,
    Refused,
    Result,
)
from purgatory_async.durable.fold.shared import Shared, Work


class QueueRules:
    """Applies entries to the queues.

    Args:
        queues: All of them.
        replays: Where answers to an Idempotency-Key are kept.
        shared: The limits and the step.
        replayed: Returns an earlier answer to an entry, if there is one.
    """

    def __init__(
        self,
        queues: Queues,
        replays: Replays,
        shared: Shared,
        replayed: Callable[[kinds.PutItem | kinds.PutItems | kinds.WantItem], Result | None],
    ) -> None:
        self._queues: Final = queues
        self._replays: Final = replays
        self._shared: Final = shared
        self._replayed: Final = replayed
        self.by_kind: Final[dict[type[kinds.Entry], Callable[[Any], Result | Work[Result]]]] = {
            kinds.PutItem: self._put,
            kinds.PutItems: self._puts,
            kinds.WantItem: self._want,
            kinds.LeaveLine: self._gone,
            kinds.EndLease: self._done,
            kinds.ExtendLease: self._extend,
            kinds.SetQueue: self._set,
            kinds.PurgeQueue: self._purge,
            kinds.RedriveItems: self._redrive,
        }

    def _put(self, entry: kinds.PutItem) -> Result:
        earlier = self._replayed(entry)
        if earlier is not None:
            return earlier
        new = (kinds.NewItem(entry.item, entry.delay_us),)
        refused = self._queues.refusal(entry, new)
        if refused is not None:
            return refused
        ((_, given),) = self._queues.put(entry.queue, new, entry.owner, trace_of(entry))
        answer = Put(self._shared.position, given)
        self._replays.keep(entry, answer)
        return answer

    def _puts(self, entry: kinds.PutItems) -> Result:
        earlier = self._replayed(entry)
        if earlier is not None:
            return earlier
        refused = self._queues.refusal(entry, entry.items)
        if refused is not None:
            return refused
        put = self._queues.put(entry.queue, entry.items, entry.owner, trace_of(entry))
        numbers, given = zip(*put, strict=True)
        answer = PutSome(numbers, given)
        self._replays.keep(entry, answer)
        return answer

    def _want(self, entry: kinds.WantItem) -> Result:
        queues = self._queues
        if queues.knows(entry.lease_id):
            return Refused("duplicate-id")
        earlier = None if entry.idem is UNSET else self._taken_before(entry)
        if earlier is not None:
            return earlier
        if not entry.wait_us:
            queue = queues.by_name.get(entry.queue)
            if queue is None or not queue.ready:
                return Nothing()
        queues.takers.want(entry)
        lease = queues.leases.get(entry.lease_id)
        return InLine() if lease is None else Leased(lease.item.number)

    def _taken_before(self, entry: kinds.WantItem) -> Result | None:
        """Return what answers a take with a known Idempotency-Key; None if it may stand in line, or take items."""
        take = self._queues.leases.takes.of(entry)
        if take is None:
            return self._replayed(entry)
        if take.digest != entry.digest:
            return Refused("idempotency-mismatch")
        if not take.leases:
            return None
        self._queues.leases.share(take, entry.lease_id)
        return LeasedBefore(take.taker)

    def _gone(self, entry: kinds.LeaveLine) -> Result:
        self._queues.gone(entry.lease_id)
        return APPLIED

    def _done(self, entry: kinds.EndLease) -> Result:
        lease = self._queues.leases.get(entry.lease_id)
        if lease is None or entry.owner not in {None, lease.owner}:
            return self._unknown(entry.lease_id, entry.owner)
        self._queues.end(lease, back=entry.back, delay=entry.delay_us)
        return APPLIED

    def _extend(self, entry: kinds.ExtendLease) -> Result:
        lease = self._queues.leases.get(entry.lease_id)
        if lease is None or entry.owner not in {None, lease.owner}:
            return self._unknown(entry.lease_id, entry.owner)
        lease_us = lease.lease_us if isinstance(entry.lease_us, UnsetType) else entry.lease_us
        return Extended(self._queues.leases.extend(lease, lease_us))

    def _unknown(self, lease_id: str, owner: str | None) -> Refused:
        queues = self._queues
        known = lease_id in queues.leases.ended and owner in {None, queues.leases.ended.get(lease_id)}
        return Refused("lease-expired" if known else "unknown-lease")

    def _set(self, entry: kinds.SetQueue) -> Result:
        queue = self._queues.by_name.get(entry.queue)
        if not entry.empty and (queue is None or queue.settings is None):
            size = PIECE_BYTES if queue else PIECE_BYTES + text_bytes(entry.queue)
            if not self._shared.fits(size):
                return OVER_BUDGET
        self._queues.set(entry)
        return APPLIED

    def _purge(self, entry: kinds.PurgeQueue) -> Work[Result]:
        return Moved((yield from self._queues.purge(entry.queue)))

    def _redrive(self, entry: kinds.RedriveItems) -> Work[Result]:
        return Moved(
            (yield from self._queues.redrive(entry.queue, None if entry.max is UNSET else entry.max))
        )


def trace_of(entry: kinds.PutItem | kinds.PutItems) -> str | None:
    """Return the trace of a put; None without one. O(1)."""
    return None if isinstance(entry.trace, UnsetType) else entry.trace
