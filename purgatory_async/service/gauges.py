"""The present state of a service, read at each scrape beside what its metrics count."""

import platform
from collections.abc import Callable
from functools import partial
from typing import cast

from prometheus_client import ProcessCollector

from purgatory_async.cluster.causes import CAUSES
from purgatory_async.cluster.outage import Outage
from purgatory_async.durable.on_log import OnLog
from purgatory_async.durable.state import Answer, State
from purgatory_async.durable.stats.oldest import OldestItem, oldest_question
from purgatory_async.durable.waiting.waits import Waits
from purgatory_async.metrics import Metrics
from purgatory_async.service.contract.version import CORE, VERSION
from purgatory_async.service.held.held import Held
from purgatory_async.service.held.stream import MAX_STREAMS


def show_gauges(metrics: Metrics, state: State, held: Held) -> None:
    """Add the gauges to the metrics."""
    metrics.info(
        "purgatory_build_info",
        "Version, interpreter, and core: compiled or pure.",
        version=VERSION,
        python=platform.python_version(),
        core=CORE,
    )
    for name, documentation, read in (
        ("held", "Requests held for an operation, a key or a one-shot wait.", lambda: held.requests.count),
        ("streams", "Readers of the events.", lambda: len(held.streams.running)),
    ):
        metrics.show(f"purgatory_{name}", documentation, read)
    _show_questions(metrics, state)
    ProcessCollector(registry=metrics.registry)
    metrics.show(
        "purgatory_gaps",
        "Answers to a follower of signals that one may be missing.",
        lambda: held.followers.gaps,
        counter=True,
    )
    if isinstance(state, OnLog):
        _show_log(metrics, cast("OnLog[Answer]", state))


def show_limits(metrics: Metrics, state: State, waits: Waits, held: Held) -> None:
    """Add each limit beyond which requests are refused, and how much of it is used."""
    pending, requests, takers = waits.purgatory, held.requests, held.taking.held_requests
    limits: dict[str, tuple[Callable[[], float], Callable[[], float]]] = {
        "max_pending": (
            lambda: state.fold.operations.purgatory.pending,
            lambda: state.fold.shared.limits.max_pending,
        ),
        "max_bytes": (
            lambda: state.fold.shared.kept.used + held.feed.size,
            lambda: state.fold.shared.limits.max_kept,
        ),
        # Of each worker; of the others the first three are also bounded by --max-pending.
        "max_unsent": (lambda: held.unsent.used, lambda: held.unsent.limit),
        "waits": (lambda: pending.pending, lambda: pending.max_pending or 0),
        "held": (lambda: requests.count, lambda: requests.limit),
        "takers": (lambda: takers.count, lambda: takers.limit),
        "streams": (lambda: len(held.streams.running), lambda: MAX_STREAMS),
    }
    for place, (name, documentation) in enumerate(
        (("used", "What is used of a limit."), ("limit", "A limit, beyond which requests are refused."))
    ):
        reads = {limit: both[place] for limit, both in limits.items()}
        metrics.show_each(f"purgatory_{name}", documentation, "limit", reads)
    metrics.show(
        "purgatory_stalled",
        "Clients that were cut because they took nothing.",
        lambda: held.unsent.cut,
        counter=True,
    )


def show_queues(metrics: Metrics, state: State, oldest: OldestItem) -> None:
    """Show sums over all queues: a label for each queue would make a series of each name that a client thinks of."""
    for name, documentation, read in (
        ("items", "Items ready to be taken.", lambda: state.fold.queues.ready),
        ("delayed", "Items that cannot be taken yet.", lambda: state.fold.queues.hidden_ones),
        ("leased", "Leased items.", lambda: len(state.fold.queues.leases)),
        ("takers", "Requests held for an item.", lambda: len(state.fold.queues.takers)),
        ("oldest_seconds", "Age of the oldest ready item, dead ones left out.", lambda: oldest.age or 0.0),
    ):
        metrics.show(f"purgatory_queue_{name}", documentation, read)
    metrics.show(
        "purgatory_queue_dead",
        "Items that went to a dead queue.",
        lambda: state.fold.queues.dead,
        counter=True,
    )


def _show_questions(metrics: Metrics, state: State) -> None:
    for name, documentation, read in (
        (
            "asks_pending",
            "Operations with a question that wait.",
            lambda: len(state.fold.operations.questions.waiting),
        ),
        (
            "asks_oldest_seconds",
            "Age of the oldest question that waits.",
            lambda: oldest_question(state) or 0.0,
        ),
        (
            "answers_kept",
            "Ended operations that are kept for a time of their own.",
            lambda: len(state.fold.operations.answers.ended),
        ),
        (
            "answers_kept_bytes",
            "Bytes of those, and of the ids that are remembered after them.",
            lambda: state.fold.operations.answers.size,
        ),
        (
            "answers_reserved_bytes",
            "Bytes that pending operations hold free for their answers and the items of their ends.",
            lambda: state.fold.operations.questions.reserved,
        ),
    ):
        metrics.show(f"purgatory_{name}", documentation, read)


def _show_log(metrics: Metrics, state: OnLog[Answer]) -> None:
    for name, documentation, read in (
        ("position", "The newest position applied.", lambda: state.position),
        ("lag_seconds", "Seconds since all that was known was applied.", lambda: state.lag),
        ("unwritten", "Entries that wait to be appended.", lambda: state.proposals.writer.waiting),
    ):
        metrics.show(f"purgatory_log_{name}", documentation, read)
    for name, documentation, read in (
        ("applied", "Entries applied, also those that a reload applied again.", lambda: state.applied),
        ("appended", "Entries appended.", lambda: state.proposals.appended),
        ("repeated", "Entries appended again, and dropped.", lambda: state.proposals.repeated),
        ("ticks", "Ticks proposed.", lambda: state.ticks.appended),
        ("reconnects", "Answers of the engine after a call that failed.", lambda: state.contact.reconnects),
        ("gaps", "Loads of the state because entries were gone.", lambda: state.recovery.gaps),
        (
            "diverged",
            "Loads of the state because another worker's differed.",
            lambda: state.recovery.diverged,
        ),
    ):
        metrics.show(f"purgatory_log_{name}", documentation, read, counter=True)
    outage = state.contact.outage
    metrics.show_each(
        "purgatory_store_trouble",
        "1 for the cause for which the store does not serve now.",
        "cause",
        {cause: partial(_is, outage, cause) for cause in CAUSES},
    )
    metrics.show_each(
        "purgatory_store_failures",
        "Calls on the store that failed, by cause.",
        "cause",
        {cause: partial(outage.failures.__getitem__, cause) for cause in CAUSES},
        counter=True,
    )


def _is(outage: Outage, cause: str) -> float:
    return float(outage.cause == cause)
