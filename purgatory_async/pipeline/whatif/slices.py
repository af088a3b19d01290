"""The operations and the signals of a node by slices of its time, packed as those in buckets.

An operation belongs to the slice of its submission, or to `ENDLESS` if it has no timeout. A signal is wanted by the
operations of its own slice, by those of the slice before, and by those that wait without end.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from purgatory_async.journal.columns import arrow_schema
from purgatory_async.pipeline.operations.buckets import in_portions, packed
from purgatory_async.pipeline.operations.pairing import OPERATIONS, Pairing

__all__ = ["ENDLESS", "SIGNALS", "SIGNALS_READ", "SLICED", "WAITS", "Slices"]

ENDLESS: Final = -(2**63)
"""The slice of those that wait without end."""

SIGNALS_READ: Final = ("run_id", "node", "seq", "kind", "mono_ns", "key", "n")
"""What `Slices.of_signals` has to know of a record."""

_WAITS: Final = ("submit_seq", "submit_ns", "keys", "needed", "timeout_ns", "outcome", "end_ns")
_SIGNALS: Final = ("seq", "mono_ns", "key", "n")

WAITS: Final = pa.schema([OPERATIONS.field(name) for name in _WAITS])
"""What is packed of an operation."""

SIGNALS: Final = pa.schema([arrow_schema().field(name) for name in _SIGNALS])
"""What is packed of a signal."""

SLICED: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("run_id", "node")),
        ("slice", pa.int64()),
        ("packed", pa.binary()),
    ]
)
"""A slice of a run and node, and packed what is in it."""


@dataclass(frozen=True, slots=True)
class Slices:
    """How time is cut.

    Attributes:
        width_ns: Of a slice; at least as long as any wait that ends.
        endless: Whether there may be operations without a timeout.
    """

    width_ns: int
    endless: bool

    def of_operations(self, pairing: Pairing) -> pa.Table:
        """Pack operations, in the columns of `SLICED`, the tables in those of `WAITS`."""
        found = pairing.operations()
        timed = found["timeout_ns"].is_valid().to_numpy()
        number = np.where(timed, found["submit_ns"].to_numpy() // self.width_ns, ENDLESS)
        rows = _sliced(found, number, WAITS)
        return pa.Table.from_pylist(rows, SLICED)

    def of_signals(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the signals among some records.

        Args:
            batches: With the columns of `SIGNALS_READ`.

        Yields:
            Batches with the columns of `SLICED`, the tables in those of `SIGNALS`. A signal is in two or three.
        """
        for records in in_portions(batches):
            signals = records.filter(pc.equal(records["kind"], "signal"))
            number = signals["mono_ns"].to_numpy() // self.width_ns
            own = _sliced(signals, number, SIGNALS)
            before = [row | {"slice": row["slice"] - 1} for row in own]
            endless = [row | {"slice": ENDLESS} for row in own] if self.endless else []
            if own:
                yield pa.RecordBatch.from_pylist([*own, *before, *endless], SLICED)


def _sliced(records: pa.Table, number: NDArray[np.int64], schema: pa.Schema) -> list[dict[str, Any]]:
    """Pack some columns of each run's, node's and slice's records."""
    names = [records[name].combine_chunks().dictionary_encode() for name in ("run_id", "node")]
    runs, nodes = (name.indices.to_numpy().astype(np.int64) for name in names)
    slices, place = np.unique(number, return_inverse=True)
    whose = runs * len(names[1].dictionary) + nodes
    parts, part = np.unique(whose * len(slices) + place, return_inverse=True)
    tables = packed(records.select(schema.names).cast(schema), part, len(parts))
    rows = []
    for row, table in tables.items():
        owner, at = divmod(int(parts[row]), len(slices))
        run, node = divmod(owner, len(names[1].dictionary))
        rows.append(
            {
                "run_id": names[0].dictionary[run].as_py(),
                "node": names[1].dictionary[node].as_py(),
                "slice": int(slices[at]),
                "packed": table,
            }
        )
    return rows
