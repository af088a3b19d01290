"""``/v1/queues``: list, show, set and peek at queues, purge and redrive them."""

from functools import partial

from purgatory_async.durable.documents.queue_messages import Purged, Redriven
from purgatory_async.durable.fold.entries import SetQueue
from purgatory_async.durable.later import Later, after
from purgatory_async.durable.verbs import queues
from purgatory_async.service.api.paging import limit_of
from purgatory_async.service.api.request import Request
from purgatory_async.service.held.given import Given
from purgatory_async.service.http.answer import JSON, Answer, answer
from purgatory_async.service.http_service import HttpService


async def list_queues(service: HttpService, request: Request) -> Answer:
    """``GET /v1/queues``: list the queues by name, in pages."""
    request.check_accept(JSON)
    query = request.query("cursor", "limit", "prefix")
    limit, cursor, prefix = limit_of(query), query.text("cursor"), query.text("prefix")
    return answer(200, await queues.queue_list(service, prefix, cursor, limit, request))


async def read_queue(service: HttpService, request: Request) -> Answer:
    """``GET /v1/queues/{queue}``: show a queue and its settings."""
    request.check_accept(JSON)
    request.query()
    return answer(200, await queues.queue_view(service, request.key("queue")))


def set_queue(service: HttpService, request: Request) -> Given:
    """``PUT /v1/queues/{queue}``: set what differs from the defaults, in full."""
    request.check_accept(JSON)
    request.query()
    queue = request.key("queue")
    entry = queues.settings_in(request.body(), queue)
    return after(queues.set_queue(service, entry, request), partial(answer, 200))


def forget_queue(service: HttpService, request: Request) -> Given:
    """``DELETE /v1/queues/{queue}``: forget the settings of a queue; its items stay."""
    request.check_accept(JSON)
    request.query()
    entry = SetQueue(queue=request.key("queue"))
    return after(service.state.propose(entry, request), lambda _: Answer(204))


async def peek_items(service: HttpService, request: Request) -> Answer:
    """``GET /v1/queues/{queue}/items``: show items in the order in which they will be taken, or be due."""
    request.check_accept(JSON)
    query = request.query("cursor", "delayed", "limit")
    limit, delayed = limit_of(query), query.switch("delayed")
    queue, cursor = request.key("queue"), query.text("cursor")
    return answer(200, await queues.item_list(service, queue, cursor, limit, delayed=delayed))


def purge_queue(service: HttpService, request: Request) -> Given:
    """``POST /v1/queues/{queue}/purge``: drop all items of a queue but the leased ones."""
    request.check_accept(JSON)
    request.query()
    queue = request.key("queue")
    entry = queues.purge_in(request.body(), queue)
    return after(queues.move(service, entry, request), lambda items: answer(200, Purged(items)))


def redrive_items(service: HttpService, request: Request) -> Given:
    """``POST /v1/queues/{queue}/redrive``: put the dead items of a queue behind those that wait, the oldest first."""
    request.check_accept(JSON)
    request.query()
    queue = request.key("queue")
    moved: Later[int] = queues.redrive(service, queue, queues.redrive_in(request.body()), request)
    return after(moved, lambda items: answer(200, Redriven(items)))
