"""Counts requests and their durations, and writes the access log.

Labels are bounded whatever clients send: a route is the template of a path, and unknown methods are one.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from purgatory_async.durable.documents.problems import Kind, ProblemKind
from purgatory_async.metrics import Histogram
from purgatory_async.service.contract.http_problems import HttpKind
from purgatory_async.service.logs import Log
from purgatory_async.service.visit import NO_ROUTE, Visit, trace_id_of

# Seconds, from a read in memory to a wait of the longest default, and streams above.
BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1, 5, 15, 30, 60)
METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
OTHER: Final = "other"
_LINK: Final = re.compile("/a/.+", re.DOTALL)


class _Line:
    """What was answered on one route and method."""

    __slots__ = ("seconds", "statuses")

    def __init__(self) -> None:
        self.statuses = defaultdict[int, int](int)
        self.seconds = Histogram(BUCKETS)


class Traffic(Collector):
    """The answered and held requests of a process.

    Args:
        access_log: Gets a record for each answer; None for no access log.

    Attributes:
        held: How many requests are held, by route.
    """

    def __init__(self, access_log: Log | None = None) -> None:
        self._access_log: Final = access_log
        self._lines: dict[tuple[str, str], _Line] = {}
        self.held: Final[dict[str, int]] = {}
        self._refused: dict[ProblemKind, int] = dict.fromkeys((*Kind, *HttpKind), 0)

    def __repr__(self) -> str:
        return f"<Traffic routes={len(self._lines)} held={sum(self.held.values())}>"

    def refuse(self, kind: ProblemKind) -> None:
        """Count a refusal. O(1)."""
        self._refused[kind] += 1

    def end(self, visit: Visit, status: int, size: int, now: float) -> None:
        """Count and log an answer. O(1).

        Args:
            visit: Whose it is.
            status: The status of the answer.
            size: Bytes of its body, which a HEAD is not sent.
            now: Seconds of the service's clock.
        """
        method = visit.method
        line = self._lines.get((visit.route, method)) or self._line(visit.route, method)
        line.statuses[status] += 1
        seconds = now - visit.began
        if method:
            line.seconds.observe(seconds)
        if self._access_log is not None:
            _log(self._access_log, visit, status, seconds, 0 if method == "HEAD" else size)

    def _line(self, route: str, method: str) -> _Line:
        return self._lines.setdefault((route, method if method in METHODS else OTHER), _Line())

    def collect(self) -> Iterable[Metric]:
        """Return the metrics; Prometheus's client calls this once per scrape."""
        requests = CounterMetricFamily(
            "purgatory_http_requests",
            "Requests answered, by the template of their path.",
            labels=["route", "method", "status"],
        )
        seconds = HistogramMetricFamily(
            "purgatory_http_request_seconds",
            "From the end of a request's head to the end of its answer, also if that was held.",
            labels=["route", "method"],
        )
        for place, line in self._lines.items():
            for status, number in line.statuses.items():
                requests.add_metric([*place, str(status)], number)
            line.seconds.add_to(seconds, place)
        held = GaugeMetricFamily("purgatory_http_held", "Requests held, streams included.", labels=["route"])
        for route, number in self.held.items():
            held.add_metric([route], number)
        refused = CounterMetricFamily(
            "purgatory_refused", "Requests answered with a problem, by its slug.", labels=["slug"]
        )
        for kind, number in self._refused.items():
            refused.add_metric([kind.slug], number)
        return requests, seconds, held, refused


def _log(log: Log, visit: Visit, status: int, seconds: float, sent: int) -> None:
    trace_id = trace_id_of(visit.profile.fields)
    log.info(
        "request",
        _event="request",
        request_id=visit.request_id,
        method=visit.method or None,
        route=visit.route,
        path=shown_path(visit) if visit.method else None,
        status=status,
        seconds=round(seconds, 6),
        sent=sent,
        **({} if visit.admission is None else {"owner": visit.admission.grant.owner}),
        **({} if trace_id is None else {"trace_id": trace_id}),
    )


def shown_path(visit: Visit) -> str:
    """Return the path of a request as people read it, without the token of a link."""
    if visit.route == "/a/{token}":
        return "/a/-"
    path = unquote(visit.path.decode("latin-1"))
    # Where no route was found, a proxy may have left something before the token, or its client something behind it.
    return _LINK.sub("/a/-", path) if visit.route == NO_ROUTE else path
