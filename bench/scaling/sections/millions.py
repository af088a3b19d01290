"""One to ten million operations pending at once: what each takes to enter, to complete and to keep."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from bench.designs.by_hand import ByHandPurgatory
from bench.designs.ours import OurPurgatory
from bench.designs.purging_wheel import PurgingWheelPurgatory
from bench.measure.build import BUILDS, environment
from bench.measure.line import Skipped, Verdict
from bench.measure.memory import available_bytes
from bench.measure.section import Row, Section
from bench.scaling.millions_probe import FUTURE
from bench.scaling.settings import ScalingSettings

__all__ = ["SECTION", "Crowd"]

PEERS: Final = (PurgingWheelPurgatory.name, ByHandPurgatory.name, FUTURE)
MOST_BYTES: Final = 1_200
"""More than an operation takes with its key in any contestant."""

HEADING: Final = (
    f"{'':<36} {'loop':<8} {'pending':>12} {'enter, ns':>11} {'complete, ns':>13} {'bytes each':>11} "
    f"{'GiB':>6}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """A contestant with so many pending.

    Args:
        name: The contestant; the library's with its build.
        loop: The event loop it ran on.
        pending: How many.
        enter_ns: Processor time to make and watch one.
        complete_ns: The same to complete one, in random order, with what the design or the loop puts off.
        bytes: Resident, each; its key not included.
    """

    name: str
    loop: str
    pending: int
    enter_ns: float
    complete_ns: float
    bytes: float

    verdict: ClassVar = Verdict.SHOWN

    def __str__(self) -> str:
        return (
            f"{self.name:<36} {self.loop:<8} {self.pending:>12,} {self.enter_ns:>11,.0f} {self.complete_ns:>13,.0f} "
            f"{self.bytes:>11,.0f} {self.bytes * self.pending / 2**30:>6.2f}"
        )


def lines(settings: ScalingSettings) -> Iterator[Row]:
    """Every contestant at every size, one process at a time."""
    builds = [(OurPurgatory.name, pure) for pure in BUILDS]
    for count in settings.millions:
        needed = count * MOST_BYTES
        if needed > available_bytes():
            yield Skipped(
                f"{count:,} pending may need {needed / 2**30:.0f} GiB, which this machine has not free."
            )
            continue
        for loop in settings.loops:
            for contestant, pure in (*builds, *((peer, False) for peer in PEERS)):
                yield _crowd(contestant, count, loop, settings.seed, pure=pure)


def _crowd(contestant: str, count: int, loop: str, seed: int, *, pure: bool) -> Crowd:
    finished = subprocess.run(
        [sys.executable, "-m", "bench.scaling.millions_probe", contestant, str(count), loop, str(seed)],
        check=True,
        env=environment(pure=pure),
        stdout=subprocess.PIPE,
        text=True,
    )
    build = f", {'pure' if pure else 'compiled'}" if contestant == OurPurgatory.name else ""
    return Crowd(name=f"{contestant}{build}", loop=loop, pending=count, **json.loads(finished.stdout))


SECTION = Section(
    name="millions",
    title="One to ten million pending at once, the library's builds beside the peers",
    timed=(
        "Each in a process of its own, one reading: operations on a key each, with timeouts spread from ten minutes "
        "to an hour, are made and watched; then all are completed in random order, and the loop runs for a quarter of "
        "a second. Processor time and growth of resident memory, per operation; keys are made beforehand. The "
        "collector is off. The last contestant has no operations: a future and a timer of the loop's for each key."
    ),
    lines=lines,
    heading=HEADING,
)
