"""The second stage in Spark: a shard of operations, which alone ends them."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from purgatory_async.pipeline.kernels.shards_frontier import Frontier
from purgatory_async.pipeline.kernels.shards_operations import OPERATIONS, PENDING, OperationShard, Step
from purgatory_async.pipeline.kernels.shards_rows import decode, encode
from purgatory_async.pipeline.kernels.shards_watches import MATCHES
from purgatory_async.pipeline.stateful.frames import chosen
from purgatory_async.pipeline.stateful.pace import reset_timer
from purgatory_async.pipeline.stateful.processor import ShardProcessor

__all__ = ["OPERATION_INPUT", "OPERATION_OUTPUT", "OPERATION_STATE", "TALLY", "OperationProcessor"]

OPERATION_INPUT: Final = ("shard", "op_id", "submit_ns", "instant_ns", "amount", "is_match")
"""Operations and matches in one: of an operation its deadline and needed sum, of a match its instant and ``n``."""

OPERATION_OUTPUT: Final = "op_id string, outcome string, submit_ns long, deadline_ns long, decided_ns long"

TALLY: Final = ("submitted", "repeated", "late", "completed", "expired")
"""A shard's counts over its whole life; as part of the state, they are exact after any restart."""

OPERATION_STATE: Final = ", ".join(
    ["pending binary, unsettled binary, timer_ms long", *(f"{name} long" for name in TALLY)]
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
