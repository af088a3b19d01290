"""The signals of the fold: the newest of each key, and the last ones, for waits that begin at an index.

A signal's index is a position in the log. A key's last signals leave one by one when newer ones come, and all at once
when the key is idle; the floor says above which index none is missing.

The first to make room is the signal that a newer one of its key superseded first. Each turn in the queue of turns
stands for the oldest signal of a key that has not had its turn. A signal that left before its turn leaves a stale turn
behind, so nothing is searched for; stale turns are swept once they are half of all.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Final

from purgatory_async.durable.documents import KeyedSignal, SignalView
from purgatory_async.durable.fold.entries import SignalKey
from purgatory_async.durable.fold.kept_bytes import size_of_signal, text_bytes
from purgatory_async.durable.fold.shared import AT_ONCE, NEVER_US, Effect, Shared
from purgatory_async.durable.fold.signals import Signal

_FEW: Final = 64  # turns that are not worth sweeping


class Key:
    """The last signals of a key.

    Attributes:
        signals: Oldest first and never empty, but for a key that was dropped.
        floor: The index above which none was dropped.
        stale: How many turns in `Superseded` are of signals that left.
    """

    __slots__ = ("floor", "signals", "stale")

    def __init__(self, signals: list[Signal], floor: int) -> None:
        self.signals = signals
        self.floor = floor
        self.stale = 0

    def __repr__(self) -> str:
        return f"<Key signals={len(self.signals)} floor={self.floor}>"


class Superseded:
    """The turns of all keys."""

    __slots__ = ("_stale", "_turns")

    def __init__(self) -> None:
        self._turns: deque[Key] = deque()
        self._stale = 0

    def __repr__(self) -> str:
        return f"<Superseded turns={len(self._turns)} stale={self._stale}>"

    def add(self, key: Key) -> None:
        """Give a turn to the signal of a key that a newer one has just superseded. O(1)."""
        self._turns.append(key)

    def left(self, key: Key, count: int) -> None:
        """Note that the oldest superseded signals of a key have left. O(1), amortised."""
        key.stale += count
        self._stale += count
        if self._stale > _FEW and self._stale * 2 > len(self._turns):
            self._turns = deque(each for each in self._turns if not self._pass(each))

    def next(self) -> Key | None:
        """Take the next turn: a key whose oldest signal must leave now; None if there is none. O(1), amortised."""
        while self._turns:
            key = self._turns.popleft()
            if not self._pass(key):
                return key
        return None

    def _pass(self, key: Key) -> bool:
        """Use up a stale turn of a key, if it has one."""
        if not key.stale:
            return False
        key.stale -= 1
        self._stale -= 1
        return True


class KeySignalled(Effect, frozen=True, eq=False):
    """A key was signalled; the ends that this caused come before it."""

    signal: Signal
    completed: int

    @property
    def fact(self) -> tuple[str | int, ...]:
        """The signal's index, and how many operations it completed."""
        return (self.signal.view.index, self.completed)


