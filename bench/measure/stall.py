"""How long the event loop is away: the time between two turns of a task that does nothing but yield."""

import asyncio
import resource
import time
from dataclasses import dataclass

__all__ = ["StallWatch", "worst"]


@dataclass(slots=True)
class StallWatch:
    """The longest pass of the loop so far, in milliseconds.

    It is wall time, because that is what a user waits. But a machine that is shared takes the processor away
    for 4 to 16 ms at a time, also from a loop that does nothing. A pass in which that happened (the system
    counts involuntary switches) stands with its processor time: a loop that only computes would have been
    away no longer.

    Attributes:
        longest_ms: The longest of all passes.
        longest_wall_ms: The longest pass by the wall clock, interruptions included.
        passes: How many there were.
        interrupted: In how many of them the processor was taken away.
    """

    longest_ms: float = 0.0
    longest_wall_ms: float = 0.0
    passes: int = 0
    interrupted: int = 0

    async def watch_pass(self) -> None:
        """Let the loop make one pass, and remember how long it took."""
        switches = involuntary_switches()
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        await asyncio.sleep(0)
        cpu_ms = (time.process_time_ns() - cpu) / 1e6
        wall_ms = (time.perf_counter_ns() - wall) / 1e6
        interrupted = involuntary_switches() != switches
        self.passes += 1
        self.interrupted += interrupted
        self.longest_ms = max(self.longest_ms, cpu_ms if interrupted else wall_ms)
        self.longest_wall_ms = max(self.longest_wall_ms, wall_ms)

    def __str__(self) -> str:
        return f"{self.longest_wall_ms:.2f} ms with interruptions, {self.interrupted} of {self.passes} passes had one"


def involuntary_switches() -> int:
    """How often the system has taken the processor away from this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def worst(watches: list[StallWatch]) -> StallWatch:
    """The watch that saw the longest interruption."""
    return max(watches, key=lambda watch: watch.longest_wall_ms)
