"""The first stage: the watches of keys, and the signals seen on them.

A shard holds all watches and signals of its keys. Either may be read first, so each new watch is matched with the known
signals, and each new signal with the known watches. A match goes to the shard of the operation.

The operations themselves come through this stage, unchanged, so that Spark reads their files once and not for each
stage.

The stages run in one direction, so a shard does not learn that an operation has ended. Its watches end at their
deadline, which bounds the rest. A key that alone satisfies an operation also ends that watch, so many waiters for any
signal on one busy key make as many matches as there are waiters, not the product with the signals.
"""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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

WATCHES: Final = pa.schema({"key": TEXT, "op_id": TEXT, "submit_ns": LONG, "until_ns": LONG, "needed": LONG})
SIGNALS: Final = pa.schema({"key": TEXT, "at_ns": LONG, "n": LONG})
SEEN: Final = pa.schema([*SIGNALS, ("kept_until_ns", LONG)])
MATCHES: Final = pa.schema({"op_id": TEXT, "submit_ns": LONG, "at_ns": LONG, "n": LONG})
DECISIONS: Final = pa.schema({"op_id": TEXT, "submit_ns": LONG, "instant_ns": LONG, "amount": LONG})

WATCH_INPUT: Final = ("shard", "key", "op_id", "instant_ns", "until_ns", "amount")
"""Watches, signals and operations in one: of a watch its operation's id, submission, deadline and needed sum; of a
signal no id, its instant twice, and ``n``; of an operation the same as of its watches, and no key."""
WATCH_OUTPUT: Final = "op_id string, submit_ns long, instant_ns long, amount long, is_match boolean"
"""Operations and matches in one; see `OPERATION_INPUT`."""


@dataclass(frozen=True, slots=True)
class WatchShard:
    """The state of one shard of the keys: columns of `WATCHES`, and of `SEEN`.

    Each (key, operation) is watched once. Only signals between ``submit_ns`` and ``until_ns``, both excluded, matter.
    """

    watches: pa.Table
    seen: pa.Table

    def take_in(self, watches: pa.Table, signals: pa.Table, frontier: Frontier) -> tuple[Self, pa.Table]:
        """Match new watches and signals with each other and with the known ones. O(n log n + matches).

        Args:
            watches: Columns of `WATCHES`, each ``needed`` at least 1; known ones are skipped.
            signals: Columns of `SIGNALS`, no ``n`` negative.
            frontier: The frontier of the batch.

        Returns:
            The new shard, without what no operation can need, and the matches (columns of `MATCHES`).
        """
        fresh = new_rows(self.watches, watches, "key", "op_id", "submit_ns")
        kept_until_ns = frontier.kept_until_ns(longs(signals, "at_ns"))
        arriving = signals.append_column(SEEN.field("kept_until_ns"), pa.array(kept_until_ns))
        seen = pa.concat_tables([self.seen, arriving])
        standing, first = _meet(self.watches, arriving)
        fresh, second = _meet(fresh, seen)
        shard = type(self)(pa.concat_tables([standing, fresh]), seen)
        return shard.evicted(frontier), pa.concat_tables([first, second])

    def evicted(self, frontier: Frontier) -> Self:
        """The shard without expired watches, and without signals that no later operation can need."""
        return type(self)(
            self.watches.filter(pc.greater(self.watches["until_ns"], frontier.now_ns)),
            self.seen.filter(pc.greater(self.seen["kept_until_ns"], frontier.now_ns)),
        )

    def empty_from_ns(self) -> int | None:
        """The instant from which the shard is empty; None if it is empty now."""
        ends = [self.watches["until_ns"], self.seen["kept_until_ns"]]
        return max((pc.max(column).as_py() for column in ends if len(column)), default=None)


