"""One check of a client, against any broker: ``python -m bench.kafka.checks CLIENT FEATURE ADDRESS``.

A check ends with an exception if the broker does not do what Kafka does. Each topic is new, with two partitions.
"""

import asyncio
import shutil
import sys
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final

from bench.kafka import programs
from bench.kafka.clients import aio, confluent, kcat, others, python

__all__ = ["CLIENTS", "FEATURES", "main", "missing"]

Check = Callable[[str, str], None]

KCAT: Final = "kcat"


def _run(check: Callable[[str, str], Coroutine[Any, Any, None]], address: str, topic: str) -> None:
    asyncio.run(check(address, topic))


CLIENTS: Final[Mapping[str, Mapping[str, Check]]] = {
    "confluent": confluent.CHECKS,
    KCAT: kcat.CHECKS,
    "kafka-python": python.CHECKS,
    "aiokafka": {feature: partial(_run, check) for feature, check in aio.CHECKS.items()},
    **others.CHECKS,
}
FEATURES: Final = tuple(confluent.CHECKS)  # it has all


def missing(client: str) -> str | None:
    """Return what a client lacks here; None if its checks can be made."""
    if client in programs.PROGRAMS:
        return programs.missing(client)
    if client == KCAT and shutil.which(KCAT) is None:
        return "kcat is not installed; run: apt install kcat"
    return None


def main(arguments: Sequence[str]) -> None:
    """Make one check; its exception ends the process."""
    client, feature, address = arguments
    CLIENTS[client][feature](address, f"{feature}-{uuid.uuid4().hex[:8]}".replace(" ", "-").replace("=", "-"))


if __name__ == "__main__":
    main(sys.argv[1:])
