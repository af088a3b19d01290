"""Measure the service of purgatory_async on a store that several workers share."""

import argparse
import dataclasses
import logging
import sys

from bench.cluster.sections import SECTIONS
from bench.cluster.settings import ClusterSettings
from bench.cluster.stores import STORES
from bench.measure.command import Benchmark, positive
from bench.measure.loops import UVLOOP

FULL = ClusterSettings(
    requests=100,
    clients=64,
    burst_s=1.5,
    log_s=0.5,
    wakeups=50,
    expiring=50,
    pending=100_000,
    seconds=20,
    store="sqlite",
    rounds=2,
    heavy_rounds=2,
    loops=(UVLOOP,),
    seed=1,
)


def store(name: str) -> str:
    """Read a store's name of an option."""
    if name not in STORES:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(STORES)}, got {name!r}")
    return name


def numbers(settings: ClusterSettings) -> str:
    """How much is measured."""
    return (
        f"{settings.requests:,} requests of a kind, {settings.clients} clients for {settings.burst_s:g} s, "
        f"on a log alone for {settings.log_s:g} s; "
        f"{settings.pending:,} pending at a start; chaos on {settings.store} for {settings.seconds} s"
    )


def conventions(settings: ClusterSettings) -> dict[str, str]:
    """How the figures are taken, and how to read them."""
    return {
        "samples": f"medians of {settings.rounds} rounds, the stores in turns",
        "processes": "stores, workers and the clients are processes of their own, and share the cores named above",
        "figures": "wall time, seen by the clients",
    }


BENCHMARK = Benchmark(
    module="bench.cluster",
    purpose=__doc__,
    title="purgatory_async: the service on a store",
    sections=SECTIONS,
    full=FULL,
    quick=dataclasses.replace(
        FULL,
        requests=10,
        clients=8,
        burst_s=0.3,
        log_s=0.05,
        wakeups=5,
        expiring=5,
        pending=1_000,
        seconds=3,
        rounds=1,
        heavy_rounds=1,
    ),
    numbers=numbers,
    conventions=conventions,
    chooses_loop=False,
    offered={"seconds": positive, "store": store},
    required=("chaos",),
)

main = BENCHMARK.run

if __name__ == "__main__":
    logging.getLogger("purgatory_async").setLevel(logging.ERROR)  # warnings would stand within the tables
    sys.exit(main())
