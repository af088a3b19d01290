"""Measure the service of purgatory_async: what it holds, and what its clients cannot do to it."""

import dataclasses
import sys

from bench.measure.command import Benchmark
from bench.measure.loops import UVLOOP
from bench.service.sections import SECTIONS
from bench.service.settings import ServiceSettings

FULL = ServiceSettings(
    polls=15_000,
    rate=1_000,
    leaving=10_000,
    slow=2_000,
    deadline_s=10,
    abandoned=10_000,
    herd=1_000,
    load_s=3,
    guests=200,
    visitors=1_000,
    restarts=10,
    values=400,
    pending=100_000,
    rounds=7,
    heavy_rounds=5,
    loops=(UVLOOP,),
    seed=1,
)


def numbers(settings: ServiceSettings) -> str:
    """How much is measured."""
    return (
        f"{settings.polls:,} polls held, {settings.rate:,} of them ended in a second; {settings.leaving:,} held when "
        f"clients leave or the service stops; {settings.slow:,} slow clients; "
        f"{settings.abandoned:,} polls held by each peer, herds of {settings.herd:,}; "
        f"{settings.visitors:,} clients across {settings.restarts} restarts; {settings.values:,} values of a megabyte; "
        f"{settings.pending:,} operations folded"
    )


def conventions(settings: ServiceSettings) -> dict[str, str]:
    """How the figures are taken, and how to read them."""
    return {
        "samples": (
            f"each scene once, on a fresh service; the peers in turns, {settings.rounds} loads after a warm-up round "
            f"and {settings.heavy_rounds} herds, their medians and quartiles of ratios"
        ),
        "processes": "the service is one process, its clients another, and they share the cores named above",
        "figures": "wall time, seen by the clients; their own collector is off, the service has its own settings",
    }


BENCHMARK = Benchmark(
    module="bench.service",
    purpose=__doc__,
    title="purgatory_async: the service",
    sections=SECTIONS,
    full=FULL,
    quick=dataclasses.replace(
        FULL,
        polls=300,
        rate=300,
        leaving=300,
        slow=60,
        deadline_s=2,
        abandoned=200,
        herd=50,
        load_s=0.3,
        guests=20,
        visitors=100,
        restarts=2,
        values=30,
        pending=1_000,
        rounds=1,
        heavy_rounds=1,
    ),
    numbers=numbers,
    conventions=conventions,
    chooses_loop=False,
)

main = BENCHMARK.run

if __name__ == "__main__":
    sys.exit(main())
