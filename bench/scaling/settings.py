"""How far the price of an operation is followed."""

from dataclasses import dataclass

from bench.measure.section import Conditions

__all__ = ["ScalingSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingSettings(Conditions):
    """How far the price of an operation is followed.

    Args:
        operations: Timed in each sample, whatever else waits.
        pending: How many others wait.
        keys: How many keys an operation watches.
        watchers: How many watch one key.
        standing: How many others wait where that is not what is varied.
        millions: How many are pending at once in the section of that name.
    """

    operations: int
    pending: tuple[int, ...]
    keys: tuple[int, ...]
    watchers: tuple[int, ...]
    standing: int
    millions: tuple[int, ...]
