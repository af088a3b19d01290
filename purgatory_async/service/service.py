"""The service without HTTP: a keeper with a journal and metrics, whose one-shot waits count for their owners.

`http_service` adds the requests that wait.
"""

import datetime as dt
from collections.abc import Callable
from typing import Final

from purgatory_async import PurgatoryClosed, PurgatoryFull, Timer
from purgatory_async.durable.documents import WireNeed, problems
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.operations import Operation
from purgatory_async.durable.grants import UNBOUND, Grant
from purgatory_async.durable.verbs.keeper import Keeper, utc_now
from purgatory_async.durable.verbs.refusals import over_pending
from purgatory_async.durable.waiting.waits import Wait
from purgatory_async.events import Observer
from purgatory_async.metrics import Metrics
from purgatory_async.service.backing import backing_of
from purgatory_async.service.records import Records
from purgatory_async.service.settings.settings import Settings


class Service(Keeper):
    """Operations, keys and queues of one process.

    Args:
        settings: The limits.
        timer: For every wait; None makes one.
        wall_clock: Where log time begins, and the time of the stats.

    Attributes:
        settings: As given.
        metrics: What it counts.
        records: Its journal.

    Raises:
        SettingsError: The journal's directory or the store cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        timer: Timer | None = None,
        wall_clock: Callable[[], dt.datetime] = utc_now,
    ) -> None:
        self.settings: Final = settings
        super().__init__(backing_of(settings), Timer() if timer is None else timer, wall_clock())
        self.metrics: Final = Metrics()
        self.records: Final = Records(settings, self.timer, self.state)
        self.records.show(self.metrics)
        self.hear_by()

    def hear_by(self, *others: Observer) -> None:
        """Let the journal and the metrics hear of the operations, and others after them."""
        self.hearers = (self.records, self.metrics, *others)
        self.follow(self.state.fold)

    def wait_once(self, keys: tuple[str, ...], need: WireNeed, wait: float, grant: Grant = UNBOUND) -> Wait:
        """Register a one-shot wait on distinct keys for ``wait`` seconds.

        The caller cancels it when it is over, or the client leaves.

        Raises:
            Problem: ``overloaded``, ``limited`` or ``draining``.
        """
        self.check_accepting()
        owner, most = grant.owner, grant.limits.max_pending
        if most is not None and (pending := self._pending_of(owner)) >= most:
            raise over_pending(most, pending)
        try:
            # With a log its end is the caller's: what was signalled in time may be applied after it.
            return self.waits.wait_once(keys, need, wait if self.backing.in_memory else None, owner)
        except PurgatoryFull:
            raise problems.overloaded("one-shot waits", self.settings.max_pending) from None
        except PurgatoryClosed:
            raise problems.draining() from None

    def _end(self) -> None:
        self.records.close()
        super()._end()

    def follow(self, fold: Fold) -> None:
        """Let the hearers hear a state, and show it; see `Keeper.follow`."""
        self.metrics.gauge(fold.operations.purgatory, self.waits.purgatory)
        self.records.gauge(fold.operations.purgatory)
        super().follow(fold)

    def check_change(self) -> None:
        """Check that a change can be recorded, before making it; raises as `Records.check_trouble`."""
        self.records.check_trouble()

    def check_accepting(self) -> None:
        """Check that a new wait may begin, and be recorded; raises as `Records.check_accepting`, too."""
        Keeper.check_accepting(self)  # by super() it would take as long as the call
        self.records.check_accepting()

    def _made(self, operation: Operation) -> None:
        self.records.begin(operation)

    def _count_undelivered(self) -> None:
        self.metrics.undelivered += 1

    def _replace(self, fold: Fold) -> None:
        totals = fold.shared.totals
        self.metrics.restore(totals.submitted, totals.signals, totals.ended.items())
        super()._replace(fold)
