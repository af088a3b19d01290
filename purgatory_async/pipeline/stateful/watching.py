"""The first stage in Spark: a shard of watch keys."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from purgatory_async.pipeline.kernels.shards_frontier import Frontier
from purgatory_async.pipeline.kernels.shards_rows import decode, encode
from purgatory_async.pipeline.kernels.shards_watches import MATCHES, SEEN, SIGNALS, WATCHES, WatchShard
from purgatory_async.pipeline.stateful.frames import chosen
from purgatory_async.pipeline.stateful.pace import reset_timer
from purgatory_async.pipeline.stateful.processor import ShardProcessor

__all__ = ["WATCH_INPUT", "WATCH_OUTPUT", "WATCH_STATE", "WatchProcessor"]

WATCH_INPUT: Final = ("shard", "key", "op_id", "instant_ns", "until_ns", "amount")
"""Watches and signals in one: of a watch its operation's id, submission, deadline and needed sum; of a signal no id,
its instant twice, and ``n``."""

WATCH_OUTPUT: Final = "op_id string, submit_ns long, at_ns long, n long"
WATCH_STATE: Final = "watches binary, seen binary, timer_ms long"


class WatchProcessor(ShardProcessor):
    """A shard's watches and seen signals: `WatchShard` kept by Spark."""

    state = WATCH_STATE

    def take_in(self, rows: pa.Table, frontier: Frontier) -> pa.Table:
        """Match new watches and signals with the known ones; returns the matches."""
        is_signal = pc.is_null(rows["op_id"])
        watches = chosen(rows, pc.invert(is_signal), WATCHES, {"submit_ns": "instant_ns", "needed": "amount"})
        signals = chosen(rows, is_signal, SIGNALS, {"at_ns": "instant_ns", "n": "amount"})
        shard, timer_ms = self._load()
        shard, matches = shard.take_in(watches, signals, frontier)
        self._store(shard, timer_ms, frontier)
        return matches

    def go_on(self, frontier: Frontier) -> pa.Table:
        """Drop what no operation can need; returns no rows."""
        shard, timer_ms = self._load()
        self._store(shard.evicted(frontier), timer_ms, frontier)
        return MATCHES.empty_table()

    def _load(self) -> tuple[WatchShard, int]:
        watches, seen, timer_ms = self._state.get() or (None, None, 0)
        return WatchShard(decode(watches, WATCHES), decode(seen, SEEN)), timer_ms

    def _store(self, shard: WatchShard, timer_ms: int, frontier: Frontier) -> None:
        # Incoming rows do the work of a timer, so it fires only when nothing is left to keep: a timer for each
        # deadline would cost two more calls for each shard and batch.
        over_ns = shard.empty_from_ns()
        if over_ns is None:
            timer_ms = reset_timer(self._handle, timer_ms, 0)
        elif timer_ms <= frontier.present_ms:
            timer_ms = reset_timer(self._handle, timer_ms, frontier.timer_ms(over_ns))
        self._state.update((encode(shard.watches), encode(shard.seen), timer_ms))
