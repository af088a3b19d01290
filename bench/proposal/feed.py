"""The load: requests come in at their times, and those that are answered in time are answered at theirs.

One callback on the loop does both. A request is answered its latency after it was really taken, as in the proposal's
benchmark, so a system that falls behind gets no relief from answers that come early. Latencies are whole
milliseconds there too, which lets answers wait in a ring of a slot per millisecond: the harness must not cost more than
what it measures. When it is behind, it goes on at once, some hundred requests at a time, so that the loop's timers run.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Feed"]

NS_PER_MS = 1_000_000
AT_ONCE = 256
PAUSE_S = 0.001


class Feed:
    """Feeds requests to a contestant, and answers them.

    Args:
        arrivals_ns: When each request comes, ascending, from the start.
        latencies_ms: How long until each is answered.
        timeout_ms: What takes longer is not answered.
        submit: Takes a request by its number; returns what to answer, or None for nothing.
        answer: Answers what ``submit`` returned.
    """

    def __init__(
        self,
        arrivals_ns: Sequence[int],
        latencies_ms: Sequence[int],
        timeout_ms: int,
        submit: Callable[[int], Any],
        answer: Callable[[Any], object],
    ) -> None:
        self._arrivals_ns = arrivals_ns
        self._latencies_ms = latencies_ms
        self._timeout_ms = timeout_ms
        self._submit = submit
        self._answer = answer
        self._ring: list[list[Any]] = [[] for _ in range(timeout_ms + 1)]
        self._answered_ms = 0
        self._taken = 0
        self._loop = asyncio.get_running_loop()
        self._all_taken = self._loop.create_future()
        self.taken_s = 0.0
        """How long it took until the last was taken, in seconds."""

    async def run(self) -> None:
        """Feed all, and answer until nothing is left to answer."""
        self._start_ns = time.monotonic_ns()
        self._pass()
        await self._all_taken

    def _pass(self) -> None:
        now_ns = time.monotonic_ns() - self._start_ns
        self._answer_until(now_ns // NS_PER_MS)
        if self._take_until(now_ns):
            self._loop.call_soon(self._pass)
        elif self._taken < len(self._arrivals_ns) or any(self._ring):
            self._loop.call_later(PAUSE_S, self._pass)
        else:
            self._all_taken.set_result(None)

    def _answer_until(self, now_ms: int) -> None:
        ring, answer = self._ring, self._answer
        # After a stall longer than the ring every slot is due; once around is enough.
        for ms in range(max(self._answered_ms + 1, now_ms - len(ring) + 1), now_ms + 1):
            slot = ring[ms % len(ring)]
            for request in slot:
                answer(request)
            slot.clear()
        self._answered_ms = max(self._answered_ms, now_ms)

    def _take_until(self, now_ns: int) -> bool:
        """Take what has come by now; returns whether some had to be left for the next pass."""
        arrivals, latencies, submit, ring = self._arrivals_ns, self._latencies_ms, self._submit, self._ring
        first, size, now_ms, timeout_ms = self._taken, len(self._ring), self._answered_ms, self._timeout_ms
        last = min(first + AT_ONCE, len(arrivals))
        for number in range(first, last):
            if arrivals[number] > now_ns:
                self._taken = number
                return False
            request = submit(number)
            latency_ms = latencies[number]
            if request is not None and latency_ms < timeout_ms:
                ring[(now_ms + max(latency_ms, 1)) % size].append(request)
        self._taken = last
        if last == len(arrivals):
            self.taken_s = self.taken_s or (time.monotonic_ns() - self._start_ns) / 1e9
            return False
        return True
