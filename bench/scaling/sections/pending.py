"""The price of an operation against how many others wait."""

from collections.abc import Iterator

from bench.designs.interface import Design
from bench.measure.sampling import Sample
from bench.measure.section import Section
from bench.scaling.floor import Floor
from bench.scaling.growth import COMPARED, HEADING, Growth, followed
from bench.scaling.samples import Scene, churn, expire
from bench.scaling.settings import ScalingSettings

__all__ = ["SECTION"]

FAR = "operations that were touched long ago are far away in memory; the floor says how far"


def lines(settings: ScalingSettings) -> Iterator[Growth]:
    """Watch and complete, then expire, for each loop and setting of the collector."""
    keys = [(f"order-{number}",) for number in range(max(settings.pending))]

    def scene(design: type[Design], place: int) -> Scene:
        """So many others, each on a key of its own."""
        return Scene(design, keys[: settings.pending[place]], settings.operations, settings.seed)

    def churned(design: type[Design], place: int) -> Sample:
        """At that size."""
        return churn(scene(design, place))

    def expired(design: type[Design], place: int) -> Sample:
        """At that size."""
        return expire(scene(design, place))

    for loop in settings.loops:
        for collector in settings.collectors:
            for what, sample_of, floor in (
                ("complete + watch, {} pending", churned, [Floor]),
                ("expire, {} others pending", expired, []),
            ):
                yield from followed(
                    what,
                    settings.pending,
                    sample_of,
                    designs=[*COMPARED, *floor],
                    loop=loop,
                    collector=collector,
                    rounds=settings.heavy_rounds,
                    explanation=FAR,
                )


SECTION = Section(
    name="pending",
    title="One operation, while a thousand to a million others wait",
    timed=(
        "Complete + watch: a random pending operation is completed, and a new one is made and watched on its "
        "key. The loop gets a turn every 500, and a quarter of a second at the end, so purges and cancelled "
        "handles count. Expire: new ones on keys of their own expire within 200 ms; from when all are watched "
        "until the last has expired. Processor time per operation. Others: a key each, deadlines from ten "
        "minutes to an hour. Floor: the same operations, put into a dict and taken out."
    ),
    lines=lines,
    heading=HEADING,
)
