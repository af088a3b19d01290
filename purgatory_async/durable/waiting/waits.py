"""One-shot waits, which only this process has: operations without an id, on its own clock.

The fold's events reach them first. So the event of a signal, like the answer to it, counts what it completed in the
fold and here.

Waits with the same keys and need share a condition, so a signal decides on thousands of them at once. Where there are
many conditions or signals, these are counted in the breaks of the fold's step, before they are told. Fulfilled waits
have completed then, whatever happens to them; but they end a few at a time, each with its event and its answer.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from typing import Final, cast, final

import msgspec

from purgatory_async import DelayedOperation, Outcome, Purgatory, Timer
from purgatory_async.durable.documents import WireNeed, problems
from purgatory_async.durable.documents.fitting import fitting
from purgatory_async.durable.documents.messages import WaitView
from purgatory_async.durable.fold.batch import Batch
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.needs import Need, Voters, need_for
from purgatory_async.durable.fold.operations import Shown
from purgatory_async.durable.fold.signal_rules import FEW, Counting
from purgatory_async.durable.fold.signalled import SignalledOperation
from purgatory_async.durable.fold.signals import Ledger, Newest, Signal
from purgatory_async.durable.waiting.heard import Heard
from purgatory_async.durable.waiting.pacing import Pace, in_turn
from purgatory_async.errors import Interruption
from purgatory_async.events import (
    Event,
    KeySignalled,
    Observer,
    Observers,
    OperationEnded,
    OperationRescheduled,
    OperationSubmitted,
)


class SignalsLost(Interruption):
    """The state was loaded again: what was signalled meanwhile is not known."""


@final
class Condition(SignalledOperation):
    """The condition of equal waits that began with no signal on their keys in between.

    Attributes:
        waits: How many of them have not ended.
        end: The index of the signal that fulfilled it; 0 for none yet.
        view: The JSON that answers them, once one was answered.
    """

    __slots__ = ("_completed", "_heard_bytes", "end", "view", "waits")

    def __init__(
        self,
        newest: Newest,
        keys: tuple[str, ...],
        need: WireNeed,
        submitted: float,
        *,
        heard: Heard,
        completed: dict[int, int],
    ) -> None:
        super().__init__(newest, keys, need_for(need, keys, heard), None, submitted=submitted)
        self.waits = 0
        self.view = b""
        self._heard_bytes = heard
        self.end = 0
        self._completed = completed

    def _new_ledger(self) -> Ledger:
        return Shown(self._heard_bytes)

    def release(self) -> None:
        """Stop counting the bytes of its signals and voters: nothing waits for it. O(signals and voters)."""
        if self._ledger is not None:
            cast("Shown", self._ledger).let_go()
        if isinstance(self.need, Voters):
            self.need.clear()

    def try_complete(self) -> bool:
        """Count the newest signal; note how many waits it completes, if the condition holds. O(1)."""
        holds = super().try_complete()
        if holds:
            self._note_end(self._heard)
        return holds

    def take(self, batch: Batch) -> Signal | None:
        """Count a batch, and complete; see `SignalledOperation.take`."""
        end = super().take(batch)
        if end is not None:
            self.force_complete()
            self._note_end(end.view.index)
        return end

    def _note_end(self, index: int) -> None:
        self.end = index
        self._completed[index] = self._completed.get(index, 0) + self.waits


@final
class Wait(DelayedOperation[None]):
    """A one-shot wait.

    Attributes:
        condition: What it waits for.
        submitted: When, in seconds of its timer.
        fulfilled: Whether it has ended because a signal completed it, whatever happened to it until its turn came.
        owner: Whose it is; None without tokens.
    """

    __slots__ = ("condition", "fulfilled", "owner", "submitted")

    def __init__(
        self, condition: Condition, seconds: float | None, submitted: float, owner: str | None = None
    ) -> None:
        super().__init__(seconds)
        self.owner = owner
        self.condition = condition
        self.submitted = submitted
        self.fulfilled = False

    @property
    def watch_keys(self) -> tuple[str, ...]:
        """Its distinct keys."""
        return self.condition.watch_keys

    @property
    def need(self) -> Need:
        """Counts the signals."""
        return self.condition.need

    @property
    def needed(self) -> int:
        """The sum of amounts that the journal records."""
        return self.condition.needed

    def view(self, *, full: bool = False) -> bytes:
        """Return the signals that completed it, in JSON, ``full`` or as many as fit; equal waits share the latter."""
        condition = self.condition
        if full:
            return msgspec.json.encode(WaitView(condition.signals))
        if not condition.view:
            condition.view = msgspec.json.encode(fitting(WaitView(condition.signals)))
        return condition.view


class Waits(Counting):
    """The one-shot waits of a process; observes the operations of the fold, and passes their events on.

    Args:
        timer: For the waits.
        pace: At which they end.
        limit: The most waits at once.
        most_bytes: The most bytes of signals and voters that they have heard, not counting the fold's. Beyond it, the
            oldest waits that have heard something fail.
        on_undelivered: Called when a fulfilled wait is cancelled before it ends.
        observed: Whether the observer hears of the waits, too. With a log it hears only what is equal at all workers,
            and the waits are reported to the observer that answers them.
    """

    def __init__(
        self,
        timer: Timer,
        pace: Pace,
        limit: int,
        most_bytes: int,
        on_undelivered: Callable[[], None],
        *,
        observed: bool = True,
    ) -> None:
        self.purgatory: Final = Purgatory("waits", timer=timer, max_pending=limit, observer=_Ends(self))
        self.conditions: Final = Purgatory("conditions", timer=timer)
        self._joinable: Final[dict[tuple[tuple[str, ...], WireNeed], Condition]] = {}
        # How many waits, by the index of a signal that has yet to be told.
        self._completed: Final[dict[int, int]] = {}
        self._taken = 0  # the index up to which `take` has counted
        self._heard: Final = Heard()
        self._most_bytes: Final = most_bytes
        self._pending_of: Final[Counter[str]] = Counter()  # of each owner that has some
        self._pace: Final = pace
        self._on_undelivered: Final = on_undelivered
        self.completed = 0
        """How many waits the signals of the present step completed; set to 0 by its reader."""
        self._observed: Final = observed
        self._timer: Final = timer
        self._fold: Fold | None = None
        self._observer: Observer = Observers()
        self._answering: Observer = self._observer
        self._made: _Source | None = None  # observes the newest fold
        self.source: _Source | None = None
        """Observes the fold that is followed, if `observer` made it."""

    def __repr__(self) -> str:
        return f"<Waits pending={self.purgatory.pending}>"

    def observer(self) -> Observer:
        """Return the observer of a fold that is being made; it passes events on while that fold is followed."""
        self._made = _Source(self)
        return self._made

    def follow(self, fold: Fold, observer: Observer, answering: Observer) -> None:
        """Follow the fold made last.

        Args:
            fold: The state.
            observer: Gets its events from now on; events of its making reach no observer.
            answering: Answers the waits; one of those in ``observer``.
        """
        self._fold, self._observer, self.source = fold, observer, self._made
        self._taken = 0
        self._completed.clear()
        self._answering = observer if self._observed else answering

    @property
    def heard(self) -> int:
        """How many bytes of signals and voters the pending ones have heard."""
        return self._heard.used

    def pending_of(self, owner: str | None) -> int:
        """Return how many waits of an owner are pending. O(1)."""
        return 0 if owner is None else self._pending_of[owner]

    def wait_once(
        self, keys: tuple[str, ...], need: WireNeed, seconds: float | None, owner: str | None = None
    ) -> Wait:
        """Add a wait on distinct keys, which expires after some seconds, or is cancelled by its caller. O(keys).

        Raises:
            PurgatoryFull: There are too many.
            PurgatoryClosed: They have been closed.
        """
        assert self._fold is not None, "waits need a fold to follow"
        now = self._timer.time()
        condition = self._joinable.get((keys, need))
        if condition is None or not condition.untouched:
            condition = Condition(
                self._fold.signals, keys, need, now, heard=self._heard, completed=self._completed
            )
        wait = Wait(condition, seconds, now, owner)
        self.purgatory.try_complete_else_watch(wait, keys)
        if owner is not None:
            self._pending_of[owner] += 1
        if not condition.waits:
            self.conditions.try_complete_else_watch(condition, keys)
            self._joinable[keys, need] = condition
            self._note_crowd()
        condition.waits += 1
        return wait

    def lose(self) -> None:
        """Fail all waits, because signals may have been lost."""
        for wait in self.purgatory.operations():
            wait.fail(SignalsLost("signals may have been lost"))

    def notify(self, event: Event) -> None:
        """Complete the waits on a signalled key, then pass the event on."""
        if isinstance(event, KeySignalled):
            assert self._fold is not None, "only a fold that is followed has signals"
            index = self._fold.signals.index
            if index > self._taken and self.conditions.pending:
                self.conditions.check_and_complete(event.key)
            if self._completed and (completed := self._completed.pop(index, 0)):
                self._end_fulfilled(event.key, index)
                self.completed += completed
                if self._observed:
                    _correct(event, "completed", event.completed + completed)
            # In a batch all is counted already, also for those that one of its later signals ends.
            if self._heard.used > self._most_bytes and index >= self._taken:
                self._shed()
        elif isinstance(event, OperationEnded) and event.outcome is Outcome.EXPIRED:
            # It ended at its deadline, in log time; but lateness is when that was noticed.
            assert self._fold is not None, "only a fold that is followed has operations"
            _correct(event, "at_ns", self._fold.step_ns)
        self._observer.notify(event)

    # See `Counting`.

    def watching(self, key: str) -> int:
        """Return how many conditions watch a key."""
        return next((count for _, count in self.conditions.watchers((key,))), 0)

    def take(self, batch: Batch) -> Iterator[None]:
        """Let the conditions count a batch, so that the events of its signals only end the waits that it fulfils."""
        if not self.conditions.pending:
            return
        self._taken = batch.index
        self._completed.clear()
        counted = set[Condition]()
        for key in batch.keys:
            for condition in cast("Iterator[Condition]", self.conditions.operations(key)):
                if (
                    condition in counted or condition.outcome is not None
                ):  # its waits may have left in a break
                    continue
                if len(condition.watch_keys) > 1:
                    counted.add(condition)
                condition.take(batch)
                yield

    def _note_crowd(self) -> None:
        self.crowded = self.conditions.watched - self.conditions.keys >= FEW

    def _shed(self) -> None:
        """Fail the oldest waits that have heard something, until what is left has room. O(conditions and waits)."""
        for condition in self.conditions.operations():
            if self._heard.used <= self._most_bytes:
                return
            if isinstance(condition, Condition) and not condition.untouched:
                failure = problems.over_budget("max_bytes", self._heard.used, self._most_bytes)
                for wait in self.purgatory.operations(condition.watch_keys[0]):
                    if isinstance(wait, Wait) and wait.condition is condition:
                        wait.fail(failure)

    def _end_fulfilled(self, key: Hashable, index: int) -> None:
        """End the waits whose conditions a signal has fulfilled, the oldest first."""
        waits = in_turn(cast("Iterator[Wait]", self.purgatory.operations(key)))
        self._pace.complete(wait for wait in waits if wait.condition.end == index)

    def pass_on(self, event: OperationSubmitted | OperationRescheduled | OperationEnded) -> None:
        """Pass on what happened to a wait, under an id that no operation of the fold has."""
        if event.operation_id > 0:  # the end of a wait takes its id from the submission
            _correct(event, "operation_id", -event.operation_id)
        if isinstance(event, OperationEnded):
            wait = cast("Wait", event.operation)
            wait.fulfilled = wait.condition.outcome is Outcome.COMPLETED
            if wait.fulfilled and event.outcome is not Outcome.COMPLETED:
                # Its deadline passed, or its client left, before its turn came.
                if event.outcome is Outcome.CANCELLED:
                    self._on_undelivered()
                _correct(event, "outcome", Outcome.COMPLETED)
            self._leave(wait)
        self._answering.notify(event)

    def _leave(self, wait: Wait) -> None:
        condition, owner = wait.condition, wait.owner
        if owner is not None:
            self._pending_of[owner] -= 1
            if not self._pending_of[owner]:
                del self._pending_of[owner]
        condition.waits -= 1
        if not condition.waits:
            condition.cancel()
            condition.release()
            self._note_crowd()
            name = condition.watch_keys, condition.need.wire
            if self._joinable.get(name) is condition:
                del self._joinable[name]


class _Source(Counting):
    """Observes one fold, and passes events on while it is followed: not when it is restored or closed."""

    def __init__(self, waits: Waits) -> None:
        self._waits = waits

    def notify(self, event: Event) -> None:
        """Pass on an event of the fold that is followed."""
        if self._waits.source is self:
            self._waits.notify(event)

    @property
    def crowded(self) -> bool:  # type: ignore[override]
        """Whether it is of so many waits that one signal may take long to count."""
        return self._waits.crowded and self._waits.source is self

    def watching(self, key: str) -> int:
        """Return how many conditions watch a key."""
        return self._waits.watching(key)

    def take(self, batch: Batch) -> Iterator[None]:
        """Let the waits count a batch, if that fold is followed."""
        return self._waits.take(batch) if self._waits.source is self else iter(())


class _Ends:
    """Observes the waits' own purgatory; that a key was checked there is no signal."""

    def __init__(self, waits: Waits) -> None:
        self._waits = waits

    def notify(self, event: Event) -> None:
        """Pass on submissions and ends."""
        if not isinstance(event, KeySignalled):
            self._waits.pass_on(event)


def _correct(event: Event, name: str, value: int | Outcome) -> None:
    """Change a field of an event that no observer has seen yet; a copy would cost a tenth of an expiry."""
    object.__setattr__(event, name, value)
