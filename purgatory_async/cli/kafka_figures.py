"""What ``purgatory kafka --metrics-port`` serves: metrics under Kafka's names, and figures for ``purgatory top``."""

import socket
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from heapq import nlargest
from itertools import chain
from operator import itemgetter
from typing import Any, Final, cast

import msgspec
from prometheus_client import ProcessCollector, generate_latest

from purgatory_async import Purgatory, Timer
from purgatory_async.durable.documents.problems import Problem
from purgatory_async.durable.stats.recent import Probe, Recent
from purgatory_async.events import Observers
from purgatory_async.kafka import Broker
from purgatory_async.kafka.partition import Partition
from purgatory_async.metrics import Metrics
from purgatory_async.service.contract.header_fields import Head
from purgatory_async.service.contract.version import VERSION
from purgatory_async.service.http.answer import Answer, refusal
from purgatory_async.service.http.context import Deadlines, ServerContext
from purgatory_async.service.http.front import Front
from purgatory_async.service.http.unsent import Unsent
from purgatory_async.service.http.wire import Asked, Wire
from purgatory_async.service.logs import stderr_log

_LAG_PERIOD_S: Final = 0.1
_MOST_KEYS: Final = 10
_BACKLOG: Final = 128
_UNSENT: Final = 1 << 24  # bytes
_GRACE_S: Final = 1.0
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
        app = _Application(partial(self.answer, broker), self.timer)
        log, unsent = stderr_log(), Unsent(_UNSENT, self.timer)
        front = Front(ServerContext(app, self.timer, Deadlines(head=10, body=10), log, unsent), ())
        await front.listen([listening], _BACKLOG)
        try:
            yield f"http://{broker.host}:{listening.getsockname()[1]}"
        finally:
            await front.stop_accepting(())
            await front.ended(_GRACE_S, lambda: False)

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

    def answer(self, broker: Broker, method: str, path: bytes) -> Answer:
        """Answer a request. O(watched keys)."""
        if method not in {"GET", "HEAD"}:
            return Answer(405, headers=(("Allow", "GET, HEAD"),))
        if path == b"/metrics":
            return Answer(200, generate_latest(self._metrics.registry), _TEXT)
        if path == b"/v1/admin/stats":
            return Answer(200, msgspec.json.encode(self._stats(broker)))
        return Answer(404)

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


class _Application:
    """Answers each request at once; see `http.wire.Application`."""

    def __init__(self, answer: Callable[[str, bytes], Answer], timer: Timer) -> None:
        self._answer: Final = answer
        self.now: Final = timer.time
        self.held: dict[str, int] = {}

    def request(self, head: Head, wire: Wire, root: str = "") -> Asked:
        """Return the request of a head."""
        del root
        return Asked(self, wire, head)

    def serve(self, request: Asked, step: Callable[[Any], object] | None = None, of: object = None) -> None:
        """Answer it; nothing waits here."""
        del step, of
        request.ended = True
        answer = self._answer(request.method, request.path)
        request.wire.answer(answer, self.stamp(request), self.now())

    def refuse(self, request: Asked, problem: Problem) -> tuple[Answer, bytes]:
        """Return the answer to a malformed one."""
        return refusal(problem), self.stamp(request)

    def drop(self, request: Asked) -> None:
        """Nothing is kept of it."""

    def stamp(self, request: Asked) -> bytes:
        """Return the lines of the fields that all answers have."""
        return b"x-request-id: %b\r\n" % request.id


def _watched(purgatory: Purgatory) -> float:
    return purgatory.watched


def _pending(purgatory: Purgatory) -> float:
    return purgatory.pending


def _text(key: Hashable) -> str:
    if isinstance(key, Partition):
        return f"{key.topic}-{key.index}"
    return " ".join(map(str, cast("tuple[object, ...]", key))) if isinstance(key, tuple) else str(key)
