"""A shard of the distributed purgatory: its time, its rows, and how Spark keeps it.

Spark calls with the time of a batch in milliseconds: its watermark or its clock. Records keep their nanoseconds. The
two meet here and nowhere else, and always in the same direction: a millisecond stands for its first nanosecond, so
whatever is taken as read has been read, and whatever is due comes up a millisecond late rather than early.

A shard's state is a few values of many kilobytes, not many small ones: each call to Spark's state is a round trip to
the JVM of about a millisecond, and a shard makes a handful of them per batch, independent of its operations.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

import numpy as np
import pandas as pd  # type: ignore[import-untyped] # its stubs are a package of their own
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

Longs = NDArray[np.int64]
LONG: Final = pa.int64()
TEXT: Final = pa.string()

EARLIEST_NS: Final = -(2**63)
LATEST_NS: Final = 2**63 - 1
MS: Final = 10**6


@dataclass(frozen=True, slots=True)
class Frontier:
    """How far time has come in one batch.

    Attributes:
        now_ns: Deadlines up to here have passed.
        settled_ns: All signals before here have been read.
        eager: Whether a sum that is reached counts at once, or only when no earlier signal can come any more.
        keep_ns: How long a signal is kept, after it was read, for operations that are read later. By event time it is
            kept until it is settled: an operation read after that was submitted after it.
        lag_ns: From ``now_ns`` to the time by which Spark's timers go.
    """

    now_ns: int
    settled_ns: int
    eager: bool
    keep_ns: int = 0
    lag_ns: int = 0

    def kept_until_ns(self, at_ns: Longs) -> Longs:
        """For each signal the instant from which no operation that is still to be read can need it."""
        if not self.eager:
            return at_ns
        latest = LATEST_NS - self.keep_ns
        return np.minimum(np.maximum(at_ns, self.now_ns), latest) + self.keep_ns

    @property
    def present_ms(self) -> int:
        """The time of the batch by which Spark's timers go; 0 before there is one."""
        return max(0, (self.now_ns + self.lag_ns) // MS)

    def timer_ms(self, due_ns: int) -> int:
        """When Spark is to call so that ``due_ns`` has passed: after this batch, since it has done what it could."""
        return max(-((due_ns + self.lag_ns) // -MS), self.present_ms + 1)


def by_watermark(watermark_ms: int) -> Frontier:
    """Event time: what has been read decides, and nothing before the watermark (0 for none yet) is still to be read.

    >>> by_watermark(1_500).now_ns
    1500000000
    >>> by_watermark(1_500).timer_ms(2_000_000_001)  # a nanosecond late is a millisecond late
    2001
    """
    at_ns = watermark_ms * MS if watermark_ms > 0 else EARLIEST_NS
    return Frontier(at_ns, at_ns, eager=False)


def by_clock(clock_ms: int, *, delay_ns: int, keep_ns: int) -> Frontier:
    """Processing time: the batch's clock decides, whatever is still to be read; see `Pace`."""
    clock_ns = clock_ms * MS
    return Frontier(
        clock_ns - delay_ns, clock_ns - delay_ns - keep_ns, eager=True, keep_ns=keep_ns, lag_ns=delay_ns
    )


def encode(rows: pa.Table) -> bytes | None:
    """Encode rows as an Arrow stream; None without rows, so that an empty shard takes no space. O(bytes)."""
    if not rows.num_rows:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return bytes(sink.getvalue())


def decode(stored: bytes | None, schema: pa.Schema) -> pa.Table:
    """Decode the result of `encode`, without a copy."""
    if not stored:
        return schema.empty_table()
    with pa.ipc.open_stream(stored) as reader:
        return reader.read_all()


def longs(rows: pa.Table, column: str) -> Longs:
    """A column of integers without nulls as a numpy array."""
    values: Longs = rows[column].to_numpy()
    return values


def replaced(rows: pa.Table, column: str, values: Longs) -> pa.Table:
    """The rows with other values in a column of integers."""
    return rows.set_column(rows.schema.get_field_index(column), pa.field(column, LONG), pa.array(values))


def identities(tables: Sequence[pa.Table], *columns: str) -> list[Longs]:
    """Number the rows of several tables so that equal rows have equal numbers. O(n log n).

    Where a row is less than another in its last column and equal in those before, its number is less, if that column is
    one of integers.

    >>> some = pa.table({"key": ["b", "a"], "at_ns": [5, 7]})
    >>> more = pa.table({"key": ["a"], "at_ns": [7]})
    >>> [numbers.tolist() for numbers in identities([some, more], "key", "at_ns")]
    [[0, 3], [3]]
    """
    numbers: Longs = np.zeros(sum(table.num_rows for table in tables), np.int64)
    for column in columns:
        chunks = [chunk for table in tables for chunk in table[column].chunks]
        ranks = _ranks(pa.chunked_array(chunks, tables[0].schema.field(column).type))
        numbers = numbers * (ranks.max(initial=0) + 1) + ranks
    return np.split(numbers, np.cumsum([table.num_rows for table in tables])[:-1])


def _ranks(values: pa.ChunkedArray) -> Longs:
    """Return a small number for each value; integers are numbered in ascending order, strings as they first appear."""
    if pa.types.is_integer(values.type):
        return np.unique(values.to_numpy(), return_inverse=True)[1].astype(np.int64)
    coded: Any = values.combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    ranks: Longs = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return ranks


def new_rows(known: pa.Table, rows: pa.Table, *columns: str) -> pa.Table:
    """The rows that are not in ``known``, the first of equal ones, in order; ``columns`` decide. O(n log n)."""
    if not rows.num_rows:
        return rows
    old, fresh = identities([known, rows], *columns)
    first = np.sort(np.unique(fresh, return_index=True)[1])
    first = first[~np.isin(fresh[first], old)]
    return rows if len(first) == rows.num_rows else rows.take(pa.array(first))


Time = Literal["event", "processing"]


@dataclass(frozen=True, slots=True)
class Pace:
    """A purgatory's notion of time; the stages carry it to Spark's workers.

    Attributes:
        time: Event time (the watermark) or processing time (the clock).
        delay_ms: Event time: how far a record may be behind the newest of its input, which Spark subtracts from the
            watermark. Processing time: how long an operation waits after its deadline for signals to be read.
        keep_ms: Processing time: how long a signal is kept for operations that are read after it.
    """

    time: Time
    delay_ms: int
    keep_ms: int

    @property
    def time_mode(self) -> str:
        """Spark's name for it."""
        return "EventTime" if self.time == "event" else "ProcessingTime"

    def frontier(self, values: TimerValues) -> Frontier:
        """The frontier of time in this batch."""
        if self.time == "event":
            return by_watermark(values.getCurrentWatermarkInMs())
        clock_ms = values.getCurrentProcessingTimeInMs()
        return by_clock(clock_ms, delay_ns=self.delay_ms * MS, keep_ns=self.keep_ms * MS)


def as_rows(frames: Iterable[pd.DataFrame]) -> pa.Table:
    """Join a shard's rows into one table; Spark splits large ones. O(bytes)."""
    # A part without any name, as of operations only, has a column of no type.
    return pa.concat_tables(
        (pa.Table.from_pandas(frame, preserve_index=False) for frame in frames), promote_options="default"
    )


def chosen(rows: pa.Table, which: pa.ChunkedArray, schema: pa.Schema, *columns: str) -> pa.Table:
    """Select rows, in a kernel's schema; ``columns`` are their names in ``rows``."""
    return rows.select(list(columns)).filter(which).rename_columns(schema.names).cast(schema)


class ShardProcessor(StatefulProcessor):
    """A shard kept by Spark; ``state`` are its columns, as Spark writes them."""

    state: ClassVar[str]

    def __init__(self, pace: Pace) -> None:
        self._pace = pace

    @abstractmethod
    def advance(self, rows: pa.Table | None, frontier: Frontier) -> pa.Table:
        """Process a batch's rows of the shard, or None when its timer is due; returns the output rows."""

    def reset_timer(self, standing_ms: int, wanted_ms: int) -> int:
        """Replace the shard's timer if its time differs; return its time. A time of 0 means no timer."""
        if standing_ms != wanted_ms:
            # Delete it even if it is due: its work has just been done.
            if standing_ms:
                self._handle.deleteTimer(standing_ms)
            if wanted_ms:
                self._handle.registerTimer(wanted_ms)
        return wanted_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark first, in each task."""
        self._handle = handle
        self._state = handle.getValueState("shard", self.state)

    # Spark passes these arguments by name. It handles the rows of a batch before its timers, so a signal that is read
    # in time counts even if its batch comes after the deadline.
    def handleInputRows(  # noqa: N802  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        key: Any,  # noqa: ARG002
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Called by Spark for each shard with rows in a batch."""
        return self._frames(as_rows(rows), timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        """Called by Spark for each shard with a due timer."""
        return self._frames(None, timerValues)

    def _frames(self, rows: pa.Table | None, values: TimerValues) -> Iterator[pd.DataFrame]:
        output = self.advance(rows, self._pace.frontier(values))
        if output.num_rows:
            yield output.to_pandas()
