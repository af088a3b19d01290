"""The price of an operation against how many watch the same key."""

from collections.abc import Iterator

from bench.designs.interface import Design
from bench.measure.collector import Collector
from bench.measure.sampling import Sample
from bench.measure.section import Section
from bench.scaling.floor import Floor
from bench.scaling.growth import COMPARED, HEADING, Growth, followed
from bench.scaling.samples import Scene, churn, complete_all
from bench.scaling.settings import ScalingSettings

__all__ = ["SECTION"]


def lines(settings: ScalingSettings) -> Iterator[Growth]:
    """Complete one of them, then all of them, for each loop."""

    def scene(design: type[Design], place: int) -> Scene:
        """So many on one key."""
        return Scene(design, [("order",)] * settings.watchers[place], settings.operations, settings.seed)

    def one(design: type[Design], place: int) -> Sample:
        """At that size."""
        return churn(scene(design, place))

    def all_of_them(design: type[Design], place: int) -> Sample:
        """At that size."""
        return complete_all(scene(design, place))

    for loop in settings.loops:
        for what, sample_of in (
            ("complete one of {}, watch another", one),
            ("complete all {}, each", all_of_them),
        ):
            yield from followed(
                what,
                settings.watchers,
                sample_of,
                designs=(*COMPARED, Floor),
                loop=loop,
                collector=Collector.OFF,
                rounds=settings.rounds,
                explanation="a sole watcher needs no list; from there on, memory: the floor says how far away it is",
            )


SECTION = Section(
    name="watchers",
    title="One to a hundred thousand operations that watch the same key",
    timed=(
        "One: as complete + watch in section pending, all on one key; the others are not asked. All: a check "
        "of the key completes every operation that watches it; processor time of the check per operation. "
        "Watching them is not timed."
    ),
    lines=lines,
    heading=HEADING,
)
