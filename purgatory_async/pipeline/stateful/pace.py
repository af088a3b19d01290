"""By which time a purgatory goes, and the one timer that each of its shards has."""

from dataclasses import dataclass
from typing import Literal

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues

from purgatory_async.pipeline.kernels.shards_frontier import MS, Frontier, by_clock, by_watermark

__all__ = ["Pace", "Time", "reset_timer"]

Time = Literal["event", "processing"]


@dataclass(frozen=True, slots=True)
class Pace:
    """By which time a purgatory goes; it travels to Spark's workers with the stages.

    Attributes:
        time: By the watermark, or by the clock.
        delay_ms: By event time how far behind the newest of its input a record may come, which Spark takes off the
            watermark; by processing time how long after its deadline an operation waits for signals to be read.
        keep_ms: By processing time how long a signal is kept for operations that are read after it.
    """

    time: Time
    delay_ms: int
    keep_ms: int

    @property
    def time_mode(self) -> str:
        """Spark's word for it."""
        return "EventTime" if self.time == "event" else "ProcessingTime"

    def frontier(self, values: TimerValues) -> Frontier:
        """How far time has come in this batch."""
        if self.time == "event":
            return by_watermark(values.getCurrentWatermarkInMs())
        clock_ms = values.getCurrentProcessingTimeInMs()
        return by_clock(clock_ms, delay_ns=self.delay_ms * MS, keep_ns=self.keep_ms * MS)


def reset_timer(handle: StatefulProcessorHandle, standing_ms: int, wanted_ms: int) -> int:
    """Have one timer of the shard's in place of another.

    Args:
        handle: Of the processor, at the shard.
        standing_ms: What is registered; 0 for nothing.
        wanted_ms: What should be; 0 for nothing.

    Returns:
        What is registered now.
    """
    if standing_ms == wanted_ms:
        return wanted_ms
    # One that is due goes too: what it would call for has just been done.
    if standing_ms:
        handle.deleteTimer(standing_ms)
    if wanted_ms:
        handle.registerTimer(wanted_ms)
    return wanted_ms
