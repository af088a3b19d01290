"""What the page at ``/ui/`` asks for: its figures, and a page of the operations or of the questions that it lists.

All need the scope ``read``, unlike ``/v1/admin/stats``: a token that may read every operation may see how they fare.
"""

import asyncio
from typing import Final

import msgspec
from msgspec import UNSET

from purgatory_async.durable.documents import OperationView
from purgatory_async.durable.fold.operations import Operation
from purgatory_async.durable.fold.shared import SECOND
from purgatory_async.durable.grants import Permission
from purgatory_async.durable.stats.messages import DashboardFeed, QuestionPage, WorkerView
from purgatory_async.durable.verbs.listing import checked_state, is_in
from purgatory_async.durable.verbs.pages import STEPS, first_of, page_of
from purgatory_async.service.api.admin import stats_of
from purgatory_async.service.api.query_string import Query
from purgatory_async.service.api.request import Request
from purgatory_async.service.http.answer import JSON, Answer, answer
from purgatory_async.service.http_service import HttpService

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
    first, limit = _place(query)
    request.use_listed()
    survey = service.survey.within(request.grant.prefixes)
    return answer(200, await survey.search(query.text("search") or "", first, limit))


async def list_questions(service: HttpService, request: Request) -> Answer:
    """``GET /ui/questions``: list operations that ask a person, however many others there are. O(questions)."""
    request.check_accept(JSON)
    query = request.query("first", "limit", "state")
    first, limit = _place(query)
    state, grant = checked_state(query.text("state")), request.grant
    request.use_listed()
    await service.state.caught_up()
    asked = list(service.fold.operations.questions.values())
    found: list[Operation] = []
    for start in range(0, len(asked), STEPS):
        found += (
            each
            for each in asked[start : start + STEPS]
            if is_in(each, state) and grant.covers_all(each.watch_keys)
        )
        await asyncio.sleep(0)
    last = await first_of(found, first + limit, place=_by_state, wanted=lambda _: True)
    now_us = service.state.now_us()
    shown, _ = page_of(last[first:], limit, lambda each: _question(each, now_us), lambda each: each.id)
    return answer(200, QuestionPage(len(found), first, shown, Permission.ANSWER in grant.scopes))


def _by_state(operation: Operation) -> tuple[bool, int]:
    """Return the place of a question: pending ones as they were asked, then the others, the last end first."""
    ended = operation.outcome is not None
    return ended, -operation.ended_us if ended else operation.position


def _question(operation: Operation, now_us: int) -> OperationView:
    """Show a question; what it carries for programs would make a page long."""
    view = operation.view(now_us)
    view.data, view.signals = UNSET, ()
    return view


def _place(query: Query) -> tuple[int, int]:
    """Return how many elements come before a page, and the most on it."""
    return query.integer("first", 0, MAX_FIRST) or 0, query.integer("limit", 1, MAX_PAGE) or PAGE


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
