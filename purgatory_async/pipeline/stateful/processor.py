"""What both stages are to Spark: a shard's state, its one timer, and a step for whatever a call brings."""

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
    """A shard kept by Spark.

    Args:
        pace: By which time it goes.
    """

    state: ClassVar[str]
    """Its columns, as Spark writes them."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace

    @abstractmethod
    def take_in(self, rows: pa.Table, frontier: Frontier) -> pa.Table:
        """Take in what a batch brings for the shard; gives what is to be told."""

    @abstractmethod
    def go_on(self, frontier: Frontier) -> pa.Table:
        """Do what is due, where no rows come; gives what is to be told."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark before anything else, in each task."""
        self._handle = handle
        self._state = handle.getValueState("shard", self.state)

    # Spark passes these arguments by name. It calls for the rows of a batch before it calls for its timers, so a signal
    # that is read in time counts even if its batch comes after the deadline.
    def handleInputRows(  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        rows: Iterator[Frame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Frame]:
        """Called by Spark for each shard that a batch has rows for."""
        yield from as_frames(self.take_in(as_rows(rows), self._pace.frontier(timerValues)))

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: ARG002, N803
    ) -> Iterator[Frame]:
        """Called by Spark for each shard whose timer is due."""
        yield from as_frames(self.go_on(self._pace.frontier(timerValues)))
