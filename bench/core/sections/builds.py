"""The compiled core beside pure Python and the peers: processor time, then instructions."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from statistics import median
from types import MappingProxyType

from bench.core.sections.loop_timers import TARGETS
from bench.core.settings import CoreSettings
from bench.measure.collector import Collector
from bench.measure.instructions import count_instructions, has_valgrind, per_operation
from bench.measure.line import Line, Skipped
from bench.measure.loops import ASYNCIO
from bench.measure.sampling import ratios
from bench.measure.section import Row, Section
from purgatory_async import compiled

__all__ = ["INSTRUCTIONS", "SECTION"]

PURE = {"compiled": "0", "pure": "1"}
PROBE = "bench.core.build_probe"
SAMPLES = 5  # in each process
BATCH, BATCHES = 1_000, 2  # what is pending at once while instructions are counted, and how often


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A scene of the probe, and what it stands beside.

    Args:
        scene: Its name in the probe.
        most: Target of the compiled core's instructions.
        peer: The scene of what does the same without the library.
        floor: The scene whose figure is subtracted from both.
        shares: For each loop, target of the processor time as a share of the peer's.
    """

    scene: str
    most: float
    peer: str | None = None
    floor: str | None = None
    shares: Mapping[str, float] = field(default_factory=dict)

    @property
    def scenes(self) -> list[str]:
        """All that it needs of the probe."""
        return [scene for scene in (self.scene, self.peer, self.floor) if scene is not None]

    def figure(self, scene: str, taken: Mapping[str, float]) -> float:
        """Return what a scene took, less the floor."""
        return taken[scene] - (taken[self.floor] if self.floor else 0.0)


SUBJECTS = (
    Subject(scene="one key", most=10_000),
    Subject(scene="one key, int", most=10_000),
    Subject(scene="three own keys", most=16_000),
    Subject(scene="three own keys, int", most=16_000),
    Subject(scene="three shared keys", most=8_000),
    Subject(scene="three shared keys, int", most=8_000),
    Subject(scene="timer, same", most=4_000, peer="call_later, same", shares=TARGETS),
    Subject(scene="timer, spread", most=7_000, peer="call_later, spread", shares=TARGETS),
    Subject(scene="wait", most=2_000, peer="asyncio.timeout", floor="bare future"),
    Subject(scene="timer.timeout", most=45_000, peer="asyncio.timeout", floor="bare future"),
    Subject(scene="reschedule", most=1_500, peer="call_later again"),
    Subject(scene="awaited operation", most=8_000, peer="call_later by hand", floor="bare future"),
)


def times(settings: CoreSettings) -> Iterator[Row]:
    """Import, then each subject on each loop, the builds in turns."""
    builds = _builds()
    if len(builds) == 1:
        yield Skipped("The compiled core is not in use: only pure Python is measured.")
    yield from _imports(builds, settings.rounds)
    for loop in settings.loops:
        for subject in SUBJECTS:
            yield from _times_of(subject, loop, builds, settings)


def _builds() -> list[str]:
    return ["compiled", "pure"] if compiled else ["pure"]


def _times_of(subject: Subject, loop: str, builds: Sequence[str], settings: CoreSettings) -> Iterator[Row]:
    taken: dict[str, list[dict[str, float]]] = {build: [] for build in builds}
    for _ in range(settings.heavy_rounds):
        for build, readings in taken.items():
            readings.append(
                json.loads(_run(build, _probe(loop, settings.operations, SAMPLES, subject.scenes)))
            )
    ours = [subject.figure(subject.scene, reading) for reading in taken[builds[0]]]
    others: list[tuple[str, list[float], float | None]] = [
        (build, [subject.figure(subject.scene, reading) for reading in taken[build]], None)
        for build in builds[1:]
    ]
    if subject.peer is not None:
        peers = [subject.figure(subject.peer, reading) for reading in taken[builds[0]]]
        others.append((subject.peer, peers, subject.shares.get(loop) if compiled else None))
    for name, figures, target in others:
        yield Line(
            name=f"{subject.scene}, {builds[0]} / {name}",
            loop=loop,
            collector=Collector.OFF,
            unit="ns",
            ours=median(ours),
            reference=median(figures),
            ratio=ratios(ours, figures),
            target=target,
        )


