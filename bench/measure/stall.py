"""How long the event loop is away: the time between two turns of a task that does nothing but yield."""

import asyncio
import time
from dataclasses import dataclass

__all__ = ["StallWatch"]


@dataclass(slots=True)
class StallWatch:
    """The longest pass of the loop so far, in milliseconds.

    Wall time, because that is what a user waits; processor time beside it, because a machine that is shared
    also takes the processor away, and then only the wall time grows.
    """

    longest_ms: float = 0.0
    longest_cpu_ms: float = 0.0
    passes: int = 0

    async def watch_pass(self) -> None:
        """Let the loop make one pass, and remember how long it took."""
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        await asyncio.sleep(0)
        self.longest_cpu_ms = max(self.longest_cpu_ms, (time.process_time_ns() - cpu) / 1e6)
        self.longest_ms = max(self.longest_ms, (time.perf_counter_ns() - wall) / 1e6)
        self.passes += 1
