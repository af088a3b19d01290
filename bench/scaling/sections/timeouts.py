"""The price of an operation against how long it may wait."""

from collections.abc import Iterator
from typing import Final

from bench.designs.interface import Design
from bench.measure.collector import Collector
from bench.measure.sampling import Sample
from bench.measure.section import Section
from bench.scaling.growth import COMPARED, HEADING, Growth, followed
from bench.scaling.samples import Scene, batches
from bench.scaling.settings import ScalingSettings

__all__ = ["SECTION"]

_SECOND, _DAY = 1_000, 86_400_000
TIMEOUTS_MS: Final = {
    "1 ms": (1,),
    "1 s": (_SECOND,),
    "1 min": (60 * _SECOND,),
    "1 min, an int": (60 * _SECOND,),
    "1 h": (3_600 * _SECOND,),
    "1 day": (_DAY,),
    "1 year": (365 * _DAY,),
    "1 ms to 1 year": tuple(round(10 ** (place / 50 * 10.4988)) for place in range(51)),
}
"""The mix is spread evenly over the orders of magnitude."""


def lines(settings: ScalingSettings) -> Iterator[Growth]:
    """Watch and complete, for each loop."""
    keys = [(f"order-{number}",) for number in range(settings.standing)]
    mixes = list(TIMEOUTS_MS.values())

    def batched(design: type[Design], place: int) -> Sample:
        """With those timeouts."""
        whole = list(TIMEOUTS_MS)[place].endswith(" int")
        return batches(Scene(design, keys, settings.operations, settings.seed), mixes[place], whole=whole)

    for loop in settings.loops:
        yield from followed(
            "watch + complete, {}",
            list(TIMEOUTS_MS),
            batched,
            designs=COMPARED,
            loop=loop,
            collector=Collector.OFF,
            rounds=settings.rounds,
            explanation="a longer timeout goes up more levels of the wheel, a mix needs more of its buckets",
        )


SECTION = Section(
    name="timeouts",
    title="Timeouts from a millisecond to a year, and all of them mixed",
    timed=(
        "Make and watch 500, complete them in random order, give the loop a turn, and repeat. Processor time "
        "per operation, purges and cancelled handles included. Others wait, as in section pending."
    ),
    lines=lines,
    heading=HEADING,
)
