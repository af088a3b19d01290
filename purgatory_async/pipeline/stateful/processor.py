"""Base of both stages: keeps a shard's state and its single timer in Spark."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from purgatory_async.pipeline.kernels.shards_frontier import Frontier
from purgatory_async.pipeline.stateful.frames import Frame, as_frames, as_rows
from purgatory_async.pipeline.stateful.pace import Pace

__all__ = ["ShardProcessor"]


class ShardProcessor(StatefulProcessor):
    """A shard kept by Spark."""

    state: ClassVar[str]
    """Its columns, as Spark writes them."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace

    @abstractmethod
    def take_in(self, rows: pa.Table, frontier: Frontier) -> pa.Table:
        """Process a batch's rows of the shard; returns the output rows."""

    @abstractmethod
    def go_on(self, frontier: Frontier) -> pa.Table:
        """Process due work in a batch without rows; returns the output rows."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark first, in each task."""
        self._handle = handle
        self._state = handle.getValueState("shard", self.state)

    # Spark passes these arguments by name. It handles the rows of a batch before its timers, so a signal that is read
    # in time counts even if its batch comes after the deadline.
    def handleInputRows(  # noqa: N802  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        key: Any,  # noqa: ARG002
        rows: Iterator[Frame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Frame]:
        """Called by Spark for each shard with rows in a batch."""
        yield from as_frames(self.take_in(as_rows(rows), self._pace.frontier(timerValues)))

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: ARG002, N803
    ) -> Iterator[Frame]:
        """Called by Spark for each shard with a due timer."""
        yield from as_frames(self.go_on(self._pace.frontier(timerValues)))
