"""The service's journal: every operation and signal on disk, for `purgatory pipeline` to read."""

from typing import Final

from purgatory_async import Purgatory, Timer
from purgatory_async.events import Event
from purgatory_async.journal import Journal, JournalError, Sync, WhenFull
from purgatory_async.metrics import Metrics
from purgatory_async.service import problems
from purgatory_async.service.settings import Settings, SettingsError
from purgatory_async.service.signals import Board

__all__ = ["UNRECORDED", "Records"]

UNRECORDED: Final = ("X-Purgatory-Recorded", "false")


class Records:
    """The journal, if the settings ask for one; without one all of this does nothing. Observes the purgatory.

    Args:
        settings: Directory, sync policy, and what gives way when the disk does not keep up.
        timer: The service's.
        board: Where the signals are whose amounts are recorded.

    Raises:
        SettingsError: No journal can be kept in that directory.
    """

    def __init__(self, settings: Settings, timer: Timer, board: Board) -> None:
        self._board: Final = board
        self._journal: Journal | None = None
        if settings.journal is None:
            return
        try:
            self._journal = Journal(
                settings.journal,
                timer=timer,
                sync=Sync(settings.journal_sync),
                when_full=WhenFull(settings.journal_full),
                weigh=self._amount,
            )
        except JournalError as error:
            raise SettingsError(f"journal: {error}") from None

    def _amount(self, _: Event) -> int:
        # The board notes a signal before its key is checked, so the newest is the one that is told of.
        newest = self._board.newest
        return 1 if newest is None else newest.amount

    def notify(self, event: Event) -> None:
        """Write an event down. O(1)."""
        if self._journal is not None:
            self._journal.notify(event)

    def show(self, purgatory: Purgatory, metrics: Metrics) -> None:
        """Write down what stands in the purgatory too, and show Prometheus how the journal does."""
        journal = self._journal
        if journal is None:
            return
        journal.gauge(purgatory)
        for name, documentation, read in (
            ("buffered", "Records that wait for the disk.", lambda: journal.buffered),
            ("dropped", "Records that were lost: buffer full, or disk broken.", lambda: journal.dropped),
        ):
            metrics.show(f"purgatory_journal_{name}", documentation, read)

    @property
    def trouble(self) -> str | None:
        """Why a change cannot be recorded as promised, with `Sync.ALWAYS`; None if it can. O(1)."""
        journal = self._journal
        if journal is None or journal.sync is not Sync.ALWAYS or journal.trouble is None:
            return None
        return str(journal.trouble)

    @property
    def refusing(self) -> bool:
        """Whether new operations are refused because of the disk. O(1)."""
        return self.trouble is not None or not (self._journal is None or self._journal.accepting)

    def check_trouble(self) -> None:
        """See that a change can be recorded, before it is made.

        Raises:
            Problem: ``overloaded``: the disk is full or broken, and changes wait for it.
        """
        if self.trouble is not None:
            raise problems.unrecorded(self.trouble)

    def check_accepting(self) -> None:
        """See that a new operation can be recorded.

        Raises:
            Problem: ``overloaded``: the disk does not keep up, and new operations are what gives way.
        """
        if self._journal is not None and not self._journal.accepting:
            raise problems.unrecorded(
                str(self._journal.trouble or "the disk does not keep up with the journal")
            )

    async def commit(self) -> None:
        """Wait until what happened so far is as safe as the sync policy promises.

        Raises:
            Problem: ``overloaded``: it cannot be promised.
        """
        if self._journal is not None:
            try:
                await self._journal.commit()
            except JournalError as error:
                raise problems.unrecorded(str(error)) from None

    async def settle(self) -> tuple[tuple[str, str], ...]:
        """Wait as `commit` does, for a change that cannot be undone.

        Returns:
            Header fields for its answer: none, or that it is not recorded yet.
        """
        try:
            await self.commit()
        except problems.Problem:
            return (UNRECORDED,)
        return ()

    def close(self) -> None:
        """Write what is left, and close. Idempotent."""
        if self._journal is not None:
            self._journal.close()
