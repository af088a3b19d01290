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
    LONG,
    TEXT,
    Frontier,
    Longs,
    ShardProcessor,
    chosen,
    decode,
    encode,
    identities,
    longs,
    new_rows,
    replaced,
)
from purgatory_async.pipeline.distributed.watches import MATCHES

OPERATIONS: Final = pa.schema({"op_id": TEXT, "submit_ns": LONG, "deadline_ns": LONG, "needed": LONG})
PENDING: Final = pa.schema([*OPERATIONS, ("amount", LONG)])
OUTCOMES: Final = pa.schema(
    {"op_id": TEXT, "outcome": TEXT, "submit_ns": LONG, "deadline_ns": LONG, "decided_ns": LONG}
)

Flags = NDArray[np.bool_]

OPERATION_INPUT: Final = ("shard", "op_id", "submit_ns", "instant_ns", "amount", "is_match")
"""Operations and matches in one: of an operation its deadline and needed sum, of a match its instant and ``n``."""
OPERATION_OUTPUT: Final = "op_id string, outcome string, submit_ns long, deadline_ns long, decided_ns long"
TALLY: Final = ("submitted", "repeated", "late", "completed", "expired")
"""A shard's counts over its whole life: operations that were new; skipped because they were pending; read after signals
they could have needed were dropped; and ended. As part of the state, they are exact after any restart."""
OPERATION_STATE: Final = ", ".join(
    ["pending binary", "unsettled binary", *(f"{name} long" for name in ("timer_ms", *TALLY))]
)


@dataclass(frozen=True, slots=True)
class OperationShard:
    """The state of one shard of the operations: columns of `PENDING`, and of `MATCHES`.

    ``amount`` is the sum of the signals that are settled; before the unsettled ones, others may still come.
    """

    pending: pa.Table
    unsettled: pa.Table

    def advance(self, operations: pa.Table, matches: pa.Table, frontier: Frontier) -> "Step":
        """Add a batch, then end satisfied and expired operations. O(n log n).

        Args:
            operations: Columns of `OPERATIONS`; those already pending are skipped.
            matches: Columns of `MATCHES`, of those and of others before.
            frontier: The frontier of the batch.
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
        late = 0 if frontier.eager else int((longs(fresh, "submit_ns") < frontier.settled_ns).sum())
        repeated = operations.num_rows - fresh.num_rows
        return Step(
            type(self)(*counts.settled(pending, ~ended, frontier.settled_ns)),
            _outcomes(pending.filter(pa.array(ended)), completed[ended], reached_ns[ended]),
            (fresh.num_rows, repeated, late, int(completed.sum()), int(expired.sum())),
            int(due_ns.min()) if len(due_ns) else None,
        )


@dataclass(frozen=True, slots=True)
class Step:
    """The result of a batch: the new shard, columns of `OUTCOMES`, and counts in the order of `TALLY`.

    ``due_ns`` is the next instant at which an operation may end without input; None if none is pending.
    """

    shard: OperationShard
    outcomes: pa.Table
    tally: tuple[int, ...]
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
        """Look up the operation of each match; drop matches of ended operations."""
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
        """Return the operations that stay, with settled signals added up, and their unsettled signals."""
        amount = longs(pending, "amount").copy()
        final = self.at_ns < settled_ns
        np.add.at(amount, self.row[final], self.n[final])
        pending = replaced(pending, "amount", amount)
        return pending.filter(pa.array(stays)), self.rows.filter(pa.array(~final & stays[self.row]))


def _outcomes(ended: pa.Table, completed: Flags, reached_ns: Longs) -> pa.Table:
    words = pa.array(np.where(completed, "completed", "expired").tolist(), TEXT)
    decided_ns = np.where(completed, reached_ns, longs(ended, "deadline_ns"))
    columns = [ended["op_id"], words, ended["submit_ns"], ended["deadline_ns"], pa.array(decided_ns)]
    return pa.table(columns, schema=OUTCOMES)


class OperationProcessor(ShardProcessor):
    """A shard's pending operations and their first end: `OperationShard` kept by Spark."""

    state = OPERATION_STATE

    def advance(self, rows: pa.Table | None, frontier: Frontier) -> pa.Table:
        """Add operations and matches, and end what is due; returns the outcomes."""
        operations, matches = OPERATIONS.empty_table(), MATCHES.empty_table()
        if rows is not None:
            columns = ("op_id", "submit_ns", "instant_ns", "amount")
            operations = chosen(rows, pc.invert(rows["is_match"]), OPERATIONS, *columns)
            matches = chosen(rows, rows["is_match"], MATCHES, *columns)
        pending, unsettled, timer_ms, *tally = self._state.get() or (None, None, 0, *(0 for _ in TALLY))
        shard = OperationShard(decode(pending, PENDING), decode(unsettled, MATCHES))
        step = shard.advance(operations, matches, frontier)
        wanted_ms = 0 if step.due_ns is None else frontier.timer_ms(step.due_ns)
        timer_ms = self.reset_timer(timer_ms, wanted_ms)
        counted = (before + more for before, more in zip(tally, step.tally, strict=True))
        self._state.update((encode(step.shard.pending), encode(step.shard.unsettled), timer_ms, *counted))
        return step.outcomes
