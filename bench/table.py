"""The benchmarks by name, for ``python -m bench`` and ``python -m bench.NAME``."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from bench.cluster.settings import ClusterSettings
from bench.core.settings import CoreSettings
from bench.journal.settings import JournalSettings
from bench.kafka.settings import KafkaSettings
from bench.measure.command import Benchmark
from bench.measure.extra import needing
from bench.patterns.settings import PatternSettings
from bench.pipeline.settings import PipelineSettings
from bench.scaling.settings import ScalingSettings
from bench.service.settings import ServiceSettings

__all__ = ["BENCHMARKS", "run"]


@dataclass(frozen=True, slots=True)
class _Proposal:
    """The one that has rates and contestants instead of sections."""

    purpose: str

    def run(self, arguments: Sequence[str] | None = None) -> int:
        """Run the points asked for."""
        with needing("spark"):
            command = import_module("bench.proposal.command")
        code: int = command.run(arguments)
        return code


_TABLE: Final[tuple[Benchmark[Any], ...]] = (
    Benchmark(
        package="bench.core",
        purpose="The core: its speed and memory beside asyncio's and uvloop's own timers, and Kafka's wheel",
        modules=(
            *(
                "wheel",
                "kafka_port",
                "loop_timers",
                "integers",
                "keyed_wait",
                "awaited_operation",
                "task_price",
            ),
            *("million_pending", "mass_cancel", "herd", "garbage", "cost", "builds"),
        ),
        settings=CoreSettings(),
    ),
    Benchmark(
        package="bench.patterns",
        purpose="The patterns, beside what one writes without them",
        modules=(
            "watermark",
            "hand_off_cost",
            "keyed_lock",
            "calls",
            "single_flight",
            "broadcast",
            "retrier",
        ),
        settings=PatternSettings(),
    ),
    Benchmark(
        package="bench.service",
        purpose="The service: what it holds, and what its clients cannot do to it",
        modules=(
            *("folded", "steps", "passes", "held", "peers", "instructions", "aborted", "stopped", "restarts"),
            *("slow_clients", "budgets"),
        ),
        settings=ServiceSettings(),
        chooses_loop=False,
    ),
    Benchmark(
        package="bench.cluster",
        purpose="The logs that several workers share, alone and below the service",
        modules=("logs", "http", "capacity", "durable"),
        settings=ClusterSettings(),
        chooses_loop=False,
    ),
    Benchmark(
        package="bench.journal",
        purpose="What a journal costs, on the directory for temporary files",
        modules=("encoding", "cost", "commit", "stall"),
        settings=JournalSettings(),
        extra="journal",
    ),
    Benchmark(
        package="bench.kafka",
        purpose="The Kafka broker, beside others that serve Kafka's clients without Kafka",
        modules=("features", "start", "speed", "held", "groups", "cluster"),
        settings=KafkaSettings(),
        chooses_loop=False,
    ),
    Benchmark(
        package="bench.pipeline",
        purpose="The pipeline: rows per second of each job, on a Spark of this machine",
        modules=("workload", "source", "report", "whatif", "distributed"),
        settings=PipelineSettings(),
        extra="spark",
        chooses_loop=False,
    ),
    Benchmark(
        package="bench.scaling",
        purpose="The price of an operation: against how many wait, on how many keys, beside whom, for how long",
        modules=("pending", "keys", "watchers", "timeouts", "millions"),
        settings=ScalingSettings(),
        bounded=("pending", "watchers", "millions"),
    ),
)

BENCHMARKS: Final[dict[str, Benchmark[Any] | _Proposal]] = {
    **{each.package.partition(".")[2]: each for each in _TABLE},
    "proposal": _Proposal(
        "The proposal's benchmark: older designs and today's peers, from a low rate to overload"
    ),
}


def run(name: str) -> None:
    """Run a benchmark with this process's arguments, and exit as it says."""
    sys.exit(BENCHMARKS[name].run(sys.argv[1:]))
