"""Compare the Kafka broker of purgatory_async with others that serve Kafka's clients without Kafka."""

import dataclasses
import sys
from collections.abc import Mapping

from bench.kafka.sections import SECTIONS
from bench.kafka.settings import KafkaSettings
from bench.measure.command import Benchmark
from bench.measure.loops import UVLOOP

FULL = KafkaSettings(
    records=500_000,
    singles=5_000,
    held=3_000,
    max_wait_s=20,
    produces=10_000,
    members=1_000,
    rounds=3,
    heavy_rounds=1,
    loops=(UVLOOP,),
    seed=1,
)
QUICK = dataclasses.replace(
    FULL,
    records=5_000,
    singles=100,
    held=30,
    max_wait_s=4,
    produces=100,
    members=10,
    rounds=1,
    features=("acks=all",),
)


def numbers(settings: KafkaSettings) -> str:
    """How much is measured."""
    return f"{settings.records:,} records at once, {settings.singles:,} one by one"


def conventions(settings: KafkaSettings) -> Mapping[str, str]:
    """How figures are taken."""
    return {"figures": f"medians of {settings.rounds} rounds; brokers and clients are processes of their own"}


BENCHMARK = Benchmark(
    module="bench.kafka",
    purpose=__doc__,
    title="purgatory_async: its Kafka broker, beside others",
    sections=SECTIONS,
    full=FULL,
    quick=QUICK,
    numbers=numbers,
    conventions=conventions,
    chooses_loop=False,
)

main = BENCHMARK.run

if __name__ == "__main__":
    sys.exit(main())
