"""The prefix of a key: the part before its first ``:`` or ``/``; a key without such a sign has none.

An operation counts once under each prefix that its keys have, so the counts of prefixes can add up to more than the
operations.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints = NDArray[np.int64]
_SIGN: Final = "[:/]"

PREFIX: Final = f"if(key rlike '{_SIGN}', split(key, '{_SIGN}', 2)[0], null)"
"""The prefix of a column ``key``, in Spark SQL."""


@dataclass(frozen=True, slots=True)
class Prefixed:
    """Pairs of an operation and a prefix of its keys, each pair once, in the order of ``number`` and ``row``.

    >>> found = Prefixed.of(pa.array([["api:1", "api:2/3"], ["human/1", "api:1"], ["plain"]]))
    >>> [(found.names[number], int(row)) for number, row in zip(found.number, found.row)]
    [('api', 0), ('api', 1), ('human', 1), (None, 2)]
    """

    names: list[str | None]  # of the prefixes; None for keys without one
    number: Ints  # of each pair: the place of its prefix in ``names``
    row: Ints  # its operation

    @classmethod
    def of(cls, keys: pa.Array | pa.ChunkedArray) -> "Prefixed":
        """Find them in a column of lists of keys. O(keys) for few prefixes."""
        lists = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
        watched = pc.list_flatten(lists).dictionary_encode(null_encoding="encode")
        texts = watched.dictionary
        before = pc.replace_substring_regex(texts, f"(?s){_SIGN}.*", "")
        found = pc.if_else(pc.match_substring_regex(texts, _SIGN), before, pa.scalar(None, pa.string()))
        found = found.dictionary_encode(null_encoding="encode")
        number = found.indices.to_numpy().astype(np.int64)[watched.indices.to_numpy()]
        order = in_order(number)
        number, row = number[order], pc.list_parent_indices(lists).to_numpy()[order]
        # Keys of an operation are neighbours, so keys of one prefix still are.
        once = (np.diff(number, prepend=-1) != 0) | (np.diff(row, prepend=-1) != 0)
        return cls(found.dictionary.to_pylist(), number[once], row[once])


def in_order(numbers: Ints) -> Ints:
    """The order of numbers that are not negative; equal ones keep theirs. Linear if all are below 65 536."""
    short = numbers.astype(np.uint16) if numbers.max(initial=0) < 1 << 16 else numbers
    return np.argsort(short, kind="stable")
