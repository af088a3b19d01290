"""The price of an operation against how many keys it watches."""

import random
from collections.abc import Iterator

from bench.designs.interface import Design
from bench.measure.collector import Collector
from bench.measure.sampling import Sample
from bench.measure.section import Section
from bench.scaling.growth import COMPARED, HEADING, Growth, followed
from bench.scaling.samples import Scene, churn
from bench.scaling.settings import ScalingSettings

__all__ = ["SECTION"]

KEY_SPACE = 1_000


def lines(settings: ScalingSettings) -> Iterator[Growth]:
    """Watch and complete, per key, for each loop."""
    chance = random.Random(settings.seed)
    space = [f"order-{number}" for number in range(max(KEY_SPACE, *settings.keys))]
    drawn = [
        [tuple(chance.sample(space, count)) for _ in range(settings.standing)] for count in settings.keys
    ]

    def per_key(design: type[Design], place: int) -> Sample:
        """A sample of the price, divided by the keys."""
        count = settings.keys[place]
        whole = churn(Scene(design, drawn[place], max(settings.operations // count, 1), settings.seed))

        async def sample() -> float:
            """Nanoseconds for each key."""
            return await whole() / count

        return sample

    for loop in settings.loops:
        yield from followed(
            "complete + watch on {} keys, per key",
            settings.keys,
            per_key,
            designs=COMPARED,
            loop=loop,
            collector=Collector.OFF,
            rounds=settings.rounds,
            explanation="entries of many keys are far away in memory",
        )


SECTION = Section(
    name="keys",
    title="One operation on one to a hundred keys, per key",
    timed=(
        "As complete + watch in section pending, divided by the keys that each operation watches. The keys "
        f"are drawn from {KEY_SPACE:,}, so most have other watchers. A price below x1 means that more keys "
        "share the cost that does not depend on them."
    ),
    lines=lines,
    heading=HEADING,
)
