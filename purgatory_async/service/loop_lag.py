"""How late the event loop runs what is due: the one figure that tells a slow service from a quiet one."""

from collections.abc import Callable
from typing import Final

from purgatory_async import Timer

PERIOD: Final = 0.1  # seconds between two probes; a shorter stall may fall between them


class LoopLag:
    """A probe that asks to be called at a time and notes how much later it was.

    Args:
        timer: On the loop to be watched.
        note: Told what it finds, in seconds.
    """

    def __init__(self, timer: Timer, note: Callable[[float], None]) -> None:
        self._timer = timer
        self._note = note

    def start(self) -> None:
        """Probe from now on, until the timer closes."""
        self._timer.call_later(PERIOD, self._probe, self._timer.time() + PERIOD)

    def _probe(self, due: float) -> None:
        self._note(max(0.0, self._timer.time() - due))  # a float may be off by a hair
        self.start()