def _imports(builds: Sequence[str], rounds: int) -> Iterator[Line]:
    """The shortest import of the package less the shortest of asyncio, in fresh processes."""
    code = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
    for build in builds:
        taken: dict[str, list[float]] = {"asyncio": [], "purgatory_async": []}
        with tempfile.TemporaryDirectory() as folder:  # of bytecode, as an installation has it
            cache = {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
            for _ in range(3 * rounds):
                for module, seconds in taken.items():
                    seconds.append(float(_run(build, [sys.executable, "-c", code.format(module)], cache)))
        bare, ours = min(taken["asyncio"]), min(taken["purgatory_async"])
        yield Line(
            name=f"import purgatory_async, above import asyncio, {build}",
            loop="",
            collector=Collector.DEFAULT,
            unit="ms",
            ours=1e3 * (ours - bare),
            target=15.0,
            note=f"asyncio {1e3 * bare:.0f} ms",
        )


def instructions(settings: CoreSettings) -> Iterator[Row]:
    """Compiled and the peers on each loop; pure Python on asyncio alone."""
    if not has_valgrind():
        yield Skipped("valgrind is not installed: instructions are not counted.")
        return
    full = settings.operations >= 10 * BATCH  # else one subject shows that counting works
    subjects, loops = (SUBJECTS, settings.loops) if full else (SUBJECTS[:1], settings.loops[:1])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [
            (subject, loop, build, pool.submit(_instructions_of, subject, loop, build))
            for build in _builds()
            for loop in loops
            for subject in subjects
            if build == "compiled" or loop == ASYNCIO or not compiled
        ]
        for subject, loop, build, job in jobs:
            taken = job.result()
            peer = None if subject.peer is None else subject.figure(subject.peer, taken)
            ours = subject.figure(subject.scene, taken)
            yield Line(
                name=f"{subject.scene}, {build}" + (f" / {subject.peer}" if subject.peer else ""),
                loop=loop,
                collector=Collector.OFF,
                unit="instr",
                ours=ours,
                reference=peer,
                ratio=None if peer is None else ratios([ours], [peer]),
                target=subject.most if build == "compiled" else None,
                absolute=True,
            )


def _instructions_of(subject: Subject, loop: str, build: str) -> dict[str, float]:
    taken = {}
    for scene in subject.scenes:
        short, long = (
            count_instructions(_probe(loop, BATCH, batches, [scene]), {"PURGATORY_ASYNC_PURE": PURE[build]})
            for batches in (BATCHES, 2 * BATCHES)
        )
        taken[scene] = per_operation(short, long, BATCH * BATCHES)
    return taken


def _probe(loop: str, count: int, rounds: int, scenes: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", PROBE, loop, str(count), str(rounds), *scenes]


def _run(build: str, command: Sequence[str], settings: Mapping[str, str] = MappingProxyType({})) -> str:
    environment = {**os.environ, "PURGATORY_ASYNC_PURE": PURE[build], "PYTHONHASHSEED": "0", **settings}
    finished = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return finished.stdout


SECTION = Section(
    name="builds",
    title="The compiled core beside pure Python and the peers",
    timed=(
        f"Processor time, in fresh processes, the builds in turns; each process reports medians of {SAMPLES}. "
        "Keys: make, watch and complete operations of a subclass in Python, by checks of their first keys. "
        "Timers: as in section timer. wait, timer.timeout and awaited operation: a new task each, less a task on a "
        "bare future. reschedule: one operation again and again. "
        "int: the timeout is an integer. Import: least wall time in fresh processes."
    ),
    lines=times,
)
INSTRUCTIONS = Section(
    name="instructions",
    title="Instructions of an operation, counted by valgrind's callgrind",
    timed=(
        f"The same scenes, {BATCH:,} pending at once. A process runs {BATCHES * BATCH:,} operations and another "
        "twice as many; the difference counts, so start-up does not. PYTHONHASHSEED=0. The scene's own loops "
        "and the subclass in Python are included."
    ),
    lines=instructions,
)
