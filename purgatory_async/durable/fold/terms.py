"""The terms of a log: which of two histories of one log an index belongs to.

A restored backup has the epoch and the first entries of the log that it was taken from, and then goes on otherwise.
Each run of a worker introduces itself under a random name before it appends anything else. That begins a **term**. So
two histories share the terms up to where they part, and each has terms of its own from there on.
"""

from bisect import bisect_right
from hashlib import blake2b
from typing import Final

Begun = tuple[tuple[int, str], ...]
"""Terms: the position at which each began, and its name."""

KEPT: Final = 1_000
_NAME: Final = slice(8)  # of the writer's name: 32 random bits


class Terms:
    """The last 1 000 terms at least.

    >>> terms = Terms()
    >>> terms.begin(1, "aaaaaaaa0001")
    >>> terms.begin(9, "bbbbbbbb0002")
    >>> terms.at(0), terms.at(8), terms.at(9)
    ('', 'aaaaaaaa', 'bbbbbbbb')
    >>> terms.reach(8, "aaaaaaaa"), terms.reach(8, "bbbbbbbb"), terms.reach(9, "aaaaaaaa"), terms.reach(8, "cccccccc")
    (True, True, False, False)
    """

    def __init__(self) -> None:
        self._positions: Final[list[int]] = []
        self._names: Final[list[str]] = []

    def begin(self, position: int, writer: str) -> None:
        """Begin a term at the introduction of a writer. O(1), amortised."""
        self._positions.append(position)
        self._names.append(writer[_NAME])
        if len(self._positions) == 2 * KEPT:
            del self._positions[:KEPT], self._names[:KEPT]

    def at(self, index: int) -> str:
        """Return the name of the term of an index; empty if it is not known. O(log terms)."""
        place = bisect_right(self._positions, index)
        return self._names[place - 1] if place else ""

    def reach(self, index: int, name: str) -> bool:
        """Whether a reader in a term, who has read up to an index, has read this history. O(terms).

        The term may have begun after the index: then the histories are equal beyond it.
        """
        place = bisect_right(self._positions, index)
        return name in self._names[max(place - 1, 0) :]

    def saved(self) -> Begun:
        """Return all, the oldest first, for a checkpoint. O(terms)."""
        return tuple(zip(self._positions, self._names, strict=True))

    def resume(self, saved: Begun) -> None:
        """Take over the terms of a checkpoint. O(terms)."""
        for position, name in saved:
            self.begin(position, name)


def seal(terms: Begun, state: str) -> str:
    """Return what shows whether saved terms belong to a state, given its digest; empty for none. O(terms)."""
    return blake2b(repr((terms, state)).encode(), digest_size=12).hexdigest() if terms else ""
