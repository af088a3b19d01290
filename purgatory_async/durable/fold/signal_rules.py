"""The rules for signals: which they refuse, and which operations they complete.

The signals of an entry happen one after the other, and each completes the oldest operations first. Each operation
decides on all of them at once, before the first happens, with the same result as one by one.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from msgspec import UNSET, UnsetType

from purgatory_async import events
from purgatory_async.core.reports import report
from purgatory_async.durable.documents import KeyedSignal
from purgatory_async.durable.fold import entries as kinds
from purgatory_async.durable.fold.batch import Batch
from purgatory_async.durable.fold.kept_bytes import size_of_voter
from purgatory_async.durable.fold.kept_signals import KeptSignals, KeySignalled
from purgatory_async.durable.fold.needs import Voters
from purgatory_async.durable.fold.operations import Operation, Operations
from purgatory_async.durable.fold.replays import Repeatable, Replays
from purgatory_async.durable.fold.results import Refused, Result, Signalled
from purgatory_async.durable.fold.shared import MOST_OF_ENTRY, Shared, Work
from purgatory_async.durable.fold.signals import Signal
from purgatory_async.events import Observer

FEW: Final = 64
"""Operations on a key that are checked without a break: some 50 us, and half a millisecond if all end."""
AT_ONCE: Final = 16
"""Operations that are checked between two breaks otherwise."""


class Counting(Observer):
    """An observer that counts signals for waits of its own, beside the operations. This one has none.

    Attributes:
        crowded: Whether so many wait that one signal may take long to count.
    """

    crowded = False

    def notify(self, event: events.Event) -> None:
        """Hear an event; see `Observer`."""

    def watching(self, key: str) -> int:  # noqa: ARG002 - none
        """Return how many wait for a key. O(1)."""
        return 0

    def take(self, batch: Batch) -> Iterator[None]:  # noqa: ARG002 - none
        """Count all signals of a batch, before each of them is told; yields for each break."""
        return iter(())


class SignalRules:
    """Applies signals.

    Args:
        signals, operations, replays, shared: The parts of the fold.
        replayed: Returns an earlier answer to an entry, if there is one.
        observer: The observer of the operations, which may be `Counting`; None for none.
    """

    def __init__(
        self,
        signals: KeptSignals,
        operations: Operations,
        replays: Replays,
        shared: Shared,
        *,
        replayed: Callable[[Repeatable], Result | None],
        observer: Observer | None,
    ) -> None:
        self._signals: Final = signals
        self._operations: Final = operations
        self._purgatory: Final = operations.purgatory
        self._replays: Final = replays
        self._shared: Final = shared
        self._replayed: Final = replayed
        self._observer: Final = observer
        self._counting: Final = observer if isinstance(observer, Counting) else Counting()
        self.by_kind: Final[dict[type[kinds.Entry], Callable[[Any], Result | Work[Result]]]] = {
            kinds.SignalKey: self._signal,
            kinds.SignalKeys: self._batch,
        }

    def _signal(self, entry: kinds.SignalKey) -> Result | Work[Result]:
        if entry.idem is not UNSET and (earlier := self._replayed(entry)) is not None:
            return earlier
        if self._operations.voting and entry.voter is not UNSET:
            return self._vote(entry)
        shared, purgatory = self._shared, self._purgatory
        if not shared.fits_any(entry) and (refused := self._refused(entry, (entry,))) is not None:
            return refused
        signal = self._signals.new(shared.position, entry, entry.owner)
        self._signals.note(signal)
        shared.totals.signals += 1
        # If few operations share a key, this key has few, too; counting its watchers takes twice as long as this check.
        if (purgatory.watched - purgatory.keys >= FEW and self._watched_by(entry.key) > FEW) or (
            self._counting.crowded and self._counting.watching(entry.key) > FEW
        ):
            return self._check_many(entry, signal)
        completed = purgatory.check_and_complete(entry.key)
        if self._operations.telling.untold:
            self._operations.telling.ends()
        shared.effects.append(KeySignalled(signal, completed))
        answer = Signalled(shared.position, completed)
        if entry.idem is not UNSET:
            self._replays.keep(entry, answer)
        return answer

    def _vote(self, entry: kinds.SignalKey) -> Work[Result]:
        """Do as `_signal` for a voter whom operations may have to remember."""
        refused = self._refused(entry, (entry,), *(yield from self._growth(entry, (entry,))))
        if refused is not None:
            return refused
        signal = self._signals.new(self._shared.position, entry, entry.owner)
        self._signals.note(signal)
        self._shared.totals.signals += 1
        return (yield from self._check_many(entry, signal))

    def _growth(
        self, entry: kinds.SignalKey | kinds.SignalKeys, signals: Sequence[kinds.SignalKey | KeyedSignal]
    ) -> Work[tuple[int, int]]:
        """Return how many bytes at most operations will pin for new voters: for all owners, and for the entry's.

        Zeros where any number of them fits. O(operations on the keys x voters) otherwise.
        """
        by_key = dict[str, dict[str, int]]()
        for signal in signals:
            if not isinstance(signal.voter, UnsetType):
                by_key.setdefault(signal.key, {})[signal.voter] = size_of_voter(signal.voter)
        most = self._operations.voting * sum(sum(sizes.values()) for sizes in by_key.values())
        if entry.quota is UNSET and self._shared.fits(MOST_OF_ENTRY + most):
            return 0, 0
        growth = own = 0
        for key, sizes in by_key.items():
            for operation in self._watching(key):
                if isinstance(operation.need, Voters):
                    size = operation.need.growth(sizes)
                    growth += size
                    own += size if operation.owner == entry.owner else 0
                yield
        return growth, own

    def _check_many(self, entry: kinds.SignalKey, signal: Signal) -> Work[Result]:
        completed = 0
        for nth, operation in enumerate(self._watching(entry.key)):
            if operation.note(signal):
                completed += operation.force_complete(UNSET)
            if nth % AT_ONCE == 0:
                yield
        yield from self._counting.take(Batch([signal]))
        yield from self._operations.telling.each_end()
        self._tell(signal, completed)
        return self._answered(entry, completed)

    def _batch(self, entry: kinds.SignalKeys) -> Result | Work[Result]:
        earlier = self._replayed(entry)
        if earlier is not None:
            return earlier
        before = self._shared.position - entry.positions
        if before < self._signals.highest:
            return Refused("no-room")
        return self._happen(entry, before)

    def _happen(self, entry: kinds.SignalKeys, before: int) -> Work[Result]:
        growth = (yield from self._growth(entry, entry.signals)) if self._operations.voting else (0, 0)
        refused = self._refused(entry, entry.signals, *growth)
        if refused is not None:
            return refused
        new, owner = self._signals.new, entry.owner
        signals = [new(before + nth, each, owner) for nth, each in enumerate(entry.signals, 1)]
        batch = Batch(signals)
        ends = yield from self._decided(batch)
        yield from self._counting.take(batch)
        self._shared.totals.signals += len(signals)
        completed = 0
        for signal in signals:
            self._signals.note(signal)
            ending = ends.get(signal.view.index, ())
            for operation in ending:
                operation.force_complete(UNSET)
                yield
            yield from self._operations.telling.each_end()
            self._tell(signal, len(ending))
            completed += len(ending)
            yield
        return self._answered(entry, completed)

    def _decided(self, batch: Batch) -> Work[dict[int, list[Operation]]]:
        """Let the operations count a batch; return which end with each of its signals, the oldest first."""
        ends = dict[int, list[Operation]]()
        counted = set[int]()
        for key in batch.keys:
            for operation in self._watching(key):
                if operation.position in counted:
                    continue
                if len(operation.watch_keys) > 1:
                    counted.add(operation.position)
                end = operation.take(batch)
                if end is not None:
                    ends.setdefault(end.view.index, []).append(operation)
                yield
        for ending in ends.values():
            ending.sort(key=lambda operation: operation.position)
        return ends

    def _watching(self, key: str) -> Iterator[Operation]:
        """Iterate over the operations on a key, the oldest first."""
        return (each for each in self._purgatory.operations(key) if isinstance(each, Operation))

    def _watched_by(self, key: str) -> int:
        """How many operations watch a key."""
        return next((count for _, count in self._purgatory.watchers((key,))), 0)

    def _tell(self, signal: Signal, completed: int) -> None:
        """Report a signal, as the purgatory does after a check of all operations on a key."""
        observer = self._observer
        if observer is not None:
            at_ns = self._shared.clock.now_ns
            event = events.KeySignalled(key=signal.view.key, completed=completed, at_ns=at_ns)
            try:
                observer.notify(event)
            except Exception as exception:  # noqa: BLE001 - an observer must do no harm
                report(f"observer {observer!r} raised at {event!r}", exception, observer)
        self._shared.effects.append(KeySignalled(signal, completed))

    def _answered(self, entry: kinds.SignalKey | kinds.SignalKeys, completed: int) -> Signalled:
        answer = Signalled(self._shared.position, completed)
        self._replays.keep(entry, answer)
        return answer

    def _refused(
        self,
        entry: kinds.SignalKey | kinds.SignalKeys,
        signals: Sequence[kinds.SignalKey | KeyedSignal],
        more: int = 0,
        more_own: int = 0,
    ) -> Refused | None:
        if not more and self._shared.fits_any(entry):
            return None
        size, own = self._signals.growth(signals, entry.owner)
        return self._shared.refusal(entry, size + more, own + more_own)
