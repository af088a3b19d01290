"""A row of counts: what became of the items of one race, and of the cancellations."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.measure.line import Verdict
from bench.patterns.race.fate import Fate

__all__ = ["Tally", "heading"]

COUNTS = ("rounds", "delivered", "returned", "lost", "doubled", "swallowed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Counts of one contestant's rounds.

    Args:
        contestant: Who took part.
        moment: When its taker was cancelled, or timed out.
        loop: The event loop it ran on.
        rounds: How many there were; each item has one of the four fates that follow.
        delivered: The taker had the item.
        returned: The next taker had it.
        lost: No taker got it.
        doubled: Both had it.
        swallowed: The task was cancelled, and went on as if it had not been; the item may have any fate.
        ours: Nothing may be lost, doubled or swallowed.
    """

    contestant: str
    moment: str
    loop: str
    rounds: int
    delivered: int
    returned: int
    lost: int
    doubled: int
    swallowed: int
    ours: bool

    @classmethod
    def of(
        cls, fates: Counter[Fate], *, contestant: str, moment: str, loop: str, swallowed: int, ours: bool
    ) -> "Tally":
        """Count up."""
        return cls(
            contestant=contestant,
            moment=moment,
            loop=loop,
            rounds=fates.total(),
            delivered=fates[Fate.DELIVERED],
            returned=fates[Fate.RETURNED],
            lost=fates[Fate.LOST],
            doubled=fates[Fate.DOUBLED],
            swallowed=swallowed,
            ours=ours,
        )

    @classmethod
    def sum_of(cls, tallies: Sequence["Tally"], moment: str) -> "Tally":
        """All moments of one contestant on one loop together."""
        counts = {name: sum(getattr(tally, name) for tally in tallies) for name in COUNTS}
        return replace(tallies[0], moment=moment, **counts)

    @property
    def verdict(self) -> Verdict:
        """Met, missed, or only shown."""
        if not self.ours:
            return Verdict.SHOWN
        return Verdict.MISSED if self.lost or self.doubled or self.swallowed else Verdict.MET

    def __str__(self) -> str:
        counts = (getattr(self, name) for name in COUNTS)
        figures = "".join(f"{count:>11,}" if count else f"{'-':>11}" for count in counts)
        return f"{self.contestant:<42} {self.moment:<29} {self.loop:<8}{figures}  {self.verdict}"


def heading() -> str:
    """The names of the columns of a tally."""
    figures = "".join(f"{name:>11}" for name in COUNTS)
    return f"{'':<42} {'the taker':<29} {'loop':<8}{figures}  verdict"
