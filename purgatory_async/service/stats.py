"""The service's figures, put together: the counts of this moment, and what the last survey found."""

from purgatory_async import Outcome
from purgatory_async.service.figures import Counts, Ended, Limits, Stats
from purgatory_async.service.service import Service
from purgatory_async.service.stream import MAX_STREAMS
from purgatory_async.service.version import VERSION

__all__ = ["stats_of"]


async def stats_of(service: Service) -> Stats:
    """Look at a service.

    Args:
        service: All of it.

    Returns:
        The answer of ``GET /v1/admin/stats``. O(1), once a second O(keys + deadlines) in passes of a millisecond.
    """
    found = await service.survey.findings()
    settings = service.settings
    # From here on nothing else runs, so the counts add up.
    return Stats(
        version=VERSION,
        epoch=service.board.epoch,
        at=service.wall_clock(),
        uptime=round(service.recent.uptime, 3),
        draining=service.draining,
        counts=_counts(service),
        limits=Limits(pending=settings.max_pending, items=settings.max_items, streams=MAX_STREAMS),
        survey_age=round(service.timer.time() - found.taken, 6),
        rates=found.rates,
        history=found.history,
        delays=found.delays,
        busiest_keys=found.busiest_keys,
        oldest_operations=found.oldest_operations,
        wheel=found.wheel,
    )


def _counts(service: Service) -> Counts:
    metrics, purgatory, queues = service.metrics, service.purgatory, service.queues
    return Counts(
        submitted=metrics.submitted,
        ended=Ended(**{outcome.value: metrics.ended[outcome] for outcome in Outcome}),
        pending=purgatory.pending,
        watched=purgatory.watched,
        keys=purgatory.keys,
        signals=metrics.signals,
        undelivered=metrics.undelivered,
        held=service.holds.held,
        takers=queues.takers,
        items=queues.items,
        leases=queues.leases,
        streams=len(service.streams.running),
        events=service.feed.newest,
    )
