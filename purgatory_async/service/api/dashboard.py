"""What the page at ``/ui/`` asks for: its figures, and a page of the operations that it lists.

Both need the scope ``read``, unlike ``/v1/admin/stats``: a token that may read every operation may see how they fare.
"""

from typing import Final

import msgspec

from purgatory_async.durable.fold.shared import SECOND
from purgatory_async.service.access.grants import Permission
from purgatory_async.service.api.admin import stats_of
from purgatory_async.service.api.request import Request
from purgatory_async.service.http.answer import JSON, Answer, answer
from purgatory_async.service.http_service import HttpService
from purgatory_async.service.stats.messages import DashboardFeed, WorkerView

PAGE: Final = 50  # operations
MAX_PAGE: Final = 100
MAX_FIRST: Final = 2**63 - 1


async def read_feed(service: HttpService, request: Request) -> Answer:
    """``GET /ui/feed``: show the stats and the workers of the store."""
    request.check_accept(JSON)
    request.query()
    request.use_listed()
    stats = msgspec.structs.asdict(await stats_of(service, request.grant.prefixes))
    may_end = Permission.ADMIN in request.grant.scopes
    return answer(200, DashboardFeed(**stats, workers=_workers(service), may_end=may_end))


async def search_operations(service: HttpService, request: Request) -> Answer:
    """``GET /ui/operations``: list the pending operations whose id or a key begins with a text."""
    request.check_accept(JSON)
    query = request.query("first", "limit", "search")
    limit = query.integer("limit", 1, MAX_PAGE) or PAGE
    first = query.integer("first", 0, MAX_FIRST) or 0
    request.use_listed()
    survey = service.survey.within(request.grant.prefixes)
    return answer(200, await survey.search(query.text("search") or "", first, limit))


def _workers(service: HttpService) -> list[WorkerView] | None:
    """Show the writers of the log by their names, so that rows keep their order. O(writers)."""
    own = service.state.writer
    if own is None:
        return None
    fold, now_us = service.fold, service.state.now_us()
    return [
        WorkerView(
            name=name,
            own=name == own,
            entries=writer.number,
            position=writer.position,
            silent=round(max(now_us - writer.at_us, 0) / SECOND, 3),
            takers=len(fold.queues.takers.by_writer.get(name, ())),
        )
        for name, writer in sorted(fold.writers.known.items())
    ]
