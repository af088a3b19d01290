"""What ``purgatory kafka --metrics-port`` serves: metrics under Kafka's names, and figures for ``purgatory top``."""

import asyncio
import socket
from collections.abc import AsyncIterator, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from functools import partial
from heapq import nlargest
from itertools import chain
from operator import itemgetter
from typing import Any, Final, cast

import msgspec
import uvicorn
from prometheus_client import ProcessCollector, generate_latest

from purgatory_async import Purgatory, Timer
from purgatory_async.events import Observers
from purgatory_async.kafka import Broker
from purgatory_async.kafka.partition import Partition
from purgatory_async.metrics import Metrics
from purgatory_async.service.contract.version import VERSION
from purgatory_async.service.http.answer import Answer
from purgatory_async.service.stats.recent import Probe, Recent
from purgatory_async.web.asgi import Receive, Scope, Send

_LAG_PERIOD_S: Final = 0.1
_MOST_KEYS: Final = 10
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
_KAFKA: Final = "kafka_server_delayedoperationpurgatory"
"""The bean of Kafka's purgatories, as its JMX exporter for Prometheus names it."""


class Figures:
    """Counts what waits in a broker, and serves it over HTTP.

    Attributes:
        timer: For the broker and the figures. The caller closes it, after the broker.
        observer: For the broker.
    """

    def __init__(self) -> None:
        self.timer: Final = Timer()
        self._metrics: Final = Metrics()
        self._recent: Final = Recent(self.timer)
        self.observer: Final = Observers(self._metrics, self._recent)

    @asynccontextmanager
    async def served(self, broker: Broker, port: int) -> AsyncIterator[str]:
        """Serve ``/metrics`` and ``/v1/admin/stats`` beside a broker; yields their address.

        Raises:
            OSError: The port cannot be listened on.
        """
        self._show(broker)
        Probe(self.timer, _LAG_PERIOD_S, self._note_lag).start()
        listening = socket.create_server((broker.host, port))
        app = partial(self._answer, broker)
        config = uvicorn.Config(
            app, interface="asgi3", ws="none", lifespan="off", log_config=None, access_log=False
        )
        server = _Server(config)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(server.serve([listening]))
            try:
                yield f"http://{broker.host}:{listening.getsockname()[1]}"
            finally:
                server.should_exit = True

    def _show(self, broker: Broker) -> None:
        purgatories = broker.node.purgatories
        metrics = self._metrics
        metrics.gauge(*purgatories)
        metrics.info("purgatory_build_info", "Version.", version=VERSION)
        metrics.show_each(
            f"{_KAFKA}_purgatorysize",
            "Pairs of waiting request and key.",
            "delayedOperation",
            {each.name: partial(_watched, each) for each in purgatories},
        )
        metrics.show_each(
            f"{_KAFKA}_numdelayedoperations",
            "Requests that wait.",
            "delayedOperation",
            {each.name: partial(_pending, each) for each in purgatories},
        )
        metrics.show("purgatory_kafka_connections", "Connected clients.", lambda: broker.connections)
        metrics.show(
            "purgatory_kafka_records_bytes",
            "Bytes of all records.",
            lambda: broker.node.topics.budget.used_bytes,
        )
        ProcessCollector(registry=metrics.registry)

    def _note_lag(self, lag_s: float) -> None:
        self._metrics.loop_lag.observe(lag_s)
        self._recent.note_lag(lag_s)

    async def _answer(self, broker: Broker, scope: Scope, _: Receive, send: Send) -> None:
        if scope["path"] == "/metrics":
            found = Answer(200, generate_latest(self._metrics.registry), _TEXT)
        elif scope["path"] == "/v1/admin/stats":
            found = Answer(200, msgspec.json.encode(self._stats(broker)))
        else:
            found = Answer(404)
        if scope["method"] not in {"GET", "HEAD"}:
            found = Answer(405, headers=(("Allow", "GET, HEAD"),))
        await found.send_to(send, head_only=scope["method"] == "HEAD")

    def _stats(self, broker: Broker) -> dict[str, Any]:
        """O(watched keys)."""
        purgatories = broker.node.purgatories
        pending = sum(each.pending for each in purgatories)
        keys = chain.from_iterable(each.watchers() for each in purgatories)
        return {
            "version": VERSION,
            "address": broker.address,
            "uptime": self._recent.uptime,
            "connections": broker.connections,
            "records_bytes": broker.node.topics.budget.used_bytes,
            "purgatories": [
                {"name": each.name, "pending": each.pending, "watched": each.watched} for each in purgatories
            ],
            "counts": {
                "submitted": self._metrics.submitted,
                "signals": self._metrics.signals,
                "ended": {outcome.value: number for outcome, number in self._metrics.ended.items()},
            },
            "rates": self._recent.rates(),
            "history": self._recent.history(pending, datetime.now(UTC)),
            "delays": self._recent.delays(),
            "busiest_keys": [
                {"key": _text(key), "watchers": watchers}
                for key, watchers in nlargest(_MOST_KEYS, keys, key=itemgetter(1))
            ],
        }


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the broker's command has its own."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


def _watched(purgatory: Purgatory) -> float:
    return purgatory.watched


def _pending(purgatory: Purgatory) -> float:
    return purgatory.pending


def _text(key: Hashable) -> str:
    if isinstance(key, Partition):
        return f"{key.topic}-{key.index}"
    return " ".join(map(str, cast("tuple[object, ...]", key))) if isinstance(key, tuple) else str(key)
