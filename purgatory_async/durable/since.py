"""What was signalled after an index: the kept signals of keys and of prefixes, oldest first."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappush, heappushpop
from itertools import islice
from operator import itemgetter
from typing import Final, NamedTuple

from purgatory_async.durable.fold.kept_signals import KeptSignals, Key
from purgatory_async.durable.fold.signals import Signal

NEAR: Final = 256
"""How many keys a reader of a prefix looks at before it looks at all of them."""
AT_ONCE: Final = 1024
"""How many of all keys it looks at in one pass of the loop: half a millisecond."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The index up to which a reader has seen signals, and the history that it belongs to."""

    history: str
    index: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """The keys, and the prefixes of keys, that a reader follows."""

    keys: tuple[str, ...]
    prefixes: tuple[str, ...]


class Found(NamedTuple):
    """The signals after an index, as many as asked for, and whether one may be missing."""

    signals: Sequence[Signal]
    gap: bool


def near(kept: KeptSignals, prefixes: tuple[str, ...], index: int) -> dict[str, Key] | None:
    """Return the keys with a prefix and a signal above an index; None if many keys have such a signal. O(`NEAR`)."""
    found = dict[str, Key]()
    # From the key that was signalled last, so a reader that is not far behind sees few of them.
    for key, known in islice(reversed(kept.keys.items()), NEAR if prefixes else 0):
        if known.signals[-1].view.index <= index:
            return found
        if key.startswith(prefixes):
            found[key] = known
    return found if len(kept.keys) <= NEAR or not prefixes else None


class Survey:
    """A search of all keys, a few at a time, for a reader of prefixes that is far behind.

    Signals may come and go between two steps. A key that had its turn and is signalled later is found by its new
    signal. One that lost signals meanwhile matters only among those that begin first: then all must be looked at again.

    Args:
        kept: The signals of all keys.
        prefixes: What the keys begin with.
        index: The index of the last signal that the reader has.
        most: How many signals it wants.
    """

    def __init__(self, kept: KeptSignals, prefixes: tuple[str, ...], index: int, most: int) -> None:
        self._kept: Final = kept
        self._prefixes: Final = prefixes
        self._index: Final = index
        self._most: Final = most
        self._highest: Final = kept.highest
        self._gap = False
        self._first: list[tuple[int, int, Key]] = []  # a heap, the one that begins last on top

    def __repr__(self) -> str:
        return f"<Survey first={len(self._first)} gap={self._gap}>"

    def steps(self) -> Iterator[None]:
        """Look at the keys; yields after each `AT_ONCE`. O(keys log most)."""
        # The plain dict's values, which takes a fifth of the time.
        for nth, known in enumerate(list(dict[str, Key].values(self._kept.keys)), 1):
            signals = known.signals
            if (
                signals
                and signals[-1].view.index > self._index
                and signals[-1].view.key.startswith(self._prefixes)
            ):
                self._note(known)
            if nth % AT_ONCE == 0:
                yield

    def _note(self, known: Key) -> None:
        start, missing = _start(known, self._index, self._kept.too_old_us)
        self._gap = self._gap or missing
        if start < len(known.signals):
            begins = known.signals[start].view.index
            push = heappush if len(self._first) < self._most else heappushpop
            push(self._first, (-begins, id(known), known))

    def found(self, wanted: Wanted) -> Found | None:
        """Return what `kept_since` does, after the last step; None if those that begin first have lost signals.

        O(most + keys signalled since the first step).
        """
        keys = dict[str, Key]()
        for begins, _, known in self._first:
            start, _ = _start(known, self._index, self._kept.too_old_us) if known.signals else (0, True)
            if start >= len(known.signals) or known.signals[start].view.index != -begins:
                return None
            keys[known.signals[start].view.key] = known
        for key, known in reversed(self._kept.keys.items()):
            if known.signals[-1].view.index <= self._highest:
                break
            if key.startswith(self._prefixes):
                keys[key] = known
        found = kept_since(self._kept, wanted, self._index, self._most, keys)
        return found._replace(gap=found.gap or self._gap)


def kept_since(
    kept: KeptSignals, wanted: Wanted, index: int, most: int, beginning: Mapping[str, Key] | None = None
) -> Found:
    """Return the oldest kept signals above an index. O(wanted and given keys), or O(all keys).

    Args:
        kept: The signals of all keys.
        wanted: What to look for.
        index: The index of the last signal that the reader has.
        most: How many signals to return at most.
        beginning: The keys with a wanted prefix, as `near` or `Survey` finds them; None to look for them here.
    """
    found = {key: kept.keys[key] for key in wanted.keys if key in kept.keys}
    # A key that is not kept may have been signalled up to the floor.
    gap = kept.floor > index and (len(found) < len(wanted.keys) or bool(wanted.prefixes))
    if beginning is None:
        beginning = {key: known for key, known in kept.keys.items() if key.startswith(wanted.prefixes)}
    found.update(beginning)
    begun: list[tuple[int, int, Key]] = []
    too_old_us = kept.too_old_us
    for known in found.values():
        start, missing = _start(known, index, too_old_us)
        gap = gap or missing
        if start < len(known.signals):
            begun.append((known.signals[start].view.index, start, known))
    begun.sort(key=itemgetter(0))
    # The oldest signals are on the keys that begin first.
    oldest = [signal for _, start, known in begun[:most] for signal in known.signals[start : start + most]]
    oldest.sort(key=lambda signal: signal.view.index)
    return Found(oldest[:most], gap)


def _start(known: Key, index: int, too_old_us: int) -> tuple[int, bool]:
    """Return where a key's signals above an index begin, and whether some of them were dropped. O(log kept)."""
    signals = known.signals
    first = 0
    if signals[0].view.index <= index:
        first = bisect_right(signals, index, key=lambda signal: signal.view.index)
    start = first
    if start < len(signals) and signals[start].at_us <= too_old_us:
        start = bisect_right(signals, too_old_us, start, key=lambda signal: signal.at_us)
    return start, known.floor > index or start > first
