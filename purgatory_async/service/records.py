"""The service's journal: every operation and signal on disk, for `purgatory pipeline` to read."""

from functools import partial
from typing import Final

from purgatory_async import Purgatory, Timer
from purgatory_async.durable.documents import problems
from purgatory_async.durable.fold.operations import Operation
from purgatory_async.durable.later import Later
from purgatory_async.durable.state import State
from purgatory_async.events import KINDS, Event, Handlers, Handling
from purgatory_async.journal import REASONS, Journal, JournalError, Sync, Usage, WhenFull
from purgatory_async.metrics import Metrics
from purgatory_async.service.contract import http_problems
from purgatory_async.service.settings.settings import Settings, SettingsError

UNRECORDED: Final = ("X-Purgatory-Recorded", "false")


Headers = tuple[tuple[str, str], ...]


class Records(Handling):
    """Observes the purgatory and writes the journal; does nothing without the setting ``journal``.

    Args:
        settings: Directory, sync policy, what to keep, and what to drop or refuse when the disk is too slow.
        timer: The service's.
        state: Has the signals whose amounts are recorded.

    Raises:
        SettingsError: The directory cannot hold a journal.
    """

    def __init__(self, settings: Settings, timer: Timer, state: State) -> None:
        self._state: Final = state
        self._unrecorded: Final[set[str]] = set()  # ids of operations whose submission waits for the disk
        self._journal: Journal | None = None
        if settings.journal is None:
            return
        try:
            self._journal = Journal(
                settings.journal,
                timer=timer,
                sync=Sync(settings.journal_sync),
                when_full=WhenFull(settings.journal_full),
                keep=settings.journal_keep,
                keep_bytes=settings.journal_max_bytes,
                weigh=self._amount,
            )
        except JournalError as error:
            raise SettingsError(f"journal: {error}") from None

    def _amount(self, _: Event) -> int:
        # A signal is noted before its key is checked, so the event is about the newest.
        newest = self._state.fold.signals.newest
        return 1 if newest is None else newest.amount

    def handlers(self) -> Handlers:
        """Record all events, if there is a journal. O(1)."""
        return {} if self._journal is None else dict.fromkeys(KINDS, self._journal.notify)

    def gauge(self, purgatory: Purgatory) -> None:
        """Record the purgatory's gauges too, if there is a journal. O(1)."""
        if self._journal is not None:
            self._journal.gauge(purgatory)

    def show(self, metrics: Metrics) -> None:
        """Add the journal's metrics, if there is one; once, as a name that is shown twice cannot be scraped."""
        journal = self._journal
        if journal is None:
            return
        for name, documentation, read in (
            ("buffered", "Records that wait for the disk.", lambda: journal.buffered),
            (
                "buffer_ratio",
                "Share of the journal's buffer that waits: from 0.25 a warning, from 0.5 with refuse 503, at 1 drops.",
                lambda: journal.buffered / journal.usage.max_buffered,
            ),
            ("dropped", "Records that were lost: buffer full, or disk broken.", lambda: journal.dropped),
            ("bytes", "Size of the journal.", lambda: journal.usage.bytes),
            ("free_bytes", "What the journal's disk has left.", lambda: journal.usage.free_bytes),
            ("disk_bytes", "Size of the journal's disk.", lambda: journal.usage.disk_bytes),
        ):
            metrics.show(f"purgatory_journal_{name}", documentation, read)
        metrics.show(
            "purgatory_journal_removed",
            "Old segments that were removed.",
            lambda: journal.usage.removed,
            counter=True,
        )
        metrics.show_each(
            "purgatory_journal_warning",
            "1 while the journal's disk fails, its buffer fills up, or its disk is nearly full.",
            "reason",
            {reason: partial(_warns, journal, reason) for reason in REASONS},
        )

    @property
    def usage(self) -> Usage | None:
        """How much of its buffer and disk the journal uses; None without a journal. O(1)."""
        return None if self._journal is None else self._journal.usage

    @property
    def trouble(self) -> str | None:
        """Why `Sync.ALWAYS` cannot be kept; None if it can, or with another policy. O(1)."""
        journal = self._journal
        if journal is None or journal.sync is not Sync.ALWAYS or journal.trouble is None:
            return None
        return str(journal.trouble)

    @property
    def refusing(self) -> bool:
        """Whether the disk forces the service to refuse new operations. O(1)."""
        return self.trouble is not None or not (self._journal is None or self._journal.accepting)

    def check_trouble(self) -> None:
        """Check that a change can be recorded, before making it.

        Raises:
            Problem: ``overloaded``: the disk is full or broken, and changes must be recorded first.
        """
        if self._journal is not None and (trouble := self.trouble) is not None:
            raise http_problems.unrecorded(trouble)

    def check_accepting(self) -> None:
        """Check that a new operation can be recorded.

        Raises:
            Problem: ``overloaded``: the disk does not keep up, and the settings refuse new operations then.
        """
        journal = self._journal
        if journal is not None and not journal.accepting:
            raise http_problems.unrecorded(
                str(journal.trouble or f"{journal.buffered} records wait for the disk of the journal")
            )

    async def commit(self) -> None:
        """Wait until all events so far are as safe as the sync policy promises.

        Raises:
            Problem: ``overloaded``: the journal cannot keep the promise.
        """
        if self._journal is not None:
            try:
                await self._journal.commit()
            except JournalError as error:
                raise http_problems.unrecorded(str(error)) from None

    def begin(self, operation: Operation) -> None:
        """Note a new submission, which `record` must wait for."""
        if self._journal is not None:
            self._unrecorded.add(operation.id)

    def record(self, operation: Operation) -> Later[Headers]:
        """Wait until a submission is recorded; withdraw it if that fails while it is pending.

        It stands, as a change that cannot be undone, if a taker has had the item that announced it.

        Returns:
            Header fields for the answer, as of `Records.settle`.

        Raises:
            Problem: ``overloaded``; the operation is withdrawn.
        """
        return self._record(operation) if operation.id in self._unrecorded else ()

    async def _record(self, operation: Operation) -> Headers:
        try:
            await self.commit()
        except problems.Problem:
            self._unrecorded.discard(operation.id)
            await self._state.settled()
            if not self._state.fold.operations.withdraw(operation) and operation.state != "cancelled":
                return (UNRECORDED,)
            raise
        self._unrecorded.discard(operation.id)
        return ()

    def settle(self) -> Later[Headers]:
        """Wait as `commit` does, for a change that cannot be undone.

        Returns:
            Header fields for its answer: empty once it is recorded, else `UNRECORDED`.
        """
        return () if self._journal is None else self._settle()

    async def _settle(self) -> Headers:
        try:
            await self.commit()
        except problems.Problem:
            return (UNRECORDED,)
        return ()

    def close(self) -> None:
        """Write the buffered records and close. Idempotent."""
        if self._journal is not None:
            self._journal.close()


def _warns(journal: Journal, reason: str) -> float:
    return float(reason in journal.usage.warnings)
