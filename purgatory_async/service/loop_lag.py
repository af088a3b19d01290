"""How late the event loop runs what is due: the one figure that tells a slow service from a quiet one."""

from typing import Final

from purgatory_async import Timer
from purgatory_async.metrics import Histogram

PERIOD: Final = 0.5  # seconds between two probes


class LoopLag:
    """A probe that asks to be called at a time and notes how much later it was.

    Args:
        timer: On the loop to be watched.
        histogram: Takes what it finds, in seconds.
    """

    def __init__(self, timer: Timer, histogram: Histogram) -> None:
        self._timer = timer
        self._histogram = histogram

    def start(self) -> None:
        """Probe from now on, until the timer closes."""
        self._timer.call_later(PERIOD, self._probe, self._timer.time() + PERIOD)

    def _probe(self, due: float) -> None:
        self._histogram.observe(self._timer.time() - due)
        self.start()
