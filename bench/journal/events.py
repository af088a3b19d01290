"""Events as a purgatory tells them, for an encoder that is measured alone."""

from bench.journal.observed import begin_and_end
from purgatory_async import Purgatory, Timer
from purgatory_async.events import Event, KeySignalled, OperationEnded, OperationSubmitted
from purgatory_async.journal._encoder import Entry
from purgatory_async.testing import ManualClock

__all__ = ["events_of_each_kind"]


class Kept:
    """An observer that keeps its events, with the journal's extra values."""

    def __init__(self) -> None:
        self.entries: list[tuple[Event, int | Exception]] = []

    def notify(self, event: Event) -> None:
        """Keep an event."""
        self.entries.append((event, 1))


def events_of_each_kind(times: int) -> dict[str, list[Entry]]:
    """So many submissions, ends and signals, by the name of their record."""
    kept = Kept()
    purgatory = Purgatory(timer=Timer(clock=ManualClock(1_000.0)), observer=kept)
    for number in range(times):
        begin_and_end(purgatory, number)
    kinds = {"submit": OperationSubmitted, "outcome": OperationEnded, "signal": KeySignalled}
    return {
        name: [entry for entry in kept.entries if isinstance(entry[0], kind)] for name, kind in kinds.items()
    }
