"""Metrics for Prometheus: an observer that counts what happens, and gauges that look at what is.

Counting is integer additions in `notify`; the text is only made when somebody scrapes. A scrape runs on the
loop between two events, so in every one of them submitted is the sum of ended plus pending, although the three
come from different places: two counters and the purgatory itself.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from purgatory_async import Outcome, Purgatory
from purgatory_async.events import Event, KeySignalled, OperationEnded, OperationSubmitted

NS_PER_SECOND: Final = 1_000_000_000

# Seconds. From a wait that was fulfilled at once to one that outlived every proxy.
WAIT_BUCKETS: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 20, 30, 60, 300, 3600)
# Seconds. The promise is one tick and one turn of the loop; what is beyond is the loop being held up.
DELAY_BUCKETS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 5)


class Histogram:
    """How often a value fell into each bucket, and the sum.

    Args:
        bounds: The upper bounds of the buckets, ascending; one for everything above is added.
    """

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count a value. O(log buckets)."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def metric(self, name: str, documentation: str) -> Metric:
        """Show the counts as Prometheus has them: each bucket with all below it."""
        bounds = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        family = HistogramMetricFamily(name, documentation)
        family.add_metric([], list(zip(bounds, accumulate(self._counts), strict=True)), self._sum)
        return family


class Metrics(Collector):
    """Counts the events of one purgatory and shows them to Prometheus.

    Pass it as the purgatory's observer, then hand it the purgatory for the gauges:

        metrics = Metrics()
        purgatory = Purgatory(observer=metrics)
        metrics.gauge(purgatory)

    Args:
        registry: Where it is collected; None makes one, so that several in a process do not collide.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.submitted = 0
        self.ended = dict.fromkeys(Outcome, 0)
        self.signals = 0
        self.undelivered = 0
        self.loop_lag = Histogram(DELAY_BUCKETS)
        self._waits = Histogram(WAIT_BUCKETS)
        self._lateness = Histogram(DELAY_BUCKETS)
        self._purgatory: Purgatory | None = None
        self._shown: list[tuple[str, str, Callable[[], float]]] = []
        self.registry: Final = CollectorRegistry() if registry is None else registry
        self.registry.register(self)

    def __repr__(self) -> str:
        return f"<Metrics submitted={self.submitted} ended={sum(self.ended.values())} signals={self.signals}>"

    def gauge(self, purgatory: Purgatory) -> None:
        """Look at this purgatory for what is pending and watched."""
        self._purgatory = purgatory

    def show(self, name: str, documentation: str, read: Callable[[], float]) -> None:
        """Show another gauge.

        Args:
            name: Prometheus's.
            documentation: The same.
            read: Called at every scrape; returns what the gauge shows then.
        """
        self._shown.append((name, documentation, read))

    def notify(self, event: Event) -> None:
        """Count an event. O(1)."""
        if isinstance(event, OperationSubmitted):
            self.submitted += 1
        elif isinstance(event, KeySignalled):
            self.signals += 1
        else:
            self._count_end(event)

    def _count_end(self, event: OperationEnded) -> None:
        self.ended[event.outcome] += 1
        self._waits.observe((event.at_ns - event.submitted_ns) / NS_PER_SECOND)
        if event.outcome is Outcome.EXPIRED and event.deadline_ns is not None:
            self._lateness.observe((event.at_ns - event.deadline_ns) / NS_PER_SECOND)

    def collect(self) -> Iterable[Metric]:
        """Show everything as it is now; Prometheus's client calls this once a scrape."""
        purgatory = self._purgatory
        ended = CounterMetricFamily(
            "purgatory_operations_ended", "Operations that ended, by how.", labels=["outcome"]
        )
        for outcome, number in self.ended.items():
            ended.add_metric([outcome.value], number)
        return [
            CounterMetricFamily("purgatory_operations_submitted", "Operations submitted.", self.submitted),
            ended,
            CounterMetricFamily("purgatory_signals", "Keys signalled.", self.signals),
            CounterMetricFamily(
                "purgatory_undelivered",
                "Answers whose client had left when they were ready.",
                self.undelivered,
            ),
            GaugeMetricFamily(
                "purgatory_operations_pending", "Operations pending.", purgatory.pending if purgatory else 0
            ),
            GaugeMetricFamily(
                "purgatory_watched", "Pairs of operation and key.", purgatory.watched if purgatory else 0
            ),
            self._waits.metric("purgatory_wait_seconds", "From submission to the end of an operation."),
            self._lateness.metric("purgatory_lateness_seconds", "From deadline to expiration."),
            self.loop_lag.metric("purgatory_loop_lag_seconds", "How late the event loop ran a probe."),
            *(GaugeMetricFamily(name, documentation, read()) for name, documentation, read in self._shown),
        ]
