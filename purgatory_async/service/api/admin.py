"""``/v1/admin``, ``/healthz``, ``/readyz`` and ``/metrics``: operate and watch the service."""

from typing import Final

import msgspec

from purgatory_async import Outcome
from purgatory_async.durable.documents.decoding import decoded
from purgatory_async.durable.documents.messages import DrainBody, Draining, Health
from purgatory_async.durable.fold.checkpoint import digest
from purgatory_async.durable.state import Guard
from purgatory_async.durable.stats.messages import (
    Counts,
    Ended,
    JournalView,
    Limits,
    QuestionTotals,
    QueueTotals,
    Stats,
)
from purgatory_async.durable.stats.oldest import oldest_question
from purgatory_async.service.api.request import Request
from purgatory_async.service.api.scrape import METRICS, own_metrics, scrape
from purgatory_async.service.channel import DRAIN
from purgatory_async.service.contract import http_problems
from purgatory_async.service.contract.version import VERSION
from purgatory_async.service.held.given import Given
from purgatory_async.service.held.stream import MAX_STREAMS
from purgatory_async.service.http.answer import JSON, Answer, answer
from purgatory_async.service.http_service import HttpService

_DRAIN: Final = msgspec.json.Decoder(DrainBody)
MAX_LAG: Final = 5.0  # seconds that a worker may be behind
EXPOSITION: Final = "text/plain"


def drain(service: HttpService, request: Request) -> Given:
    """``POST /v1/admin/drain``: drain all workers as on SIGTERM, but keep the processes; idempotent."""
    request.check_accept(JSON)
    request.query()
    decoded(request.body(), _DRAIN, optional=True)
    return _drain(service, service.begin_drain(request))


async def _drain(service: HttpService, own: Draining) -> Answer:
    answers = await service.peers.ask(DRAIN)
    others = (msgspec.json.decode(body, type=Draining) for body in answers.values() if body is not None)
    # The pending ones are in the state, which all workers share.
    return answer(202, Draining(own.released + sum(other.released for other in others), own.pending))


def answer_peer(service: HttpService, what: str) -> bytes:
    """Answer a question of another worker: for its scrape, or as part of its drain."""
    if what == METRICS:
        return own_metrics(service)
    return msgspec.json.encode(service.begin_drain(Guard()))


async def read_stats(service: HttpService, request: Request) -> Answer:
    """``GET /v1/admin/stats``: show the service's stats; with ``digest=1`` also the digest of its state."""
    request.check_accept(JSON)
    wanted = request.query("digest").integer("digest", 0, 1)
    stats = await stats_of(service)
    if wanted:
        # Of the state whose position the stats name: nothing else has run since.
        stats.digest = digest(service.fold)
    return answer(200, stats)


def check_alive(service: HttpService, request: Request) -> Answer:  # noqa: ARG001 - an endpoint takes both
    """``/healthz``: answer while the event loop runs."""
    request.query()
    request.check_accept(JSON)
    return answer(200, Health("ok"))


def check_ready(service: HttpService, request: Request) -> Answer:
    """``/readyz``: answer 503 while the service starts, drains or cannot record changes, for load balancers."""
    request.query()
    request.check_accept(JSON)
    reasons = [
        *(["draining"] if service.leaving else []),
        *(["disk"] if service.records.refusing else []),
        *([] if service.state.connected and service.state.lag <= MAX_LAG else ["store"]),
        *([] if service.peers.complete else ["workers"]),
    ]
    if reasons:
        raise http_problems.not_ready(reasons, service.state.cause)
    return answer(200, Health("ready"))


async def read_metrics(service: HttpService, request: Request) -> Answer:
    """``/metrics``: show the metrics in Prometheus's text format, as one snapshot."""
    request.query()
    request.check_accept(EXPOSITION)
    return Answer(200, await scrape(service), f"{EXPOSITION}; version=0.0.4; charset=utf-8")


async def stats_of(service: HttpService, prefixes: tuple[str, ...] = ()) -> Stats:
    """O(1); once a second O(keys + deadlines), in passes of a millisecond.

    Of the figures only the busiest keys and the oldest operations name any; they lie within the prefixes.
    """
    found = await service.survey.within(prefixes).findings()
    await service.state.settled()
    settings = service.settings
    # Nothing else runs from here on, so the counts add up.
    return Stats(
        version=VERSION,
        epoch=service.state.epoch,
        position=service.fold.position,
        level=service.fold.level,
        lag=service.state.lag,
        store_cause=service.state.cause,
        worker=service.peers.number,
        at=service.wall_clock(),
        uptime=round(service.recent.uptime, 3),
        draining=service.draining,
        counts=_counts(service),
        questions=_questions(service),
        queues=_queues(service),
        journal=None
        if service.records.usage is None
        else msgspec.convert(service.records.usage, JournalView, from_attributes=True),
        limits=Limits(pending=settings.max_pending, items=settings.max_items, streams=MAX_STREAMS),
        survey_age=round(service.timer.time() - found.taken, 6),
        rates=found.rates,
        history=found.history,
        delays=found.delays,
        busiest_keys=found.busiest_keys,
        oldest_operations=found.oldest_operations,
        wheel=found.wheel,
    )


def _counts(service: HttpService) -> Counts:
    metrics = service.metrics
    purgatories = (service.fold.operations.purgatory, service.waits.purgatory)
    return Counts(
        submitted=metrics.submitted,
        ended=Ended(**{outcome.value: metrics.ended[outcome] for outcome in Outcome}),
        pending=service.pending,
        watched=sum(each.watched for each in purgatories),
        keys=sum(each.keys for each in purgatories),
        signals=metrics.signals,
        undelivered=metrics.undelivered,
        held=service.held.requests.count,
        takers=len(service.fold.queues.takers),
        gaps=service.held.followers.gaps,
        streams=len(service.held.streams.running),
        events=service.held.feed.newest,
    )


def _questions(service: HttpService) -> QuestionTotals:
    operations = service.fold.operations
    return QuestionTotals(
        pending=len(operations.questions.waiting),
        oldest=oldest_question(service.state),
        kept=len(operations.answers.ended),
        kept_bytes=operations.answers.size,
        reserved_bytes=operations.questions.reserved,
    )


def _queues(service: HttpService) -> QueueTotals:
    queues = service.fold.queues
    return QueueTotals(
        items=queues.ready,
        delayed=queues.hidden_ones,
        leased=len(queues.leases),
        dead=queues.dead,
        oldest=service.survey.oldest.age,
    )
