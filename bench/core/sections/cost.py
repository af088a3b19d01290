"""What an operation costs compiled, pure and by hand: the table of bench/README.md, as it is printed there."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import ClassVar, Final

from bench.core.settings import CoreSettings
from bench.measure.build import BUILDS, environment
from bench.measure.line import Verdict
from bench.measure.section import Section

__all__ = ["SECTION", "Cost", "table"]

FLOOR: Final = "bare future"
SAMPLES: Final = "5"  # in each process
SUBJECTS: Final = {
    "make, watch and complete, one key": ("one key", "one key by hand", None),
    "`Timer.call_later` and `cancel`, spread delays": ("timer, spread", "call_later, spread", None),
    "what a `wait` with a timeout adds to a future": ("wait", "call_later by hand", FLOOR),
    "what an awaited operation adds to a future": ("awaited operation", "call_later by hand", FLOOR),
}
"""Scenes of `bench.core.build_probe`: the library's, the one by hand, and what is subtracted from both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """A row of the table.

    Args:
        name: What is done.
        loop: The event loop it ran on.
        unit: The unit of the figures.
        compiled: The library's with its compiled core; None if that was not built.
        pure: The library's without it.
        by_hand: The same without the library.
    """

    name: str
    loop: str
    unit: str
    compiled: float | None
    pure: float
    by_hand: float

    verdict: ClassVar = Verdict.SHOWN

    def __str__(self) -> str:
        figures = (self.compiled, self.pure, self.by_hand)
        cells = ("" if one is None else f"{one:,.0f}".replace(",", " ") for one in figures)
        return f"| {self.name}, {self.unit} | {self.loop} | {' | '.join(cells)} |"


def lines(settings: CoreSettings) -> Iterator[Cost]:
    """Time of each subject on each loop, then memory."""
    for loop in settings.loops:
        runs = [
            _times(loop, settings.operations, pure=pure)
            for _ in range(settings.heavy_rounds)
            for pure in BUILDS
        ]
        by_build = {pure: runs[place :: len(BUILDS)] for place, pure in enumerate(BUILDS)}
        yield from table(loop, by_build)
    for loop in settings.loops:
        bytes_of = {pure: _bytes("purgatory_async", settings, loop, pure=pure) for pure in BUILDS}
        yield Cost(
            name=f"memory of one of {settings.million:,} pending".replace(",", " "),
            loop=loop,
            unit="bytes",
            compiled=bytes_of.get(False),
            pure=bytes_of[True],
            by_hand=_bytes("future, call_later", settings, loop, pure=True),
        )


def table(loop: str, runs: Mapping[bool, Sequence[Mapping[str, float]]]) -> Iterator[Cost]:
    """Make the rows of a loop.

    Args:
        loop: Its name.
        runs: For each build, pure or not, what every process found of every scene.
    """
    for name, (scene, hand, floor) in SUBJECTS.items():
        figures = {
            pure: [
                median(one[subject] - (one[floor] if floor else 0.0) for one in found)
                for subject in (scene, hand)
            ]
            for pure, found in runs.items()
        }
        yield Cost(
            name=name,
            loop=loop,
            unit="ns",
            compiled=figures[False][0] if False in figures else None,
            pure=figures[True][0],
            by_hand=figures[True][1],
        )


def _times(loop: str, count: int, *, pure: bool) -> dict[str, float]:
    scenes = dict.fromkeys(scene for subject in SUBJECTS.values() for scene in subject if scene)
    return _found(["bench.core.build_probe", loop, str(count), SAMPLES, *scenes], pure=pure)


def _bytes(contestant: str, settings: CoreSettings, loop: str, *, pure: bool) -> float:
    probe = ["bench.scaling.millions_probe", contestant, str(settings.million), loop, str(settings.seed)]
    return _found(probe, pure=pure)["bytes"]


def _found(probe: Sequence[str], *, pure: bool) -> dict[str, float]:
    command = [sys.executable, "-m", *probe]
    finished = subprocess.run(
        command, check=True, env=environment(pure=pure), stdout=subprocess.PIPE, text=True
    )
    found: dict[str, float] = json.loads(finished.stdout)
    return found


SECTION = Section(
    name="cost",
    title="What an operation costs compiled, pure and by hand",
    timed=(
        "Processor time and resident memory of one, in fresh processes, the builds in turns; medians. By hand: the "
        "loop's call_later, with operations in a dict by key, or with a future in a task. A wait and an awaited "
        "operation are a new task each, less a task on a bare future. Memory: with timeouts spread over an hour; by "
        "hand, a future and a timer of the loop's for each key. The rows are as in bench/README.md."
    ),
    lines=lines,
    heading="| | loop | compiled | pure | by hand |\n|---|---|---|---|---|",
)
