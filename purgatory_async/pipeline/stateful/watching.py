"""The first stage in Spark: a shard of watch keys."""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow.compute as pc
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from purgatory_async.pipeline.kernels.shards_frontier import Frontier
from purgatory_async.pipeline.kernels.shards_rows import decode, encode
from purgatory_async.pipeline.kernels.shards_watches import MATCHES, SEEN, SIGNALS, WATCHES, WatchShard
from purgatory_async.pipeline.stateful.frames import Frame, as_frames, as_rows, chosen
from purgatory_async.pipeline.stateful.pace import Pace, reset_timer

__all__ = ["WATCH_INPUT", "WATCH_OUTPUT", "WATCH_STATE", "WatchProcessor"]

WATCH_INPUT: Final = ("shard", "key", "op_id", "instant_ns", "until_ns", "amount")
"""Watches and signals in one: of a watch its operation's id, submission, deadline and what it needs; of a signal no
id, its instant twice, and ``n``."""

WATCH_OUTPUT: Final = "op_id string, submit_ns long, at_ns long, n long"
WATCH_STATE: Final = "watches binary, seen binary, timer_ms long"


class WatchProcessor(StatefulProcessor):
    """Who waits on which key of a shard, and which signals were seen: `WatchShard` kept by Spark.

    Args:
        pace: By which time it goes.
    """

    def __init__(self, pace: Pace) -> None:
        self._pace = pace

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark before anything else, in each task."""
        self._handle = handle
        self._state = handle.getValueState("shard", WATCH_STATE)

    # Spark passes these arguments by name.
    def handleInputRows(  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        rows: Iterator[Frame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Frame]:
        """Let what a batch brings for the shard meet what is there; gives the matches."""
        both = as_rows(rows)
        is_signal = pc.is_null(both["op_id"])
        watches = chosen(both, pc.invert(is_signal), WATCHES, {"submit_ns": "instant_ns", "needed": "amount"})
        signals = chosen(both, is_signal, SIGNALS, {"at_ns": "instant_ns", "n": "amount"})
        frontier = self._pace.frontier(timerValues)
        shard, timer_ms = self._load()
        shard, matches = shard.take_in(watches, signals, frontier)
        self._store(shard, timer_ms, frontier)
        yield from as_frames(matches)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: ARG002, N803
    ) -> Iterator[Frame]:
        """Let go what nobody needs any more, where no rows come; gives nothing."""
        frontier = self._pace.frontier(timerValues)
        shard, timer_ms = self._load()
        self._store(shard.evicted(frontier), timer_ms, frontier)
        yield from as_frames(MATCHES.empty_table())

    def _load(self) -> tuple[WatchShard, int]:
        watches, seen, timer_ms = self._state.get() or (None, None, 0)
        return WatchShard(decode(watches, WATCHES), decode(seen, SEEN)), timer_ms

    def _store(self, shard: WatchShard, timer_ms: int, frontier: Frontier) -> None:
        # Rows that come do the work of a timer, so it need go off only when there is nothing left to keep: a timer for
        # each deadline would cost two calls more for each shard and batch.
        over_ns = shard.empty_from_ns()
        if over_ns is None:
            timer_ms = reset_timer(self._handle, timer_ms, 0)
        elif timer_ms <= frontier.present_ms:
            timer_ms = reset_timer(self._handle, timer_ms, frontier.timer_ms(over_ns))
        self._state.update((encode(shard.watches), encode(shard.seen), timer_ms))