class KeptSignals:
    """The signals of all keys that are not idle.

    Attributes:
        newest: The newest signal of all.
        index: Its index.
        keys: By the age of their newest signal, the oldest first.
        floor: The index above which no key was dropped.
    """

    def __init__(self, shared: Shared) -> None:
        self.newest: Signal | None = None
        self.index = 0
        self.floor = 0
        self.keys: Final[OrderedDict[str, Key]] = OrderedDict()
        self._shared: Final = shared
        self._superseded: Final = Superseded()

    def growth(self, signals: Sequence[SignalKey | KeyedSignal], owner: str | None) -> tuple[int, int]:
        """Return how many bytes more signals will pin: for all owners, and for the signals' own. O(signals).

        Each key's newest signal makes room for the first of them, unless a pending operation shows it.
        """
        growth = own = 0
        seen = set[str]()
        for signal in signals:
            size = size_of_signal(signal)
            growth += size
            own += size
            if signal.key not in seen:
                seen.add(signal.key)
                known = self.keys.get(signal.key)
                if known is None:
                    growth += text_bytes(signal.key)
                elif known.signals[-1].pins == 1:
                    growth -= known.signals[-1].size
                    if known.signals[-1].owner == owner:
                        own -= known.signals[-1].size
        return growth, own

    def new(self, index: int, entry: SignalKey | KeyedSignal, owner: str | None = None) -> Signal:
        """Return the signal of an entry, which `note` takes. O(1)."""
        view = SignalView(entry.key, index, entry.value, entry.voter)
        return Signal(view, entry.amount, self._shared.clock.now_us, size_of_signal(entry), owner=owner)

    def note(self, signal: Signal) -> None:
        """Make a signal the newest of its key and of all keys. O(1), amortised."""
        shared, key, now_us = self._shared, signal.view.key, signal.at_us
        kept = shared.kept
        self.index = signal.view.index
        kept.show(signal)
        self.newest = signal
        known = self.keys.get(key)
        if known is None:
            self.keys[key] = Key([signal], self.floor)
            kept.pin(text_bytes(key))
        else:
            kept.unpin(known.signals[-1])
            self._superseded.add(known)
            known.signals.append(signal)
            self.keys.move_to_end(key)
            too_old_us = now_us - now_us % 1000 - shared.limits.keep_for_us
            self._cut(known, too_old_us)

    def latest(self, key: str) -> SignalView | None:
        """Return the key's newest signal; None if it has none, or was idle for the retention time. O(1)."""
        known = self.keys.get(key)
        if known is None:
            return None
        shared, newest = self._shared, known.signals[-1]
        now_us = shared.clock.now_us
        idle = newest.at_us + shared.limits.retention_us <= now_us - now_us % 1000
        return None if idle else newest.view

    @property
    def highest(self) -> int:
        """The index of the newest signal ever, as far as is known; equal at all replicas. O(1)."""
        if not self.keys:
            return self.floor
        return self.keys[next(reversed(self.keys))].signals[-1].view.index

    @property
    def too_old_us(self) -> int:
        """The log time up to which signals are dropped, except the newest of each key. O(1)."""
        now_us = self._shared.clock.now_us
        return now_us - now_us % 1000 - self._shared.limits.keep_for_us

    def forget(self, whole_us: int) -> int:
        """Drop the keys that were idle for long enough; as `Operations.forget`. O(dropped)."""
        limits = self._shared.limits
        keep = max(limits.retention_us, limits.keep_for_us)
        for _ in range(AT_ONCE):
            if not self.keys:
                return NEVER_US
            key, known = next(iter(self.keys.items()))
            newest = known.signals[-1]
            if newest.at_us + keep > whole_us:
                return newest.at_us + keep
            del self.keys[key]
            self.floor = newest.view.index  # keys leave in the order of their newest signals
            kept = self._shared.kept
            kept.pin(-text_bytes(key))
            kept.unpin(newest)
            self._let_go(known, len(known.signals))
        return whole_us

    def make_room(self) -> bool:
        """Drop the signal that was superseded first; False if none is left but the newest of each key. O(1)."""
        known = self._superseded.next()
        if known is None:
            return False
        signal = known.signals.pop(0)
        known.floor = signal.view.index
        self._shared.kept.let_go(signal)
        return True

    def resume(self, key: str, signals: list[Signal], floor: int) -> None:
        """Restore the signals of a key, keys in the order of `keys`. O(signals)."""
        self.keys[key] = Key(signals, floor)
        self.index = signals[-1].view.index
        kept = self._shared.kept
        kept.pin(text_bytes(key))
        kept.show(signals[-1])
        for signal in signals[:-1]:
            kept.refer(signal)

    def take_turns(self) -> None:
        """Give the superseded signals their turns, once all keys are taken over. O(n log n)."""
        turns = [
            (newer.view.index, known)
            for known in self.keys.values()
            for newer in islice(known.signals, 1, None)
        ]
        for _, known in sorted(turns, key=itemgetter(0)):
            self._superseded.add(known)

    def cut(self) -> Iterator[None]:
        """Drop what new limits no longer keep, with breaks. O(keys)."""
        too_old_us = self.too_old_us
        for nth, known in enumerate(self.keys.values()):
            self._cut(known, too_old_us)
            if nth % AT_ONCE == 0:
                yield

    def _cut(self, known: Key, too_old_us: int) -> None:
        """Drop a key's signals beyond the limit or up to a log time, but never the newest."""
        signals = known.signals
        first, last = max(len(signals) - self._shared.limits.keep_signals, 0), len(signals) - 1
        while first < last and signals[first].at_us <= too_old_us:
            first += 1
        if first:
            known.floor = signals[first - 1].view.index
            self._let_go(known, first)

    def _let_go(self, known: Key, count: int) -> None:
        """Drop the oldest signals of a key."""
        signals = known.signals
        for signal in signals[:count]:
            self._shared.kept.let_go(signal)
        # The newest of a key has no turn.
        self._superseded.left(known, min(count, len(signals) - 1))
        del signals[:count]
