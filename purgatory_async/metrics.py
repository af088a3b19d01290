"""Metrics for Prometheus: an observer that counts events, and gauges that read the present state.

`notify` only adds integers; a scrape makes the text. A scrape runs on the loop between two events, so in each of
them submitted equals ended plus pending, although the pending are read from the purgatory.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from purgatory_async import Outcome, Purgatory
from purgatory_async.events import Event, KeySignalled, OperationEnded, OperationSubmitted

NS_PER_SECOND: Final = 1_000_000_000

# Seconds, from a wait that completes at once to one that outlives every proxy.
WAIT_BUCKETS: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 20, 30, 60, 300, 3600)
# Seconds. One tick plus one loop turn is promised; anything above is a blocked loop.
DELAY_BUCKETS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 5)


class Histogram:
    """Counts of values per bucket, and their sum.

    Args:
        bounds: Ascending upper bounds; a last bucket takes all larger values.
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
        """Return the counts in Prometheus's cumulative form."""
        family = HistogramMetricFamily(name, documentation)
        self.add_to(family, ())
        return family

    def add_to(self, family: HistogramMetricFamily, labels: Sequence[str]) -> None:
        """Add the counts to a family of several histograms, under the values of its labels."""
        bounds = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        family.add_metric(labels, list(zip(bounds, accumulate(self._counts), strict=True)), self._sum)


class Metrics(Collector):
    """Counts the events of one purgatory, or of several together, and exports them to Prometheus.

    Pass it as the purgatory's observer, then hand it the purgatory for the gauges:

        metrics = Metrics()
        purgatory = Purgatory(observer=metrics)
        metrics.gauge(purgatory)

    Args:
        registry: Collects it; None makes a new one, so that several in a process do not collide.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.submitted = 0
        self.ended = dict.fromkeys(Outcome, 0)
        self.signals = 0
        self.undelivered = 0
        self.loop_lag = Histogram(DELAY_BUCKETS)
        self._waits = Histogram(WAIT_BUCKETS)
        self._lateness = Histogram(DELAY_BUCKETS)
        self._purgatories: tuple[Purgatory, ...] = ()
        self._shown: list[Callable[[], Metric]] = []
        self._infos: list[GaugeMetricFamily] = []
        self.registry: Final = CollectorRegistry() if registry is None else registry
        self.registry.register(self)

    def __repr__(self) -> str:
        return f"<Metrics submitted={self.submitted} ended={sum(self.ended.values())} signals={self.signals}>"

    def gauge(self, *purgatories: Purgatory) -> None:
        """Export the pending and watched counts of these purgatories together, and of no others."""
        self._purgatories = purgatories

    def restore(self, submitted: int, signals: int, ended: Iterable[tuple[str, int]]) -> None:
        """Go on from other counts, as of a state that was loaded; ``ended`` has those by outcome."""
        self.submitted, self.signals = submitted, signals
        self.ended.update({Outcome(outcome): number for outcome, number in ended})

    def show(
        self, name: str, documentation: str, read: Callable[[], float], *, counter: bool = False
    ) -> None:
        """Export another gauge or counter, whose value ``read()`` returns at every scrape."""
        family = CounterMetricFamily if counter else GaugeMetricFamily
        self._shown.append(lambda: family(name, documentation, read()))

    def show_each(
        self,
        name: str,
        documentation: str,
        label: str,
        reads: Mapping[str, Callable[[], float]],
        *,
        counter: bool = False,
    ) -> None:
        """Export another gauge or counter with one label, whose values each have a ``read()``."""
        kind = CounterMetricFamily if counter else GaugeMetricFamily

        def _family() -> Metric:
            family = kind(name, documentation, labels=[label])
            for value, read in reads.items():
                family.add_metric([value], read())
            return family

        self._shown.append(_family)

    def info(self, name: str, documentation: str, **labels: str) -> None:
        """Export what does not change, as the labels of a gauge that is 1."""
        family = GaugeMetricFamily(name, documentation, labels=list(labels))
        family.add_metric(list(labels.values()), 1)
        self._infos.append(family)

    def notify(self, event: Event) -> None:
        """Count an event. O(1)."""
        if isinstance(event, OperationSubmitted):
            self.submitted += 1
        elif isinstance(event, KeySignalled):
            self.signals += 1
        elif isinstance(event, OperationEnded):
            self._count_end(event)

    def _count_end(self, event: OperationEnded) -> None:
        self.ended[event.outcome] += 1
        self._waits.observe((event.at_ns - event.submitted_ns) / NS_PER_SECOND)
        if event.outcome is Outcome.EXPIRED and event.deadline_ns is not None:
            self._lateness.observe((event.at_ns - event.deadline_ns) / NS_PER_SECOND)

    def collect(self) -> Iterable[Metric]:
        """Return all metrics; Prometheus's client calls this once per scrape."""
        purgatories = self._purgatories
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
                "purgatory_operations_pending",
                "Operations pending.",
                sum(purgatory.pending for purgatory in purgatories),
            ),
            GaugeMetricFamily(
                "purgatory_watched",
                "Pairs of operation and key.",
                sum(purgatory.watched for purgatory in purgatories),
            ),
            self._waits.metric("purgatory_wait_seconds", "From submission to the end of an operation."),
            self._lateness.metric("purgatory_lateness_seconds", "From deadline to expiration."),
            self.loop_lag.metric("purgatory_loop_lag_seconds", "How late the event loop ran a probe."),
            *(family() for family in self._shown),
            *self._infos,
        ]
