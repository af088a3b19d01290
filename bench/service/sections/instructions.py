"""Instructions of a request, without sockets and clients."""

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from bench.measure.instructions import count_instructions, has_valgrind, per_operation
from bench.measure.line import Skipped
from bench.measure.section import Row, Section
from bench.service.line import figure
from bench.service.request_probe import SCENES
from bench.service.settings import ServiceSettings

__all__ = ["SECTION"]

_FULL: Final = 100_000  # operations folded; with fewer one scene shows that counting works


def lines(settings: ServiceSettings) -> Iterator[Row]:
    """For each scene; or that valgrind is missing."""
    if not has_valgrind():
        yield Skipped("valgrind is not installed: instructions are not counted.")
        return
    full = settings.pending >= _FULL
    scenes, count = (list(SCENES), 1_000) if full else (["health"], 100)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(_count, scene, times) for scene in scenes for times in (count, 2 * count)]
        for place, scene in enumerate(scenes):
            short, long = (job.result() for job in jobs[2 * place : 2 * place + 2])
            yield figure(SCENES[scene], per_operation(short, long, count), "instr")


def _count(scene: str, times: int) -> int:
    return count_instructions([sys.executable, "-m", "bench.service.request_probe", scene, str(times)])


SECTION = Section(
    name="instructions",
    title="Instructions of a request, counted by valgrind's callgrind",
    timed=(
        "The service in memory and its connections, over a transport in this process: no socket and no client is in "
        "it. A process answers 1 000 requests and another twice as many; the difference counts, so start-up does not. "
        "The scene's own loop is included. PYTHONHASHSEED=0."
    ),
    lines=lines,
)
