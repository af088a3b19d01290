"""What it costs to share a call, for one caller alone and for several."""

from collections.abc import Iterator

from bench.measure.comparison import compare_each
from bench.measure.line import Line
from bench.measure.section import Section
from bench.patterns.settings import PatternSettings
from bench.patterns.single_flight_samples import TIMEOUT, alone, futures_in_a_dict, shared, single_flight

__all__ = ["SECTION"]

WAYS = (single_flight, futures_in_a_dict)
CALLERS = (10, 500)


def lines(settings: PatternSettings) -> Iterator[Line]:
    """For each loop and setting of the collector: a caller alone, and several at once."""
    calls = settings.items
    subjects = {"call alone / task in a dict": [alone(way, calls=calls) for way in WAYS]}
    for callers in CALLERS:
        subjects[f"one of {callers} callers of one call / task in a dict"] = [
            shared(way, callers=callers, calls=calls) for way in WAYS
        ]
    return compare_each(subjects, settings)


SECTION = Section(
    name="single-flight",
    title="The price of a shared call against a task in a dict",
    timed=(
        f"Processor time per caller: SingleFlight.run(key, make, timeout={TIMEOUT:g}) against the call's task in a "
        "dict, awaited behind asyncio.shield under asyncio.timeout. The call itself waits for one pass of the loop. "
        "Alone: one caller after the other, each with a call of its own. Of several: all come at once, each a task, "
        "whose making and ending is part of the time; gather collects them."
    ),
    lines=lines,
)
