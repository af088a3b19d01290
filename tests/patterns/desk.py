"""A retrier on a clock of its own, and what it gave up."""

from typing import Any

from purgatory_async.patterns import Retrier
from tests.loop.worlds import World
from tests.patterns.calls import Call

__all__ = ["Desk"]


class Desk:
    """Takes calls for a key and notes which were given up, and for what."""

    def __init__(self, world: World, *, tick: float = 0.001, **settings: Any) -> None:
        self.timer = world.timer(tick=tick)
        self.given_up: list[tuple[object, BaseException]] = []
        self.retrier: Retrier[Any] = Retrier(
            self.timer, **({"on_give_up": lambda *what: self.given_up.append(what)} | settings)
        )

    def call(self, *args: Any, **settings: Any) -> Call:
        """A call that was submitted for the key ``"key"``."""
        call = Call(self.timer, *args, **settings)
        self.retrier.submit("key", call.attempt)
        return call
