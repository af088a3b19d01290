"""Finds the signal that satisfies each operation: the first at which the sum on its keys reaches ``needed``.

The signals are laid out key by key, in the order of ``seq`` within each, with running sums. Then every question is
a binary search in one sorted array, asked for all operations at once:

- one key: the sum that has to be reached is the one at the submission plus ``needed``; look it up;
- several keys, one signal needed: the earliest of the keys' answers;
- several keys, more than one needed: bisect the order of signals. How much came up to a given signal is one look-up
  for each key, and all operations halve their ranges together.

A signal counts only for operations submitted before it; ``seq`` orders records of one instant.

>>> signals = Signals.of(seq=[2, 4, 5], key=[0, 1, 0], n=[1, 1, 3])
>>> waits = Waits.of(submit_seq=[1, 1, 3], needed=[1, 2, 3], keys=[[0], [0, 1], [0, 1]])
>>> satisfied(waits, signals)
array([0, 1, 2])
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]

AT_ONCE: Final = -1
"""Instead of a signal: the operation needed none."""


@dataclass(frozen=True, slots=True)
class Signals:
    """The signals of one run and node, ascending by ``seq``."""

    seq: Ints
    key: Ints  # its number, from 0
    n: Ints  # how much the signal counts

    @classmethod
    def of(cls, seq: ArrayLike, key: ArrayLike, n: ArrayLike) -> "Signals":
        """Make them from anything that numpy takes for integers."""
        return cls(_ints(seq), _ints(key), _ints(n))


@dataclass(frozen=True, slots=True)
class Waits:
    """The operations of the same run and node."""

    submit_seq: Ints
    needed: Ints  # the sum that completes it
    offsets: Ints  # where each operation's keys begin in ``keys``, and where the last one's end
    keys: Ints  # their numbers; each operation has at least one, and each once

    @classmethod
    def of(cls, submit_seq: ArrayLike, needed: ArrayLike, keys: Sequence[Sequence[int]]) -> "Waits":
        """Make them from the keys of each."""
        offsets = np.cumsum([0, *map(len, keys)])
        return cls(_ints(submit_seq), _ints(needed), _ints(offsets), _ints(list(chain.from_iterable(keys))))

    def only(self, chosen: NDArray[np.bool_]) -> "Waits":
        """Some of them, in order."""
        counts = np.diff(self.offsets)
        offsets = np.concatenate([[0], np.cumsum(counts[chosen])])
        keys = self.keys[np.repeat(chosen, counts)]
        return Waits(self.submit_seq[chosen], self.needed[chosen], offsets, keys)


def satisfied(waits: Waits, signals: Signals) -> Ints:
    """Find the signal that satisfies each operation of the same run and node.

    Returns:
        For each operation the position of the signal, the number of signals if there is none, or `AT_ONCE`.

    O((operation-keys + signals) log signals), times log signals again for operations with several keys that need
    more than one. A negative ``n`` makes sums fall again; the operations on such a key are gone through one by one.
    """
    never = len(signals.seq)
    found = np.full(len(waits.needed), never, np.int64)
    found[waits.needed <= 0] = AT_ONCE
    asked = (waits.needed > 0) & (np.diff(waits.offsets) > 0)
    if not never or not asked.any():
        return found
    some = waits.only(asked)
    search = _Search(some, signals)
    answer = search.first_passage()
    joint = (np.diff(some.offsets) > 1) & (some.needed > 1)
    if joint.any():
        answer[joint] = _Search(some.only(joint), signals).joint_passage(answer[joint])
    for place in np.flatnonzero(search.falling()):
        answer[place] = search.replay(int(place))
    found[asked] = answer
    return found


class _Search:
    """Operations against signals. A *rank* is an index in the order of seq, a *position* an index in the order of keys.

    A *pair* is an operation with one of its keys. Pairs are looked up in the order of their keys, so that neighbours
    look at the same signals: in the order of operations nearly every step of a search would miss the cache.
    """

    def __init__(self, waits: Waits, signals: Signals) -> None:
        self.waits = waits
        self.never = len(signals.seq)
        self.rank = np.argsort(signals.key, kind="stable")
        self.key = signals.key[self.rank]
        self.n = signals.n[self.rank]
        # Key and rank in one number, ascending: a search in it answers for any key.
        self.order = self._ordered(self.key, self.rank)
        # All keys share one running sum, of which only differences within a key are used. A search needs it to be
        # ascending; keys with negative signals do not use it.
        self.sum_before = np.concatenate([[0], np.cumsum(np.maximum(self.n, 0))])
        self.start = np.searchsorted(signals.seq, waits.submit_seq, side="right")
        owner = np.repeat(np.arange(len(waits.needed)), np.diff(waits.offsets))
        self.by_key = np.argsort(self._ordered(waits.keys, self.start[owner]))
        self.owner = owner[self.by_key]
        self.watched = waits.keys[self.by_key]
        self.first = self._position(self.start[self.owner])
        self.base = self.sum_before[self.first]

    def first_passage(self) -> Ints:
        """For each operation the earliest rank at which one of its keys alone brings what it needs."""
        target = self.base + self.waits.needed[self.owner]
        position = np.searchsorted(self.sum_before, target, side="left") - 1
        inside = np.minimum(position, self.never - 1)
        reached = (position < self.never) & (self.key[inside] == self.watched)
        return self._by_operation(np.minimum, np.where(reached, self.rank[inside], self.never))

    def joint_passage(self, latest: Ints) -> Ints:
        """For each operation the rank at which its keys together bring what it needs.

        Args:
            latest: A rank at which it is certainly there, if it ever is.
        """
        low, high = self.start.copy(), latest.copy()
        while (unsure := low < high).any():
            middle = (low + high) // 2
            until = self._position(middle[self.owner] + 1)
            came = self._by_operation(np.add, self.sum_before[until] - self.base)
            reached = came >= self.waits.needed
            high = np.where(unsure & reached, middle, high)
            low = np.where(unsure & ~reached, middle + 1, low)
        return high

    def falling(self) -> NDArray[np.bool_]:
        """Which operations watch a key on which some signal counts less than nothing."""
        if not (self.n < 0).any():
            return np.zeros(len(self.waits.needed), np.bool_)
        return self._by_operation(np.maximum, np.isin(self.watched, self.key[self.n < 0])).astype(np.bool_)

    def replay(self, place: int) -> int:
        """The answer for one operation, by adding up its signals in order. O(pairs + its signals log them)."""
        pairs = np.flatnonzero(self.owner == place)
        lasts = np.searchsorted(self.key, self.watched[pairs], side="right")
        spans = zip(self.first[pairs], lasts, strict=True)
        positions = np.concatenate([np.arange(first, last) for first, last in spans])
        positions = positions[np.argsort(self.rank[positions])]
        reached = np.flatnonzero(np.cumsum(self.n[positions]) >= self.waits.needed[place])
        return int(self.rank[positions[reached[0]]]) if len(reached) else self.never

    def _ordered(self, key: Ints, rank: Ints) -> Ints:
        return key * (self.never + 1) + rank

    def _position(self, rank: Ints) -> Ints:
        """For each pair the position of the first signal on its key with at least this rank, or past the last."""
        return np.searchsorted(self.order, self._ordered(self.watched, rank), side="left")

    def _by_operation(self, reduce: np.ufunc, values: NDArray[np.generic]) -> Ints:
        """Bring the values of pairs together for each operation."""
        apart = np.empty_like(values)
        apart[self.by_key] = values
        together: Ints = reduce.reduceat(apart, self.waits.offsets[:-1])
        return together


def _ints(values: ArrayLike) -> Ints:
    return np.asarray(values, dtype=np.int64)
