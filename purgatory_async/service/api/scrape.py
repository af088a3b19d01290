"""One scrape for all workers of a supervisor: shared metrics once, a worker's own metrics for each worker."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from purgatory_async.service.http_service import HttpService

METRICS: Final = "metrics"  # the question to the other workers

# Of the state, which is equal at every worker: aggregate with max, not sum.
SHARED: Final = frozenset(
    {
        "purgatory_answers_kept",
        "purgatory_answers_kept_bytes",
        "purgatory_answers_reserved_bytes",
        "purgatory_asks_oldest_seconds",
        "purgatory_asks_pending",
        "purgatory_build_info",
        "purgatory_operations_ended",
        "purgatory_operations_pending",
        "purgatory_operations_submitted",
        "purgatory_queue_dead",
        "purgatory_queue_delayed",
        "purgatory_queue_items",
        "purgatory_queue_leased",
        "purgatory_queue_oldest_seconds",
        "purgatory_queue_takers",
        "purgatory_signals",
        "purgatory_watched",
    }
)
# Of one process. A metric in neither list is treated as one of these, so that nothing is hidden.
OWN: Final = frozenset(
    {
        "purgatory_gaps",
        "purgatory_held",
        "purgatory_http_held",
        "purgatory_http_request_seconds",
        "purgatory_http_requests",
        "purgatory_lateness_seconds",
        "purgatory_limit",
        "purgatory_log_appended",
        "purgatory_log_applied",
        "purgatory_log_diverged",
        "purgatory_store_failures",
        "purgatory_log_gaps",
        "purgatory_log_lag_seconds",
        "purgatory_log_position",
        "purgatory_log_reconnects",
        "purgatory_log_repeated",
        "purgatory_log_ticks",
        "purgatory_store_trouble",
        "purgatory_store_wal_bytes",
        "purgatory_log_unwritten",
        "purgatory_loop_lag_seconds",
        "purgatory_refused",
        "purgatory_stalled",
        "purgatory_streams",
        "purgatory_undelivered",
        "purgatory_used",
        "purgatory_wait_seconds",
        *("process_cpu_seconds", "process_max_fds", "process_open_fds", "process_resident_memory_bytes"),
        *("process_start_time_seconds", "process_virtual_memory_bytes"),
    }
)


class _Sample(msgspec.Struct, array_like=True):
    name: str
    labels: Mapping[str, str]
    value: float


class _Family(msgspec.Struct, array_like=True):
    name: str
    documentation: str
    kind: str
    samples: list[_Sample]


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(list[_Family])


class _Collected(Collector):
    """Metrics that were collected already, as `generate_latest` wants them."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """Return them."""
        return self._metrics


def own_metrics(service: HttpService) -> bytes:
    """Return a worker's own metrics, labelled with its number, for the worker that is scraped."""
    return _ENCODER.encode(list(_own_families(service)))


async def scrape(service: HttpService) -> bytes:
    """Return the metrics in Prometheus's text format; of all workers, if a supervisor keeps several.

    ``purgatory_worker_up`` is 0 for a worker that is being started, or that did not answer within a second.
    """
    await service.survey.oldest.look()
    if service.peers.number is None:
        return generate_latest(service.metrics.registry)
    answers = await service.peers.ask(METRICS)
    # Nothing else runs from here on, so the counts add up.
    merged = {metric.name: metric for metric in service.metrics.registry.collect() if metric.name in SHARED}
    parts = {service.peers.number: list(_own_families(service))}
    parts |= {worker: _DECODER.decode(body) for worker, body in answers.items() if body is not None}
    for _, families in sorted(parts.items()):
        for family in families:
            metric = merged.setdefault(family.name, Metric(family.name, family.documentation, family.kind))
            for sample in family.samples:
                metric.add_sample(sample.name, dict(sample.labels), sample.value)
    up = GaugeMetricFamily(
        "purgatory_worker_up", "Whether the worker answered the scrape.", labels=["worker"]
    )
    for worker in range(1, service.peers.total + 1):
        up.add_metric([str(worker)], worker in parts)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected([*merged.values(), up]))
    return generate_latest(registry)


def _own_families(service: HttpService) -> Iterator[_Family]:
    worker = {"worker": str(service.peers.number)}
    for metric in service.metrics.registry.collect():
        if metric.name not in SHARED:
            samples = [_Sample(each.name, {**worker, **each.labels}, each.value) for each in metric.samples]
            yield _Family(metric.name, metric.documentation, metric.type, samples)
