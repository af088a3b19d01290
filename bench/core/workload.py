"""What the sections work on: timeouts, orders, keys, and operations as users write them."""

import random
from dataclasses import dataclass
from typing import ClassVar

from bench.core.settings import CoreSettings
from purgatory_async import DelayedOperation

__all__ = ["SHAPES", "WHOLE", "CallbackOperation", "GatedOperation", "Workload"]

SAME_TIMEOUT = 60.0
UNIFORM_TIMEOUTS = (1.0, 60.0)

SHAPES = {"same": "same 60 s", "uniform": "1-60 s"}
WHOLE = {"same": "same 60 s", "whole": "whole seconds, 1-60"}
"""Shapes that can be had as integers too: their name with ``int`` behind it."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Seeded input for a number of operations; all of it is made before the clock starts.

    Attributes:
        count: How many operations.
        keys: A distinct watch key for each.
        order: The indices shuffled. Completing in the order of insertion would hide the cache misses that
            every real program has, up to fivefold at a million.
    """

    count: int
    keys: list[str]
    order: list[int]
    seed: int

    @classmethod
    def of(cls, count: int, settings: CoreSettings) -> "Workload":
        """A workload of that many operations under the run's seed."""
        order = list(range(count))
        random.Random(settings.seed).shuffle(order)
        return cls(count, [f"order-{number}" for number in range(count)], order, settings.seed)

    def timeouts(self, shape: str) -> list[float]:
        """A timeout in seconds for each operation."""
        kind = int if shape.endswith(" int") else float
        if shape.startswith("same"):
            return [kind(SAME_TIMEOUT)] * self.count
        if shape.startswith("whole"):
            choose = random.Random(self.seed + 1).randint
            return [kind(choose(1, 60)) for _ in range(self.count)]
        draw = random.Random(self.seed + 1).uniform
        return [draw(*UNIFORM_TIMEOUTS) for _ in range(self.count)]


class CallbackOperation(DelayedOperation[None]):
    """An operation without a waiter; its hooks do nothing, so that only their calls are measured."""

    __slots__ = ()

    def on_complete(self) -> None:
        """The user's work would be here."""

    def on_expiration(self) -> None:
        """The user's work would be here."""


class GatedOperation(CallbackOperation):
    """An operation whose condition is one flag for all: not when watched, but when checked."""

    __slots__ = ()
    condition_holds: ClassVar[bool] = False

    def try_complete(self) -> bool:
        """Complete if the flag is up."""
        return self.condition_holds and self.force_complete()
