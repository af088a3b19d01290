"""A link with a heartbeat that writes down when it was pinged, and when it died."""

from typing import Any

from purgatory_async import Timer
from purgatory_async.patterns import Heartbeat
from purgatory_async.testing import ManualClock

__all__ = ["Link", "manual_link"]


class Link:
    """What a heartbeat did, and when."""

    def __init__(self, timer: Timer, **settings: Any) -> None:
        self.timer = timer
        self.pings: list[float] = []
        self.deaths: list[float] = []
        settings = {"interval": 60, "send": self.ping, "on_dead": self.die} | settings
        self.heart = Heartbeat(timer, **settings)

    def ping(self) -> None:
        self.pings.append(self.timer.time())

    def die(self) -> None:
        self.deaths.append(self.timer.time())


def manual_link(**settings: Any) -> tuple[ManualClock, Link]:
    clock = ManualClock()
    return clock, Link(Timer(clock=clock), **settings)
