"""``/v1/queues/{queue}/items`` and ``/take``: put items, lease them."""

from functools import partial

from purgatory_async.durable.documents.queue_messages import LeasedItems
from purgatory_async.durable.fold.entries import PutItem, PutItems
from purgatory_async.durable.fold.results import Put, PutSome, Result
from purgatory_async.durable.fold.shared import microseconds
from purgatory_async.durable.later import after
from purgatory_async.durable.verbs.leases import leased
from purgatory_async.durable.verbs.levels import check_level
from purgatory_async.durable.verbs.queues import delivered, put_in, take_in
from purgatory_async.durable.waiting.takers import Taken
from purgatory_async.service.api.repeating import ONCE, Repeatable
from purgatory_async.service.api.request import Request
from purgatory_async.service.held.given import Given
from purgatory_async.service.http.answer import JSON, Answer, answer, replayed
from purgatory_async.service.http_service import HttpService


def put_item(service: HttpService, request: Request) -> Given:
    """``POST /v1/queues/{queue}/items``: hand items to one taker each, or keep them until one comes."""
    request.check_accept(JSON)
    request.query()
    queue = request.key("queue")
    body = request.body()
    entry = put_in(body, queue, request)
    once = request.repeatable(body, entry, service.state)
    if once is ONCE:  # as of a signal
        return _put(service, request, entry, ONCE)
    return after(once, partial(_put, service, request, entry))


def _put(service: HttpService, request: Request, entry: PutItem | PutItems, once: Repeatable) -> Given:
    entry.idem, entry.digest = once
    return after(service.put(entry, request), _answer_to_put)


def _answer_to_put(result: Result) -> Answer:
    assert isinstance(result, (Put, PutSome)), f"a put cannot give {result!r}"
    return answer(201, delivered(result), *replayed(result))


def take_item(service: HttpService, request: Request) -> Given:
    """``POST /v1/queues/{queue}/take``: lease items; with ``wait`` hold the request until one comes."""
    request.check_accept(JSON)
    wait = request.wait(request.query("wait"), service.settings.max_wait)
    queue = request.key("queue")
    text = request.body()
    order, several = take_in(text, queue)

    def _taken(taken: Taken) -> Answer:
        if not taken.leases:
            return Answer(204, headers=wait.headers)
        views = leased(taken, service.state)
        return answer(200, LeasedItems(views) if several else views[0], *wait.headers, *replayed(taken))

    def _take(_: None) -> Given:
        return service.held.taking.hold(request, order, _taken)

    def _once(once: Repeatable) -> Given:
        order.idem, order.digest = once
        order.owner, order.wait_us = request.grant.owner, microseconds(service.shortened(wait.seconds))
        return after(check_level(service.state, order), _take)

    return after(request.repeatable(text, order, service.state), _once)
