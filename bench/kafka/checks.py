"""One check of a client, against any broker: ``python -m bench.kafka.checks CLIENT FEATURE ADDRESS``.

A check ends with an exception if the broker does not do what Kafka does. Each topic is new, with two partitions.
"""

import asyncio
import sys
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final

from bench.kafka.clients import aio, confluent, python

__all__ = ["CLIENTS", "FEATURES", "main"]

Check = Callable[[str, str], None]


def _run(check: Callable[[str, str], Coroutine[Any, Any, None]], address: str, topic: str) -> None:
    asyncio.run(check(address, topic))


CLIENTS: Final[Mapping[str, Mapping[str, Check]]] = {
    "confluent": confluent.CHECKS,
    "kafka-python": python.CHECKS,
    "aiokafka": {feature: partial(_run, check) for feature, check in aio.CHECKS.items()},
}
FEATURES: Final = tuple(confluent.CHECKS)  # it has all


def main(arguments: Sequence[str]) -> None:
    """Make one check; its exception ends the process."""
    client, feature, address = arguments
    CLIENTS[client][feature](address, f"{feature}-{uuid.uuid4().hex[:8]}".replace(" ", "-").replace("=", "-"))


if __name__ == "__main__":
    main(sys.argv[1:])
