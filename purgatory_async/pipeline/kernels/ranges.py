"""How many values lie in each of many equal ranges."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["COUNTED", "RANGES", "counting"]

RANGES: Final = 1 << 14

COUNTED: Final = pa.schema(
    [("name", pa.string()), *((name, pa.int64()) for name in ("low", "width", "cell", "count"))]
)
"""So many values of a name are in a range: number ``cell`` of those of a grid."""

Batches = Iterator[pa.RecordBatch]


def counting(grids: Sequence[tuple[str, int, int]]) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    """Make a function that counts values in ranges.

    Args:
        grids: Name, low and width: `RANGES` ranges so wide, from low on, of the values of that name.

    Returns:
        From batches with ``name, value`` to batches with the columns of `COUNTED`, without ranges that are empty.
    """

    def count(batches: Iterable[pa.RecordBatch]) -> Batches:
        """Count in all batches of a task."""
        counts = np.zeros((len(grids), RANGES), np.int64)
        for batch in batches:
            for place, (name, low, width) in enumerate(grids):
                values = batch.column("value").filter(pc.equal(batch.column("name"), name)).to_numpy()
                cells = (values[values >= low] - low) // width
                counts[place] += np.bincount(cells[cells < RANGES], minlength=RANGES)
        for (name, low, width), found in zip(grids, counts, strict=True):
            cells = np.flatnonzero(found)
            rows = len(cells)
            columns = [
                pa.repeat(name, rows),
                pa.repeat(low, rows),
                pa.repeat(width, rows),
                cells,
                found[cells],
            ]
            arrays = [
                pa.array(column).cast(field.type) for column, field in zip(columns, COUNTED, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=COUNTED)

    return count
