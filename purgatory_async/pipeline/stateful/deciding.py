"""The second stage in Spark: a shard of operations, the only place where they end."""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from purgatory_async.pipeline.kernels.shards_operations import OPERATIONS, PENDING, OperationShard, Step
from purgatory_async.pipeline.kernels.shards_rows import decode, encode
from purgatory_async.pipeline.kernels.shards_watches import MATCHES
from purgatory_async.pipeline.stateful.frames import Frame, as_frames, as_rows, chosen
from purgatory_async.pipeline.stateful.pace import Pace, reset_timer

__all__ = ["OPERATION_INPUT", "OPERATION_OUTPUT", "OPERATION_STATE", "TALLY", "OperationProcessor"]

OPERATION_INPUT: Final = ("shard", "op_id", "submit_ns", "instant_ns", "amount", "is_match")
"""Operations and matches in one: of an operation its deadline and what it needs, of a match its instant and ``n``."""

OPERATION_OUTPUT: Final = "op_id string, outcome string, submit_ns long, deadline_ns long, decided_ns long"

TALLY: Final = ("submitted", "repeated", "late", "completed", "expired")
"""What a shard counts over its whole life. It is part of the state, so it is exact after any restart."""

OPERATION_STATE: Final = ", ".join(
    ["pending binary, unsettled binary, timer_ms long", *(f"{name} long" for name in TALLY)]
)


class OperationProcessor(StatefulProcessor):
    """What is pending in a shard, and the first of complete and timeout: `OperationShard` kept by Spark.

    Args:
        pace: By which time it goes.
    """

    def __init__(self, pace: Pace) -> None:
        self._pace = pace

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark before anything else, in each task."""
        self._handle = handle
        self._state = handle.getValueState("shard", OPERATION_STATE)

    # Spark passes these arguments by name. It calls for the rows of a batch before it calls for its timers, so a signal
    # that is read in time counts even if its batch comes after the deadline.
    def handleInputRows(  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        rows: Iterator[Frame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Frame]:
        """Take in what a batch brings for the shard; gives the outcomes."""
        both = as_rows(rows)
        renamed = {"deadline_ns": "instant_ns", "needed": "amount"}
        operations = chosen(both, pc.invert(both["is_match"]), OPERATIONS, renamed)
        matches = chosen(both, both["is_match"], MATCHES, {"at_ns": "instant_ns", "n": "amount"})
        yield from self._advance(operations, matches, timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: ARG002, N803
    ) -> Iterator[Frame]:
        """End what is due, where no rows come; gives the outcomes."""
        yield from self._advance(OPERATIONS.empty_table(), MATCHES.empty_table(), timerValues)

    def _advance(self, operations: pa.Table, matches: pa.Table, values: TimerValues) -> Iterator[Frame]:
        stored = self._state.get() or (None, None, 0, *(0 for _ in TALLY))
        pending, unsettled, timer_ms, *tally = stored
        shard = OperationShard(decode(pending, PENDING), decode(unsettled, MATCHES))
        frontier = self._pace.frontier(values)
        step = shard.advance(operations, matches, frontier)
        wanted_ms = 0 if step.due_ns is None else frontier.timer_ms(step.due_ns)
        self._store(step, tally, reset_timer(self._handle, timer_ms, wanted_ms))
        yield from as_frames(step.outcomes)

    def _store(self, step: Step, tally: list[int], timer_ms: int) -> None:
        counted = [before + getattr(step, name) for name, before in zip(TALLY, tally, strict=True)]
        blobs = encode(step.shard.pending), encode(step.shard.unsettled)
        self._state.update((*blobs, timer_ms, *counted))
