"""What was signalled after an index: the kept signals of keys and of prefixes, oldest first."""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nsmallest
from operator import itemgetter
from typing import NamedTuple

from purgatory_async.service.state.fold.kept_signals import KeptSignals, Key
from purgatory_async.service.state.signals import Signal

__all__ = ["Found", "Place", "Wanted", "kept_since"]


@dataclass(frozen=True, slots=True)
class Place:
    """An index, and the epoch that it belongs to."""

    epoch: str
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

    O(wanted keys), and with prefixes also O(keys with a signal above the index).

    Args:
        kept: The signals of all keys.
        wanted: What to look for.
        index: Of the last signal that the reader has.
        most: How many signals to return at most.
    """
    found: dict[str, Key] = {key: kept.keys[key] for key in wanted.keys if key in kept.keys}
    # A key that is not kept may have been signalled up to the floor.
    gap = kept.floor > index and (len(found) < len(wanted.keys) or bool(wanted.prefixes))
    if wanted.prefixes:
        # From the key that was signalled last, so a reader that is not far behind sees few of them.
        for key, known in reversed(kept.keys.items()):
            if known.signals[-1].view.index <= index:
                break
            if key.startswith(wanted.prefixes):
                found[key] = known
    begun: list[tuple[int, int, Key]] = []
    for known in found.values():
        start, missing = kept.kept_after(known, index)
        gap = gap or missing
        if start < len(known.signals):
            begun.append((known.signals[start].view.index, start, known))
    # The oldest signals are among those of the keys that begin first.
    oldest = [
        signal
        for _, start, known in nsmallest(most, begun, key=itemgetter(0))
        for signal in known.signals[start : start + most]
    ]
    oldest.sort(key=lambda signal: signal.view.index)
    return Found(oldest[:most], gap)
