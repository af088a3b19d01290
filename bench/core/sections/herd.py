"""Whether the loop stalls when a hundred thousand end at once."""

from collections.abc import Iterator
from statistics import median

from bench.core.herd_scenes import DEADLINE_SCENES, EVENT_SCENES, Scene
from bench.core.settings import CoreSettings
from bench.measure.collector import Collector
from bench.measure.line import Line
from bench.measure.sampling import Sample, take_turns
from bench.measure.section import Section
from bench.measure.stall import StallWatch, worst

__all__ = ["SECTION"]

EVENT_TARGET_MS = 5.0
DEADLINE_TARGET_MS = 10.0


def lines(settings: CoreSettings) -> Iterator[Line]:
    """Each scene of ours beside the loop's own, for each loop and setting of the collector."""
    for loop in settings.loops:
        for collector in settings.collectors:
            for scenes, target in ((EVENT_SCENES, EVENT_TARGET_MS), (DEADLINE_SCENES, DEADLINE_TARGET_MS)):
                yield from _lines_for(settings, loop, collector, scenes, target)


def _lines_for(
    settings: CoreSettings, loop: str, collector: Collector, scenes: dict[str, Scene], target: float
) -> Iterator[Line]:
    watches: dict[str, list[StallWatch]] = {name: [] for name in scenes}

    def sample_of(name: str, scene: Scene) -> Sample:
        async def sample() -> float:
            watch = StallWatch()
            await scene(settings.herd, watch)
            watches[name].append(watch)
            return watch.longest_ms

        return sample

    samples = {name: sample_of(name, scene) for name, scene in scenes.items()}
    taken = take_turns(loop, collector, samples, settings.heavy_rounds, warm_up=False)
    *ours, reference = scenes
    for name in ours:
        yield Line(
            name=f"longest pass, {name} / {reference}",
            loop=loop,
            collector=collector,
            unit="ms",
            ours=median(taken[name]),
            reference=median(taken[reference]),
            # The promise is about the library's passes, not the collector's.
            target=target if collector is Collector.OFF else None,
            absolute=True,
            note=f"{min(taken[name]):.2f}-{max(taken[name]):.2f}; {worst(watches[name])}",
        )


SECTION = Section(
    name="herd",
    title="Many waiters that end at once do not freeze the loop",
    timed=(
        "Wall time of the longest pass of the loop, as a task that only yields sees it. It begins when the "
        "call that ends all waiters has returned, or just before the common deadline, and ends when the last "
        "waiter has run. A pass that the system interrupted counts with its processor time. Median of the "
        "rounds; in brackets their range, and the longest wall time of any pass, interruptions included."
    ),
    lines=lines,
)
