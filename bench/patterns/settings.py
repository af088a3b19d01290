"""How much of the patterns is measured."""

from dataclasses import dataclass

from bench.measure.section import Conditions

__all__ = ["PatternSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternSettings(Conditions):
    """How much of the patterns is measured.

    Args:
        waiters: How many wait for a number to reach their value.
        races: How many times each contestant runs the race of an item and a cancellation.
        items: How many items change hands in one sample.
        takers: How many are idle on one key, from few to a crowd.
    """

    waiters: int
    races: int
    items: int
    takers: int
