"""What the fold keeps only for a while: what has ended, older signals, and the answers of Idempotency-Keys.

It is forgotten when it was kept long enough. Before that it makes room for what is new, the oldest first.
"""

from collections.abc import Iterator
from typing import Final

from purgatory_async.cluster.repetitions import FORGOTTEN_AFTER_US
from purgatory_async.durable.fold.kept_signals import KeptSignals
from purgatory_async.durable.fold.operations import Operations
from purgatory_async.durable.fold.queues import Queues
from purgatory_async.durable.fold.replays import Replays
from purgatory_async.durable.fold.shared import Shared, whole_ms
from purgatory_async.durable.fold.writers import Writers

SHARE: Final = 8
"""Answers of Idempotency-Keys beyond this part of the budget make room before all else."""


class Forgetting:
    """Forgets in all parts of a fold.

    Args:
        shared, operations, signals, queues, replays, writers: The parts.
    """

    __slots__ = (
        "_ended",
        "_forgetting",
        "_forgotten",
        "_operations",
        "_replays",
        "_shared",
        "_signals",
    )

    def __init__(
        self,
        shared: Shared,
        operations: Operations,
        signals: KeptSignals,
        queues: Queues,
        *,
        replays: Replays,
        writers: Writers,
    ) -> None:
        self._shared: Final = shared
        self._operations: Final = operations
        self._signals: Final = signals
        self._replays: Final = replays
        self._forgotten: Final = operations.forgotten
        self._ended: Final = queues.leases.ended
        self._forgetting: Final = (
            operations.forget,
            operations.forget_kept,
            signals.forget,
            self._ended.forget,
            replays.forget,
            writers.forget,
        )

    def __repr__(self) -> str:
        return f"<Forgetting due_us={self._shared.forget_from_us}>"

    def forget(self, at_us: int) -> Iterator[None]:
        """Forget what was kept long enough at a log time, with breaks."""
        whole_us = at_us - at_us % 1000
        # Whatever is added from now on is kept for at least one of these times.
        limits = self._shared.limits
        next_us = whole_us + min(limits.retention_us, limits.keep_for_us, FORGOTTEN_AFTER_US)
        for forget in self._forgetting:
            while (due_us := forget(whole_us)) <= whole_us:
                yield
            next_us = min(next_us, due_us)
        self._shared.forget_from_us = whole_ms(next_us)

    def shrink(self) -> Iterator[None]:
        """Drop the oldest until what is kept is within its limit, with breaks."""
        kept, most = self._shared.kept, self._shared.limits.max_kept
        while kept.used > most and self._make_room(kept.used - most, most // SHARE):
            yield

    def _make_room(self, over: int, share: int) -> bool:
        """Drop the oldest piece of the first kind of history that has one; False if none has.

        Ids of what has ended are worth least, if they suffice: then one of them goes rather than an operation. Answers
        of Idempotency-Keys are worth most, up to their share.
        """
        forgotten, ended, replays = self._forgotten, self._ended, self._replays
        return (
            (replays.size > share and replays.make_room())
            or (forgotten.size + ended.size >= over and (forgotten.make_room() or ended.make_room()))
            or self._operations.make_room()
            or self._signals.make_room()
            or forgotten.make_room()
            or ended.make_room()
            or replays.make_room()
        )
