"""A purgatory's notion of time, and the single timer of each shard."""

from dataclasses import dataclass
from typing import Literal

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues

from purgatory_async.pipeline.kernels.shards_frontier import MS, Frontier, by_clock, by_watermark

__all__ = ["Pace", "Time", "reset_timer"]

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


def reset_timer(handle: StatefulProcessorHandle, standing_ms: int, wanted_ms: int) -> int:
    """Replace the shard's timer; returns the registered one.

    Args:
        handle: Of the processor, at the shard.
        standing_ms: The registered timer; 0 for none.
        wanted_ms: The new timer; 0 for none.
    """
    if standing_ms == wanted_ms:
        return wanted_ms
    # Delete it even if it is due: its work has just been done.
    if standing_ms:
        handle.deleteTimer(standing_ms)
    if wanted_ms:
        handle.registerTimer(wanted_ms)
    return wanted_ms