def _meet(watches: pa.Table, signals: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The watches, those that their key alone has satisfied shortened, and their matches."""
    if not watches.num_rows or not signals.num_rows:
        return watches, MATCHES.empty_table()
    order, start, end = _ranges(watches, signals)
    n = longs(signals, "n")[order]
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(n)])
    # Where the sum from its start is reached, if this key goes so far: nothing later on it can matter.
    wanted = sums[start] + longs(watches, "needed")
    reached = np.searchsorted(sums, wanted)
    satisfied = reached <= end
    end = np.minimum(end, reached)
    at_ns = longs(signals, "at_ns")[order]
    until_ns = longs(watches, "until_ns").copy()
    until_ns[satisfied] = at_ns[end[satisfied] - 1]
    return replaced(watches, "until_ns", until_ns), _matches(watches, at_ns, n, start, end)


def _ranges(watches: pa.Table, signals: pa.Table) -> tuple[Longs, Longs, Longs]:
    """The signals in order of key and instant, and for each watch from where to where they are its own."""
    submits, deadlines = (
        watches.select(["key", name]).rename_columns(["key", "at_ns"]) for name in ("submit_ns", "until_ns")
    )
    submitted, over, seen = identities([submits, deadlines, signals], "key", "at_ns")
    order = np.argsort(seen, kind="stable").astype(np.int64)
    start = np.searchsorted(seen[order], submitted, side="right").astype(np.int64)
    end = np.searchsorted(seen[order], over, side="left").astype(np.int64)
    return order, start, np.maximum(start, end)


def _matches(watches: pa.Table, at_ns: Longs, n: Longs, start: Longs, end: Longs) -> pa.Table:
    counts = end - start
    watch = np.repeat(np.arange(len(counts)), counts)
    before = np.cumsum(counts) - counts
    signal = np.arange(counts.sum()) + np.repeat(start - before, counts)
    who = watches.select(["op_id", "submit_ns"]).take(pa.array(watch))
    return pa.table([*who.columns, pa.array(at_ns[signal]), pa.array(n[signal])], schema=MATCHES)


class WatchProcessor(ShardProcessor):
    """A shard's watches and seen signals: `WatchShard` kept by Spark."""

    state = "watches binary, seen binary, timer_ms long"

    def advance(self, rows: pa.Table | None, frontier: Frontier) -> pa.Table:
        """Match new watches and signals with the known ones; returns the operations, and the matches."""
        watches, seen, timer_ms = self._state.get() or (None, None, 0)
        shard = WatchShard(decode(watches, WATCHES), decode(seen, SEEN))
        if rows is None:
            self._store(shard.evicted(frontier), timer_ms, frontier)
            return DECISIONS.empty_table()
        is_operation, is_signal = pc.is_null(rows["key"]), pc.is_null(rows["op_id"])
        is_watch = pc.invert(pc.or_(is_operation, is_signal))
        fresh = chosen(rows, is_watch, WATCHES, "key", "op_id", "instant_ns", "until_ns", "amount")
        signals = chosen(rows, is_signal, SIGNALS, "key", "instant_ns", "amount")
        operations = chosen(rows, is_operation, DECISIONS, "op_id", "instant_ns", "until_ns", "amount")
        shard, matches = shard.take_in(fresh, signals, frontier)
        self._store(shard, timer_ms, frontier)
        output = pa.concat_tables([operations, matches.rename_columns(DECISIONS.names)])
        is_match = np.arange(output.num_rows) >= operations.num_rows
        return output.append_column("is_match", pa.array(is_match))

    def _store(self, shard: WatchShard, timer_ms: int, frontier: Frontier) -> None:
        # Incoming rows do the work of a timer, so it fires only when nothing is left to keep: a timer for each
        # deadline would cost two more calls for each shard and batch.
        over_ns = shard.empty_from_ns()
        if over_ns is None:
            timer_ms = self.reset_timer(timer_ms, 0)
        elif timer_ms <= frontier.present_ms:
            timer_ms = self.reset_timer(timer_ms, frontier.timer_ms(over_ns))
        self._state.update((encode(shard.watches), encode(shard.seen), timer_ms))
