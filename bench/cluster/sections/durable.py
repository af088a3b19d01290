"""What `Durable` costs in its own process, and how soon a signal reaches a reader."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from statistics import median
from typing import Any, Final

from bench.cluster.durable_probe import READY
from bench.cluster.settings import ClusterSettings
from bench.cluster.stores import NotInstalled, store_named
from bench.measure.collector import Collector
from bench.measure.instructions import count_instructions, has_valgrind, per_operation
from bench.measure.line import Line, Skipped
from bench.measure.loops import UVLOOP
from bench.measure.sampling import Spread
from bench.measure.section import Row, Section

__all__ = ["SECTION"]

_PROBE: Final = (sys.executable, "-m", "bench.cluster.durable_probe")
MOST_WAIT: Final = 3.0
"""What a wait may cost of a plain purgatory's."""
MOST_LATE: Final = 2.0
"""What a signal may take to a reader of its process, of an append to the log alone."""
STORES: Final = ("sqlite", "postgres", "redis")


def lines(settings: ClusterSettings) -> Iterator[Row]:
    """The price of a wait, and the latencies on each store that can be kept here."""
    if has_valgrind():
        yield _price(10 * settings.requests)
    else:
        yield Skipped("valgrind is not installed: instructions are not counted.")
    for name in STORES:
        with ExitStack() as stack:
            try:
                url = stack.enter_context(store_named(name)).url
            except NotInstalled as missing:
                yield Skipped(str(missing))
                continue
            yield from _latencies(name, url, settings.wakeups)


def _price(count: int) -> Line:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [
            pool.submit(count_instructions, [*_PROBE, scene, str(times)])
            for scene in ("durable", "purgatory")
            for times in (count, 2 * count)
        ]
        ours, reference = (per_operation(jobs[at].result(), jobs[at + 1].result(), count) for at in (0, 2))
    return _line(
        "a wait and its signal in memory, against `Purgatory.wait`", "instr", ours, reference, MOST_WAIT
    )


def _latencies(store: str, url: str, times: int) -> Iterator[Line]:
    if store == "sqlite":
        taken = _read([*_PROBE, "here", url, str(times)])
        yield _line(
            "SQLite: signal to a reader of its process, against `append` alone",
            "ms",
            median(taken["here"]),
            median(taken["append"]),
            MOST_LATE,
        )
    with subprocess.Popen([*_PROBE, "there", url, str(times)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None, "it is a pipe"
        assert other.stdout.readline().strip() == READY, "the other process says that it reads"
        subprocess.run([*_PROBE, "send", url, str(times)], check=True, capture_output=True)
        late_ms: list[float] = json.loads(other.stdout.readline())
    yield _line(f"{store}: signal to a reader of another process", "ms", median(late_ms))


def _read(command: list[str]) -> dict[str, Any]:
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    taken: dict[str, Any] = json.loads(done.stdout)
    return taken


def _line(
    name: str, unit: str, ours: float, reference: float | None = None, target: float | None = None
) -> Line:
    ratio = None if reference is None else Spread.of([ours / reference])
    return Line(
        name=name,
        loop=UVLOOP,
        collector=Collector.DEFAULT,
        unit=unit,
        ours=ours,
        reference=reference,
        ratio=ratio,
        target=target,
    )


SECTION = Section(
    name="durable",
    title="`Durable`: a wait, and how soon a signal is heard",
    timed=(
        "A wait and its signal: instructions by callgrind, of a run of twice as many less a run of one; both sides "
        "wait in a task and let the loop turn four times. Latencies: wall time, medians, one signal after another on "
        "an idle log; the signal is durable before it is heard."
    ),
    lines=lines,
)
