"""What some records cover: from when to when, how many of each kind, and which numbers they have."""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from purgatory_async.pipeline.operations.buckets import in_portions

COVER_READ: Final = (
    *("run_id", "node", "seq", "kind", "wall_ns", "mono_ns"),
    *("timeout_ns", "tick_ns", "wheel_size"),
)
"""What `cover` has to know of a record."""

_NUMBERS: Final = {
    "first_ns": ("mono_ns", "min"),
    "last_ns": ("mono_ns", "max"),
    "first_wall_ns": ("wall_ns", "min"),
    "last_wall_ns": ("wall_ns", "max"),
    "records": ("kind", "count"),
    **{count: (count, "sum") for count in ("submits", "reschedules", "outcomes", "signals", "untimed")},
    "tick_ns": ("tick_ns", "max"),
    "wheel_size": ("wheel_size", "max"),
}

COVERED: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("run_id", "node")),
        *((name, pa.int64()) for name in ("first_seq", "last_seq", *_NUMBERS)),
    ]
)
"""Of a run and node either a range of numbers that records have, none missing from ``first_seq`` to ``last_seq``, or
what some of its records cover; the columns of the other are null."""


def cover(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Survey records (`COVER_READ`); yields `COVERED`. Keeps all ``seq`` in memory."""
    seqs: dict[tuple[str, str], list[pa.Array]] = {}
    for records in in_portions(batches):
        owners = _counted(records)
        for run_id, node, seq in zip(*map(owners.column, ("run_id", "node", "seq_list")), strict=True):
            seqs.setdefault((run_id.as_py(), node.as_py()), []).append(seq.values)
        numbers = {name: owners[f"{column}_{function}"] for name, (column, function) in _NUMBERS.items()}
        rows = pa.table({"run_id": owners["run_id"], "node": owners["node"]} | numbers).to_pylist()
        yield pa.RecordBatch.from_pylist(rows, COVERED)
    for (run_id, node), parts in seqs.items():
        seq = np.sort(np.concatenate(parts))
        ranges = np.split(seq, np.flatnonzero(np.diff(seq) > 1) + 1)
        rows = [
            {"run_id": run_id, "node": node, "first_seq": int(each[0]), "last_seq": int(each[-1])}
            for each in ranges
        ]
        yield pa.RecordBatch.from_pylist(rows, COVERED)


def _counted(records: pa.Table) -> pa.Table:
    """The numbers of each run and node, and the list of all ``seq``."""
    for kind in ("submit", "reschedule", "outcome", "signal"):
        records = records.append_column(f"{kind}s", pc.equal(records["kind"], kind))
    untimed = pc.and_(records["submits"], pc.is_null(records["timeout_ns"]))
    groups = records.append_column("untimed", untimed).group_by(["run_id", "node"], use_threads=False)
    return groups.aggregate([*_NUMBERS.values(), ("seq", "list")])
