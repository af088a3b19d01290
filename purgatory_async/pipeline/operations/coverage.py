"""What some records cover: from when to when, how many of each kind, and which numbers they have."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from purgatory_async.pipeline.operations.buckets import in_portions

__all__ = ["COVERED", "COVER_READ", "cover"]

COVER_READ: Final = (
    *("run_id", "node", "seq", "kind", "wall_ns", "mono_ns"),
    *("timeout_ns", "tick_ns", "wheel_size"),
)
"""What `cover` has to know of a record."""

_NUMBERS: Final = (
    *("first_ns", "last_ns", "first_wall_ns", "last_wall_ns"),
    *("records", "submits", "outcomes", "signals", "untimed", "tick_ns", "wheel_size"),
)

COVERED: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("run_id", "node")),
        *((name, pa.int64()) for name in ("first_seq", "last_seq", *_NUMBERS)),
    ]
)
"""Of a run and node either a range of numbers that records have, none missing from ``first_seq`` to ``last_seq``, or
what some of its records cover; the columns of the other are null."""

Ints = NDArray[np.int64]


def cover(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Survey records.

    Args:
        batches: With the columns of `COVER_READ`. The numbers of all of them are held at once.

    Yields:
        Batches with the columns of `COVERED`.
    """
    seqs: dict[tuple[str, str], list[Ints]] = {}
    for records in in_portions(batches):
        for owner, own in _by_owner(records):
            seqs.setdefault(owner, []).append(own["seq"].to_numpy())
            yield _rows(owner, [_numbers(own)])
    for owner, found in seqs.items():
        yield _rows(owner, _ranges(np.concatenate(found)))


def _by_owner(records: pa.Table) -> Iterator[tuple[tuple[str, str], pa.Table]]:
    owners = records.select(["run_id", "node"]).group_by(["run_id", "node"], use_threads=False).aggregate([])
    for run_id, node in zip(owners["run_id"].to_pylist(), owners["node"].to_pylist(), strict=True):
        own = records
        if len(owners) > 1:
            whose = pc.and_(pc.equal(records["run_id"], run_id), pc.equal(records["node"], node))
            own = records.filter(whose)
        yield (run_id, node), own


def _rows(owner: tuple[str, str], rows: Iterable[Mapping[str, Any]]) -> pa.RecordBatch:
    run_id, node = owner
    return pa.RecordBatch.from_pylist([{"run_id": run_id, "node": node, **row} for row in rows], COVERED)


def _ranges(seq: Ints) -> Iterator[dict[str, int]]:
    seq = np.sort(seq)
    breaks = np.flatnonzero(np.diff(seq) > 1)
    firsts, lasts = seq[np.append(0, breaks + 1)], seq[np.append(breaks, len(seq) - 1)]
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        yield {"first_seq": first, "last_seq": last}


def _numbers(records: pa.Table) -> dict[str, Any]:
    kinds = {row["values"]: row["counts"] for row in pc.value_counts(records["kind"]).to_pylist()}
    submitted = records.filter(pc.equal(records["kind"], "submit"))
    extremes = {name: pc.min_max(records[f"{name}_ns"]).as_py() for name in ("mono", "wall")}
    return {
        "first_ns": extremes["mono"]["min"],
        "last_ns": extremes["mono"]["max"],
        "first_wall_ns": extremes["wall"]["min"],
        "last_wall_ns": extremes["wall"]["max"],
        "records": len(records),
        **{f"{kind}s": kinds.get(kind, 0) for kind in ("submit", "outcome", "signal")},
        "untimed": submitted["timeout_ns"].null_count,
        "tick_ns": pc.max(records["tick_ns"]).as_py(),
        "wheel_size": pc.max(records["wheel_size"]).as_py(),
    }
