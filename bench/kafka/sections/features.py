"""Which features of Kafka each client finds at each broker."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from bench.kafka import checks
from bench.kafka.brokers import BROKERS, FAKES, OURS, missing, started
from bench.kafka.settings import KafkaSettings
from bench.measure.line import Skipped, Verdict
from bench.measure.section import Row, Section

__all__ = ["SECTION", "Found"]

AT_ONCE = 3
PATIENCE_S = 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The checks of one client at one broker.

    Args:
        broker: Its name.
        client: The client's name.
        passed: How many features it found.
        failed: The features it missed.
    """

    broker: str
    client: str
    passed: int
    failed: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """All features must be found at our broker; the others are shown."""
        if self.broker != OURS:
            return Verdict.SHOWN
        return Verdict.MISSED if self.failed else Verdict.MET

    def __str__(self) -> str:
        found = f"{self.passed} of {self.passed + len(self.failed)}"
        return f"{self.broker:<16} {self.client:<14} {found:<10} {', '.join(self.failed) or '-'}"


def lines(settings: KafkaSettings) -> Iterator[Row]:
    """For each broker, each client."""
    clients = [client for client in checks.CLIENTS if checks.missing(client) is None]
    for client in checks.CLIENTS:
        if (lacking := checks.missing(client)) is not None:
            yield Skipped(f"{lacking}: its checks are left out")
    for broker in BROKERS:
        if (command := missing(broker)) is not None:
            yield Skipped(f"{broker:<16} left out; run: {command}")
            continue
        with started(broker) as running, ThreadPoolExecutor(AT_ONCE) as threads:
            for client in clients:
                yield _found(broker, client, running.address, settings.features or checks.FEATURES, threads)
    for fake, what in FAKES.items():
        yield Skipped(f"{fake:<16} no broker: it {what}, in one process")


def _found(
    broker: str, client: str, address: str, wanted: tuple[str, ...], threads: ThreadPoolExecutor
) -> Found:
    made = [feature for feature in wanted if feature in checks.CLIENTS[client]]
    results = threads.map(lambda feature: _passes(client, feature, address), made)
    failed = tuple(feature for feature, passed in zip(made, results, strict=True) if not passed)
    return Found(broker=broker, client=client, passed=len(made) - len(failed), failed=failed)


def _passes(client: str, feature: str, address: str) -> bool:
    """Make one check in a process of its own, which may crash or hang."""
    command = [sys.executable, "-m", "bench.kafka.checks", client, feature, address]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


SECTION = Section(
    name="features",
    title="Features of Kafka that its clients find at each broker",
    timed=(
        "Nothing is timed. Each check is a process of its own, with the client as published: it fails if the client "
        f"raises, reads other values than were sent, or takes over {PATIENCE_S:.0f} s. Each broker is a process, new "
        "for all checks together; three checks run at once."
    ),
    lines=lines,
    heading=f"{'broker':<16} {'client':<14} {'found':<10} missed",
)
