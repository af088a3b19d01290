"""One-shot waits, which only this process has: operations without an id, on its own clock.

They hear of a signal through the fold's events, before anybody else does. So the event of a signal, like the answer to
it, counts what it completed in the fold and here.
"""

from typing import Final, cast

from purgatory_async import Outcome, Purgatory, Timer
from purgatory_async.events import Event, KeySignalled, Observer, OperationEnded, OperationSubmitted
from purgatory_async.service.messages import WireNeed
from purgatory_async.service.state.fold.fold import Fold
from purgatory_async.service.state.needs import need_for
from purgatory_async.service.state.operations import SignalledOperation

__all__ = ["Waits"]


class SignalsLost(Exception):  # noqa: N818 - what happened
    """The state was loaded again: what was signalled meanwhile is not known."""


class Waits:
    """The one-shot waits of a process; observes the operations of the fold, and passes their events on.

    Args:
        timer: For the waits.
        limit: The most waits at once.
        told: Whether the observer hears of the waits, too; with a log it tells only what is the same everywhere, and
            who answers the waits hears of them.
    """

    def __init__(self, timer: Timer, limit: int, *, told: bool = True) -> None:
        self.purgatory: Final = Purgatory("waits", timer=timer, max_pending=limit, observer=_Ends(self))
        self.completed = 0
        """How many waits the signals of the present step completed; set to 0 by its reader."""
        self._told: Final = told
        self._timer: Final = timer
        self._fold: Fold | None = None
        self._observer: Observer | None = None
        self._answering: Observer | None = None
        self._made: _Source | None = None  # observes the newest fold
        self.source: _Source | None = None
        """Observes the fold that is followed, if `observer` made it."""

    def __repr__(self) -> str:
        return f"<Waits pending={self.purgatory.pending}>"

    def observer(self) -> Observer:
        """Return the observer of a fold that is being made: heard when it is followed, until another one is."""
        self._made = _Source(self)
        return self._made

    def follow(self, fold: Fold, observer: Observer, answering: Observer) -> None:
        """Follow the fold made last.

        Args:
            fold: The state.
            observer: Hears its events from now on. Those before, of its making, reach no observer.
            answering: Answers the waits; one of those in ``observer``.
        """
        self._fold, self._observer, self.source = fold, observer, self._made
        self._answering = observer if self._told else answering

    def wait_once(self, keys: tuple[str, ...], need: WireNeed, seconds: float | None) -> SignalledOperation:
        """Add a wait on distinct keys, which expires after some seconds, or is cancelled by its caller. O(keys).

        Raises:
            PurgatoryFull: There are too many.
            PurgatoryClosed: They have been closed.
        """
        assert self._fold is not None, "waits need a fold to follow"
        operation = SignalledOperation(
            self._fold.signals, keys, need_for(need, keys), seconds, submitted=self._timer.time()
        )
        self.purgatory.try_complete_else_watch(operation, keys)
        return operation

    def lose(self) -> int:
        """Fail all waits, because signals may have been lost; return how many there were."""
        waiting = list(self.purgatory.operations())
        for operation in waiting:
            operation.fail(SignalsLost("signals may have been lost"))
        return len(waiting)

    def notify(self, event: Event) -> None:
        """Complete the waits on a signalled key, then pass the event on."""
        fold, observer = self._fold, self._observer
        if fold is None or observer is None:
            return
        if isinstance(event, KeySignalled):
            completed = self.purgatory.check_and_complete(event.key) if self.purgatory.pending else 0
            self.completed += completed
            if completed and self._told:
                _correct(event, "completed", event.completed + completed)
        elif isinstance(event, OperationEnded) and event.outcome is Outcome.EXPIRED:
            # It ended at its deadline, in log time; but lateness is when that was noticed.
            _correct(event, "at_ns", fold.step_ns)
        observer.notify(event)

    def pass_on(self, event: OperationSubmitted | OperationEnded) -> None:
        """Pass on what happened to a wait, under an id that no operation of the fold has."""
        if event.operation_id > 0:  # the end of a wait takes its id from the submission
            _correct(event, "operation_id", -event.operation_id)
        cast("Observer", self._answering).notify(event)


class _Source:
    """Observes one fold; what is restored into it, and its closing when another one is followed, is not passed on."""

    def __init__(self, waits: Waits) -> None:
        self._waits = waits

    def notify(self, event: Event) -> None:
        """Pass on an event of the fold that is followed."""
        if self._waits.source is self:
            self._waits.notify(event)


class _Ends:
    """Observes the waits' own purgatory; that a key was checked there is no signal."""

    def __init__(self, waits: Waits) -> None:
        self._waits = waits

    def notify(self, event: Event) -> None:
        """Pass on submissions and ends."""
        if not isinstance(event, KeySignalled):
            self._waits.pass_on(event)


def _correct(event: Event, name: str, value: int) -> None:
    """Change a field of an event that no observer has seen yet; a copy would cost a tenth of an expiry."""
    object.__setattr__(event, name, value)
