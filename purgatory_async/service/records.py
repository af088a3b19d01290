"""The service's journal: every operation and signal on disk, for `purgatory pipeline` to read."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from purgatory_async import Purgatory, Timer
from purgatory_async.events import Event
from purgatory_async.journal import Journal, JournalError, Sync, WhenFull
from purgatory_async.metrics import Metrics
from purgatory_async.service import problems
from purgatory_async.service.settings import Settings, SettingsError
from purgatory_async.service.signals import Board

__all__ = ["Records"]


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
        """Wait until what happened so far is as safe as the sync policy promises; then it may be told.

        Raises:
            Problem: ``overloaded``: it cannot be promised.
        """
        if self._journal is not None:
            with _as_problem():
                await self._journal.commit()

    def close(self) -> None:
        """Write what is left, and close. Idempotent."""
        if self._journal is not None:
            self._journal.close()


@contextmanager
def _as_problem() -> Iterator[None]:
    try:
        yield
    except JournalError as error:
        raise problems.unrecorded(f"{error}; what was asked for may have been done") from None
