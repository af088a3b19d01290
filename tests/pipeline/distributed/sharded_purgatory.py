"""The two stages as Spark runs them, in plain Python: hashing to shards, batches, watermarks, state as bytes."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from zlib import crc32

import pyarrow as pa

from purgatory_async.pipeline.distributed.operations import OPERATIONS, PENDING, TALLY, OperationShard
from purgatory_async.pipeline.distributed.shards import Frontier, by_watermark, decode, encode
from purgatory_async.pipeline.distributed.watches import (
    MATCHES,
    SEEN,
    SIGNALS,
    WATCHES,
    WatchShard,
)
from tests.pipeline.distributed.purgatory_oracle import Operation, Outcome, Signal

MS = 10**6


def table(schema: pa.Schema, rows: Iterable[tuple]) -> pa.Table:
    rows = list(rows)
    return pa.table([[row[i] for row in rows] for i in range(len(schema.names))], schema=schema)


def shard_of(name: str, shards: int) -> int:
    return crc32(name.encode()) % shards


@dataclass
class ShardedPurgatory:
    """``delay_ms``: how far behind the newest of its input a record may be read."""

    shards: int = 1
    delay_ms: int = 0
    outcomes: list[Outcome] = field(default_factory=list)
    tallies: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.watermark_ms = 0
        self._newest = [0, 0]  # of operations and signals, in milliseconds
        self._watching: list[tuple[bytes | None, ...]] = [(None, None)] * self.shards
        self._pending: list[tuple[bytes | None, ...]] = [(None, None)] * self.shards

    @property
    def stored(self) -> list[bytes | None]:
        return [value for state in (*self._watching, *self._pending) for value in state]

    def read(self, operations: list[Operation], signals: list[Signal]) -> None:
        """A batch by event time, decided by the watermark of those before it."""
        self.batch(operations, signals, by_watermark(self.watermark_ms))
        self._newest[0] = max([self._newest[0], *(row.submit_ns // MS for row in operations)])
        self._newest[1] = max([self._newest[1], *(row.at_ns // MS for row in signals)])
        self.watermark_ms = max(self.watermark_ms, min(self._newest) - self.delay_ms)

    def batch(self, operations: list[Operation], signals: list[Signal], frontier: Frontier) -> None:
        matches = [
            row
            for shard in range(self.shards)
            for row in self._first_stage(shard, operations, signals, frontier)
        ]
        for shard in range(self.shards):
            self._second_stage(shard, operations, matches, frontier)

    def _first_stage(
        self, shard: int, operations: list[Operation], signals: list[Signal], frontier: Frontier
    ) -> list[tuple]:
        watches = [
            (key, row.op_id, row.submit_ns, row.deadline_ns, row.needed)
            for row in operations
            for key in set(row.keys)
            if row.needed > 0 and shard_of(key, self.shards) == shard
        ]
        own = [row for row in signals if shard_of(row.key, self.shards) == shard]
        known = WatchShard(decode(self._watching[shard][0], WATCHES), decode(self._watching[shard][1], SEEN))
        known, matches = known.take_in(table(WATCHES, watches), table(SIGNALS, own), frontier)
        self._watching[shard] = encode(known.watches), encode(known.seen)
        return [tuple(row.values()) for row in matches.to_pylist()]

    def _second_stage(
        self, shard: int, operations: list[Operation], matches: list[tuple], frontier: Frontier
    ) -> None:
        rows = [
            (row.op_id, row.submit_ns, row.deadline_ns, row.needed)
            for row in operations
            if shard_of(row.op_id, self.shards) == shard
        ]
        own = [row for row in matches if shard_of(row[0], self.shards) == shard]
        known = OperationShard(
            decode(self._pending[shard][0], PENDING), decode(self._pending[shard][1], MATCHES)
        )
        step = known.advance(table(OPERATIONS, rows), table(MATCHES, own), frontier)
        self._pending[shard] = encode(step.shard.pending), encode(step.shard.unsettled)
        self.outcomes += [Outcome(**row) for row in step.outcomes.to_pylist()]
        for name, count in zip(TALLY, step.tally, strict=True):
            self.tallies[name] = self.tallies.get(name, 0) + count
