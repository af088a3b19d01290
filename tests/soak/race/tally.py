"""A row of counts: what became of the items of one race, and of the cancellations."""

from collections import Counter
from dataclasses import dataclass

from tests.soak.race.fate import Fate

__all__ = ["Tally", "heading"]

COUNTS = ("rounds", *Fate, "swallowed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Counts of one contestant's rounds.

    Args:
        contestant: Who took part.
        moment: When its taker was cancelled, or timed out.
        loop: The event loop it ran on.
        fates: One for each round.
        swallowed: The task was cancelled, and went on as if it had not been; the item may have any fate.
        ours: Nothing may be lost, doubled or swallowed.
    """

    contestant: str
    moment: str
    loop: str
    fates: Counter[Fate]
    swallowed: int = 0
    ours: bool

    @property
    def faults(self) -> int:
        """How many items and cancellations are not where they should be."""
        return self.fates[Fate.LOST] + self.fates[Fate.DOUBLED] + self.swallowed

    def __str__(self) -> str:
        counts = (self.fates.total(), *(self.fates[fate] for fate in Fate), self.swallowed)
        figures = "".join(f"{count:>11,}" if count else f"{'-':>11}" for count in counts)
        verdict = ("MISSED" if self.faults else "met") if self.ours else "shown"
        return f"{self.contestant:<42} {self.moment:<29} {self.loop:<8}{figures}  {verdict}"


def heading() -> str:
    """The names of the columns of a tally."""
    figures = "".join(f"{name:>11}" for name in COUNTS)
    return f"{'':<42} {'the taker':<29} {'loop':<8}{figures}  verdict"
