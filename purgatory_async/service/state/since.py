"""What was signalled after an index: the kept signals of keys and of prefixes, oldest first."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Final, NamedTuple

from purgatory_async.service.state.fold.kept_signals import KeptSignals, Key
from purgatory_async.service.state.signals import Signal

__all__ = ["Found", "Place", "Wanted", "kept_since"]

NEAR: Final = 256
"""How many keys a reader of a prefix looks at before it looks at all of them."""


@dataclass(frozen=True, slots=True)
class Place:
    """An index, and the history that it belongs to."""

    history: str
    index: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """The keys, and the prefixes of keys, that a reader follows."""

    keys: tuple[str, ...]
    prefixes: tuple[str, ...]


class Found(NamedTuple):
    """The signals after an index, as many as asked for; and whether one of them may be missing."""

    signals: Sequence[Signal]
    gap: bool


def kept_since(kept: KeptSignals, wanted: Wanted, index: int, most: int) -> Found:
    """Return the oldest kept signals above an index.

    O(wanted keys), and with prefixes O(all keys) if more than `NEAR` of them have a signal above the index.

    Args:
        kept: The signals of all keys.
        wanted: What to look for.
        index: Of the last signal that the reader has.
        most: How many signals to return at most.
    """
    found = {key: kept.keys[key] for key in wanted.keys if key in kept.keys}
    # A key that is not kept may have been signalled up to the floor.
    gap = kept.floor > index and (len(found) < len(wanted.keys) or bool(wanted.prefixes))
    if wanted.prefixes:
        found.update(_beginning_with(kept, wanted.prefixes, index))
    begun: list[tuple[int, int, Key]] = []
    too_old_us = kept.too_old_us
    for known in found.values():
        start, missing = _start(known, index, too_old_us)
        gap = gap or missing
        if start < len(known.signals):
            begun.append((known.signals[start].view.index, start, known))
    begun.sort(key=itemgetter(0))
    # The oldest signals are among those of the keys that begin first.
    oldest = [signal for _, start, known in begun[:most] for signal in known.signals[start : start + most]]
    oldest.sort(key=lambda signal: signal.view.index)
    return Found(oldest[:most], gap)


def _beginning_with(kept: KeptSignals, prefixes: tuple[str, ...], index: int) -> Iterable[tuple[str, Key]]:
    """Return the keys with a prefix and a signal above an index. O(keys with such a signal), or O(all keys)."""
    near: list[tuple[str, Key]] = []
    # From the key that was signalled last, so a reader that is not far behind sees few of them.
    for key, known in islice(reversed(kept.keys.items()), NEAR):
        if known.signals[-1].view.index <= index:
            return near
        if key.startswith(prefixes):
            near.append((key, known))
    # One that is looks at all of them, in the order of the plain dict, which takes a fifth of the time.
    return [
        (key, known)
        for key, known in dict[str, Key].items(kept.keys)
        if key.startswith(prefixes) and known.signals[-1].view.index > index
    ]


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
