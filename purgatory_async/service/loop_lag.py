"""Measures the delay of the event loop: it distinguishes a slow service from a quiet one."""

from collections.abc import Callable
from typing import Final

from purgatory_async import Timer

PERIOD: Final = 0.1  # seconds between two probes; a shorter stall may fall between them


class LoopLag:
    """Schedules a probe and reports how late it ran.

    Args:
        timer: On the loop to measure.
        note: Called with each delay, in seconds.
    """

    def __init__(self, timer: Timer, note: Callable[[float], None]) -> None:
        self._timer = timer
        self._note = note

    def start(self) -> None:
        """Probe until the timer closes."""
        self._timer.call_later(PERIOD, self._probe, self._timer.time() + PERIOD)

    def _probe(self, due: float) -> None:
        self._note(max(0.0, self._timer.time() - due))  # a float may be off by a hair
        self.start()
