"""Submissions, reschedules and outcomes put together, as Arrow tables.

An operation is a run's, a node's and an id's; within a run and node ``seq`` is the order of things. Its first
submission begins it and the first outcome after that ends it; reschedules between the two move its deadline. What is
over and above that is an anomaly.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from purgatory_async.pipeline.operations.between import ALWAYS, Between

OPERATIONS: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("run_id", "node", "op_id")),
        *((name, pa.int64()) for name in ("submit_seq", "submit_ns", "submit_wall_ns")),
        ("keys", pa.list_(pa.string())),
        ("needed", pa.int32()),
        *((name, pa.int64()) for name in ("timeout_ns", "deadline_ns", "rescheduled_ns")),
        ("outcome", pa.string()),
        *((name, pa.int64()) for name in ("end_seq", "end_ns", "end_wall_ns", "latency_ns", "lateness_ns")),
        *((name, pa.int32()) for name in ("checks", "inserts")),
        *((name, pa.string()) for name in ("how", "by")),
    ]
)
"""What is known of an operation; from ``outcome`` on null while it is pending.

``timeout_ns`` is of its submission, ``deadline_ns`` its last deadline, and ``rescheduled_ns`` when it was first moved.
"""

ANOMALIES: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("run_id", "node")),
        ("seq", pa.int64()),
        *((name, pa.string()) for name in ("kind", "op_id", "outcome")),
        *((name, pa.int64()) for name in ("wall_ns", "mono_ns")),
        ("reason", pa.string()),
    ]
)
"""A record that belongs to no operation, and why."""

Ints = NDArray[np.int64]
_RECORD: Final = {"seq": "seq", "ns": "mono_ns", "wall_ns": "wall_ns"}
_NONE: Final = -1
_NEVER: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Pairing:
    """Which submission begins each operation, which reschedules move it, and which outcome ends it."""

    submits: pa.Table  # in the columns of a journal, in any order
    moves: pa.Table  # the reschedules of the same operations, in such columns
    outcomes: pa.Table  # all of the same operations, in such columns
    begun: Ints  # rows of the submissions that begin an operation
    ended: Ints  # for each of those the row of the outcome that ends it; -1 while it is pending
    early: NDArray[np.bool_]  # which outcomes have no submission before them
    moved_first: Ints  # for each row of ``begun`` the row of its first reschedule; -1 without any
    moved_last: Ints  # and of its last one
    astray: tuple[
        NDArray[np.bool_], NDArray[np.bool_]
    ]  # which reschedules are before an operation, and after it
    bucket: int  # number of the bucket that all of this was in
    between: Between = ALWAYS  # which operations count

    @classmethod
    def of(
        cls,
        submits: pa.Table,
        moves: pa.Table,
        outcomes: pa.Table,
        bucket: int = 0,
        between: Between = ALWAYS,
    ) -> "Pairing":
        """Put records together. O(records log records), and nearly linear where they come in order."""
        (submitted, moved, reported), count = _numbered(submits, moves, outcomes)
        submit_seq, move_seq, outcome_seq = _seq(submits), _seq(moves), _seq(outcomes)
        begins = _earliest(submitted, submit_seq, np.arange(len(submitted)), count)
        began_seq = np.append(submit_seq, _NEVER)[begins]
        early = outcome_seq <= began_seq[reported]
        ends = _earliest(reported, outcome_seq, np.flatnonzero(~early), count)
        ended_seq = np.append(outcome_seq, _NEVER)[ends]
        before, after = move_seq <= began_seq[moved], move_seq >= ended_seq[moved]
        meant = np.flatnonzero(~before & ~after)
        firsts, lasts = (_earliest(moved, seq, meant, count) for seq in (move_seq, -move_seq))
        begun = np.sort(begins[begins != _NONE])
        operation = submitted[begun]
        return cls(
            *(submits, moves, outcomes, begun, ends[operation], early),
            *(firsts[operation], lasts[operation], (before, after & ~before)),
            *(bucket, between),
        )

    def operations(self) -> pa.Table:
        """What became of each, in the columns of `OPERATIONS`."""
        begin = self.submits.take(self.begun)
        end = self.outcomes.take(pa.array(self.ended, mask=self.ended == _NONE))
        first, last = (
            self.moves.select(["mono_ns", "timeout_ns"]).take(pa.array(rows, mask=rows == _NONE))
            for rows in (self.moved_first, self.moved_last)
        )
        deadline_ns = pc.if_else(
            pc.is_valid(last["mono_ns"]),
            *(pc.add(each["mono_ns"], each["timeout_ns"]) for each in (last, begin)),
        )
        held_ns = pc.subtract(end["mono_ns"], begin["mono_ns"])
        late_ns = pc.if_else(
            pc.equal(end["outcome"], "expired"), pc.subtract(end["mono_ns"], deadline_ns), None
        )
        columns = {
            **{name: begin[name] for name in ("run_id", "node", "op_id", "keys", "needed", "timeout_ns")},
            **{name: end[name] for name in ("outcome", "checks", "inserts", "how", "by")},
            **{f"submit_{short}": begin[name] for short, name in _RECORD.items()},
            **{f"end_{short}": end[name] for short, name in _RECORD.items()},
            "deadline_ns": deadline_ns,
            "rescheduled_ns": first["mono_ns"],
            "latency_ns": pc.coalesce(end["latency_ns"], held_ns),
            "lateness_ns": pc.coalesce(end["lateness_ns"], late_ns),
        }
        found = _laid_out(columns, OPERATIONS)
        return found.filter(self.between.has(found["submit_wall_ns"])) if self.between else found

    def anomalies(self) -> pa.Table:
        """The records that are no part of an operation, in the columns of `ANOMALIES`."""
        again = ~np.isin(np.arange(self.submits.num_rows), self.begun)
        over = ~self.early & ~np.isin(np.arange(self.outcomes.num_rows), self.ended)
        found = (
            self._strange(self.submits, again, "submit", "submitted before"),
            self._strange(self.moves, self.astray[0], "reschedule", "no submission before it"),
            self._strange(self.moves, self.astray[1], "reschedule", "ended before"),
            self._strange(self.outcomes, self.early, "outcome", "no submission before it"),
            self._strange(self.outcomes, over, "outcome", "ended before"),
        )
        return pa.concat_tables(found)

    def _strange(self, records: pa.Table, which: NDArray[np.bool_], kind: str, reason: str) -> pa.Table:
        chosen = records.filter(pa.array(which))
        if self.between:
            waited_ns = pc.fill_null(chosen["latency_ns"], 0) if kind == "outcome" else 0
            chosen = chosen.filter(self.between.has(pc.subtract(chosen["wall_ns"], waited_ns)))
        columns = {name: chosen[name] for name in chosen.column_names}
        columns |= {"kind": pa.repeat(kind, len(chosen)), "reason": pa.repeat(reason, len(chosen))}
        columns.setdefault("outcome", pa.nulls(len(chosen), pa.string()))
        return _laid_out(columns, ANOMALIES)


def _numbered(*tables: pa.Table) -> tuple[list[Ints], int]:
    """Number the operations in some tables; the numbers are below the second result."""
    ends = np.cumsum([table.num_rows for table in tables])
    numbers, count = np.zeros(ends[-1], np.int64), 1
    for name in ("run_id", "node", "op_id"):
        chunks = [chunk.cast(pa.string()) for table in tables for chunk in table[name].chunks]
        names = pa.chunked_array(chunks, pa.string()).combine_chunks()
        encoded = names.dictionary_encode(null_encoding="encode")
        # Ids are numbered anew where several nodes have the same: the numbers must not outgrow the records.
        numbers = numbers * len(encoded.dictionary) + encoded.indices.to_numpy()
        count *= len(encoded.dictionary)
        if count > 2 * len(numbers):
            _, numbers = np.unique(numbers, return_inverse=True)
            count = int(numbers.max(initial=-1)) + 1
    return np.split(numbers, ends[:-1]), count


def _seq(records: pa.Table) -> Ints:
    numbers: Ints = pc.fill_null(records["seq"], 0).to_numpy()
    return numbers


def _earliest(operation: Ints, seq: Ints, rows: Ints, count: int) -> Ints:
    """Of each operation the one with the least ``seq`` among some rows; `_NONE` if it has none of them."""
    found = np.full(count, _NONE, np.int64)
    backwards = rows[np.argsort(seq[rows], kind="stable")[::-1]]
    found[operation[backwards]] = backwards  # of equal indices the last one stands
    return found


def _laid_out(columns: dict[str, pa.ChunkedArray], schema: pa.Schema) -> pa.Table:
    return pa.table({field.name: columns[field.name].cast(field.type) for field in schema}, schema=schema)
