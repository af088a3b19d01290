"""Journals for tests: records with few words, and the files that a writer would leave of them."""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from purgatory_async.journal.columns import arrow_schema, record_batches
from purgatory_async.journal.lines import encode_record
from purgatory_async.journal.schema import (
    RESCHEDULE_VERSION,
    Outcome,
    Record,
    Reschedule,
    Signal,
    Stats,
    Submit,
)
from purgatory_async.journal.segments import Segment

MS = 1_000_000
# Midnight, so that windows of any sensible width begin at it.
EPOCH = 1_790_000_000 // 86_400 * 86_400 * 1_000_000_000


class Node:
    """Counts ``seq`` as a writer does, and keeps all records in order.

    Instants are nanoseconds since the start of the run.
    """

    def __init__(self, run_id="run", node="n1", epoch=EPOCH):
        self.run_id, self.node, self.epoch = run_id, node, epoch
        self.records: list[Record] = []
        self.next_seq = 1

    def submit(self, op_id, at, keys=("a",), needed=1, timeout=200 * MS, **changes):
        fields = {"op_id": op_id, "keys": list(keys), "needed": needed, "timeout_ns": timeout}
        return self._add(Submit, at, fields | changes)

    def reschedule(self, op_id, at, timeout=200 * MS, **changes):
        fields = {"op_id": op_id, "timeout_ns": timeout, "schema_version": RESCHEDULE_VERSION}
        return self._add(Reschedule, at, fields | changes)

    def signal(self, key, at, n=1, **changes):
        return self._add(Signal, at, {"key": key, "n": n} | changes)

    def outcome(self, op_id, at, outcome="completed", keys=("a",), latency=0, **changes):
        fields = {"op_id": op_id, "keys": list(keys), "outcome": outcome, "latency_ns": latency}
        return self._add(Outcome, at, fields | changes)

    def stats(self, at, **changes):
        fields = {"pending": 0, "watched": 0, "timer_buckets": 0, "tick_ns": MS, "wheel_size": 20}
        return self._add(Stats, at, fields | changes)

    def skip(self, count=1):
        """Lose records: their ``seq`` is missing."""
        self.next_seq += count

    def _add(self, kind, at, fields):
        common = {
            "schema_version": 1,
            "run_id": self.run_id,
            "node": self.node,
            "seq": self.next_seq,
            "wall_ns": self.epoch + at,
            "mono_ns": at,
        }
        record = kind(**(common | fields))
        self.next_seq += 1
        self.records.append(record)
        return record


def mixed(calls=200, people=12):
    """Calls with a timeout of 1 s, and people with one of 2 h; every tenth call and every sixth person is too late."""
    node = Node()
    for prefix, count, unit, timeout, late in (
        ("api", calls, 4 * MS, 1000 * MS, 10),
        ("human", people, 300_000 * MS, 7_200_000 * MS, 6),
    ):
        for place in range(1, count + 1):
            key = f"{prefix}:{place}"
            node.submit(key, place * MS, keys=(key,), timeout=timeout)
            if place % late == 0:
                fields = {"outcome": "expired", "latency": timeout, "lateness_ns": 0}
                node.outcome(key, place * MS + timeout, keys=(key,), **fields)
            else:
                node.outcome(key, place * MS + place * unit, keys=(key,), latency=place * unit)
    return node


def lines(records: Iterable[Record]) -> bytes:
    """The bytes of a live segment."""
    buffer = bytearray()
    for record in records:
        encode_record(record, buffer)
    return bytes(buffer)


def live(directory: Path, records: Iterable[Record], number=1, run_id="run", node="n1") -> Path:
    """Write a segment as JSON lines."""
    path = Segment.named(directory, run_id, node, number).path
    path.write_bytes(lines(records))
    return path


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def rotated(directory: Path, records: Iterable[Record], number=1, run_id="run", node="n1") -> Path:
    """Write a segment as Parquet, and remove its JSON lines if they are there."""
    segment = Segment.named(directory, run_id, node, number)
    table = pa.Table.from_batches(record_batches(records), schema=arrow_schema()).sort_by("seq")
    hidden = directory / f".{segment.name}"
    pq.write_table(table, hidden)
    hidden.rename(segment.parquet)
    segment.path.unlink(missing_ok=True)
    return segment.parquet
