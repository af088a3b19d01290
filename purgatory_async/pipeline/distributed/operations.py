"""The second stage: pending operations, their sums so far, and the first of completion and timeout.

A shard holds the whole state of its operations and alone ends them, on however many keys. So the first end wins without
locks and without messages to the first stage; a match for an ended operation finds no row and is dropped.

An operation completes at the instant at which the signals on its keys first sum up to what it needs, in order of event
time. Signals of one instant count together, so it does not matter which is read first. A signal counts from after the
submission until before the deadline, and so a sum that is reached comes before the deadline, always.
"""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from purgatory_async.pipeline.distributed.shards import (
    Frontier,
    Longs,
    ShardProcessor,
    chosen,
    decode,
    encode,
    identities,
    longs,
    new_rows,
    reset_timer,
)
from purgatory_async.pipeline.distributed.watches import MATCHES

__all__ = [
    "OPERATIONS",
    "OPERATION_INPUT",
    "OPERATION_OUTPUT",
    "OPERATION_STATE",
    "OUTCOMES",
    "PENDING",
    "TALLY",
    "OperationProcessor",
    "OperationShard",
    "Step",
]

OPERATIONS: Final = pa.schema(
    [
        ("op_id", pa.string()),
        ("submit_ns", pa.int64()),
        ("deadline_ns", pa.int64()),
        ("needed", pa.int64()),
    ]
)
PENDING: Final = OPERATIONS.append(pa.field("amount", pa.int64()))
OUTCOMES: Final = pa.schema(
    [
        ("op_id", pa.string()),
        ("outcome", pa.string()),
        ("submit_ns", pa.int64()),
        ("deadline_ns", pa.int64()),
        ("decided_ns", pa.int64()),
    ]
)

Flags = NDArray[np.bool_]

OPERATION_INPUT: Final = ("shard", "op_id", "submit_ns", "instant_ns", "amount", "is_match")
"""Operations and matches in one: of an operation its deadline and needed sum, of a match its instant and ``n``."""
OPERATION_OUTPUT: Final = "op_id string, outcome string, submit_ns long, deadline_ns long, decided_ns long"
TALLY: Final = ("submitted", "repeated", "late", "completed", "expired")
"""A shard's counts over its whole life; as part of the state, they are exact after any restart."""
OPERATION_STATE: Final = ", ".join(
    ["pending binary, unsettled binary, timer_ms long", *(f"{name} long" for name in TALLY)]
)


@dataclass(frozen=True, slots=True)
class OperationShard:
    """The state of one shard of the operations.

    Attributes:
        pending: Columns of `PENDING`; ``amount`` is the sum of the signals that are settled.
        unsettled: Columns of `MATCHES`: signals of the pending ones before which others may still come.
    """

    pending: pa.Table
    unsettled: pa.Table

    @classmethod
    def empty(cls) -> Self:
        """A new shard."""
        return cls(PENDING.empty_table(), MATCHES.empty_table())

    def advance(self, operations: pa.Table, matches: pa.Table, frontier: Frontier) -> "Step":
        """Add a batch, then end satisfied and expired operations. O(n log n).

        Args:
            operations: Columns of `OPERATIONS`; those already pending are skipped.
            matches: Columns of `MATCHES`, of those and of others before.
            frontier: Of the batch.
        """
        fresh = new_rows(self.pending, operations, "op_id", "submit_ns")
        nothing = pa.array(np.zeros(fresh.num_rows, np.int64))
        pending = pa.concat_tables([self.pending, fresh.append_column(PENDING.field("amount"), nothing)])
        counts = _Counts.of(pending, pa.concat_tables([self.unsettled, matches]))
        reached, reached_ns = counts.reached(longs(pending, "amount"), longs(pending, "needed"))
        at_once = longs(pending, "needed") <= 0
        reached_ns = np.where(at_once, longs(pending, "submit_ns"), reached_ns)
        reached |= at_once
        completed = reached & (frontier.eager | at_once | (reached_ns < frontier.settled_ns))
        expired = ~completed & (longs(pending, "deadline_ns") <= frontier.now_ns)
        ended = completed | expired
        waiting = reached & ~ended
        due_ns = np.where(waiting, reached_ns + waiting, longs(pending, "deadline_ns"))[~ended]
        return Step(
            shard=type(self)(*counts.settled(pending, ~ended, frontier.settled_ns)),
            outcomes=_outcomes(pending.filter(pa.array(ended)), completed[ended], reached_ns[ended]),
            submitted=fresh.num_rows,
            repeated=operations.num_rows - fresh.num_rows,
            late=0 if frontier.eager else int((longs(fresh, "submit_ns") < frontier.settled_ns).sum()),
            completed=int(completed.sum()),
            expired=int(expired.sum()),
            due_ns=int(due_ns.min()) if len(due_ns) else None,
        )


@dataclass(frozen=True, slots=True)
class Step:
    """The result of a batch.

    Attributes:
        shard: The new shard.
        outcomes: Columns of `OUTCOMES`.
        submitted: Number of new operations.
        repeated: Number of operations skipped because they were pending.
        late: Number of new operations that were read after signals they could have needed were dropped.
        completed: Number of operations that completed.
        expired: Number of operations that expired.
        due_ns: The next instant at which an operation may end without input; None if none is pending.
    """

    shard: OperationShard
    outcomes: pa.Table
    submitted: int
    repeated: int
    late: int
    completed: int
    expired: int
    due_ns: int | None


@dataclass(frozen=True, slots=True)
class _Counts:
    """Signals that count, in order of operation and instant."""

    rows: pa.Table
    row: Longs  # of each, its operation's place among the pending
    at_ns: Longs
    n: Longs

    @classmethod
    def of(cls, pending: pa.Table, matches: pa.Table) -> Self:
        """Look up the operation of each match; those of ended operations are dropped."""
        whose, own = identities([matches, pending], "op_id", "submit_ns")
        places = np.argsort(own, kind="stable")
        place = np.minimum(np.searchsorted(own[places], whose), max(len(own) - 1, 0))
        known = own[places][place] == whose if len(own) else np.zeros(len(whose), bool)
        row = places[place[known]] if len(own) else np.zeros(0, np.int64)
        known_at_ns = longs(matches, "at_ns")[known]
        order = np.lexsort((known_at_ns, row))
        rows = matches.take(pa.array(np.flatnonzero(known)[order]))
        return cls(rows, row[order], known_at_ns[order], longs(rows, "n"))

    def reached(self, amount: Longs, needed: Longs) -> tuple[Flags, Longs]:
        """For each operation whether its sum is reached, and when first."""
        sums = np.cumsum(self.n)
        opens = np.flatnonzero(np.diff(self.row, prepend=-1))  # where the signals of an operation begin
        before = np.zeros(len(amount), np.int64)
        before[self.row[opens]] = sums[opens] - self.n[opens]
        enough = np.flatnonzero(amount[self.row] + sums - before[self.row] >= needed[self.row])
        whose, first = np.unique(self.row[enough], return_index=True)
        reached, reached_ns = np.zeros(len(amount), bool), np.zeros(len(amount), np.int64)
        reached[whose] = True
        reached_ns[whose] = self.at_ns[enough[first]]
        return reached, reached_ns

    def settled(self, pending: pa.Table, stays: Flags, settled_ns: int) -> tuple[pa.Table, pa.Table]:
        """Those that stay, with what is settled added up, and the rest of their signals."""
        amount = longs(pending, "amount").copy()
        final = self.at_ns < settled_ns
        np.add.at(amount, self.row[final], self.n[final])
        column = PENDING.get_field_index("amount")
        pending = pending.set_column(column, PENDING.field(column), pa.array(amount))
        return pending.filter(pa.array(stays)), self.rows.filter(pa.array(~final & stays[self.row]))


def _outcomes(ended: pa.Table, completed: Flags, reached_ns: Longs) -> pa.Table:
    deadline_ns = longs(ended, "deadline_ns")
    words = np.where(completed, "completed", "expired")
    return pa.table(
        [
            ended["op_id"],
            pa.array(words.tolist(), pa.string()),
            ended["submit_ns"],
            ended["deadline_ns"],
            pa.array(np.where(completed, reached_ns, deadline_ns)),
        ],
        schema=OUTCOMES,
    )


class OperationProcessor(ShardProcessor):
    """A shard's pending operations and their first end: `OperationShard` kept by Spark."""

    state = OPERATION_STATE

    def take_in(self, rows: pa.Table, frontier: Frontier) -> pa.Table:
        """Add operations and matches; returns the outcomes."""
        renamed = {"deadline_ns": "instant_ns", "needed": "amount"}
        operations = chosen(rows, pc.invert(rows["is_match"]), OPERATIONS, renamed)
        matches = chosen(rows, rows["is_match"], MATCHES, {"at_ns": "instant_ns", "n": "amount"})
        return self._advance(operations, matches, frontier)

    def go_on(self, frontier: Frontier) -> pa.Table:
        """End due operations; returns the outcomes."""
        return self._advance(OPERATIONS.empty_table(), MATCHES.empty_table(), frontier)

    def _advance(self, operations: pa.Table, matches: pa.Table, frontier: Frontier) -> pa.Table:
        stored = self._state.get() or (None, None, 0, *(0 for _ in TALLY))
        pending, unsettled, timer_ms, *tally = stored
        shard = OperationShard(decode(pending, PENDING), decode(unsettled, MATCHES))
        step = shard.advance(operations, matches, frontier)
        wanted_ms = 0 if step.due_ns is None else frontier.timer_ms(step.due_ns)
        self._store(step, tally, reset_timer(self._handle, timer_ms, wanted_ms))
        return step.outcomes

    def _store(self, step: Step, tally: list[int], timer_ms: int) -> None:
        counted = [before + getattr(step, name) for name, before in zip(TALLY, tally, strict=True)]
        blobs = encode(step.shard.pending), encode(step.shard.unsettled)
        self._state.update((*blobs, timer_ms, *counted))
