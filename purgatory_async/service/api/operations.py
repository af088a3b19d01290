"""``/v1/operations``, ``/v1/wait`` and ``/v1/events``: submit, show, end, list and follow operations; wait once."""

import hashlib
from collections.abc import Iterator
from typing import Final

import msgspec

from purgatory_async import Outcome
from purgatory_async.service import problems
from purgatory_async.service.api.query_string import percent_decoded
from purgatory_async.service.api.request import MAX_HEADER, Request, decoded
from purgatory_async.service.http.answer import JSON, Answer, answer
from purgatory_async.service.http.stream import EVENT_STREAM, EventStream
from purgatory_async.service.messages import Complete, OperationList, OperationView, Submit, WaitView, kept
from purgatory_async.service.service import Service
from purgatory_async.service.state.names import checked_key, distinct_keys
from purgatory_async.service.state.operations import Operation
from purgatory_async.web.waiting import Wait

SUBMIT: Final = msgspec.json.Decoder(Submit)
COMPLETE: Final = msgspec.json.Decoder(Complete)
DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 1000
# Bytes after which a page ends early: a thousand operations can carry a gigabyte.
PAGE_BYTES: Final = 1 << 20


async def submit_operation(service: Service, request: Request) -> Answer:
    """``POST /v1/operations``: submit an operation; with ``wait`` hold the request until it ends."""
    request.check_accept(JSON)
    wait = request.wait(request.query("wait"), service.settings.max_wait)
    body = await request.body()
    order = decoded(body, SUBMIT)
    key, digest = _idempotency_key(request), hashlib.sha256(body).digest()
    operation = None if key is None else service.registry.replayed(key, digest)
    headers = wait.headers
    if operation is not None:
        headers = (*headers, ("Idempotency-Replayed", "true"))
    else:
        if wait.seconds:
            service.holds.check_room()
        operation = service.submit(order, key, digest)
        if operation.timeout == 0:
            await operation  # it ends in the next loop pass; the answer shows the end
    headers = (*headers, *await service.record(operation))
    location = ("Location", f"{request.prefix}/v1/operations/{operation.id}")
    if operation.outcome is not None:
        return answer(201, _view(service, operation), location, *headers)
    if await _ended(service, request, operation, wait):
        return answer(200, _view(service, operation), *headers)
    return answer(202, _view(service, operation), location, *headers)


async def read_operation(service: Service, request: Request) -> Answer:
    """``GET /v1/operations/{id}``: show an operation; with ``wait`` hold the request until it ends."""
    request.check_accept(JSON)
    wait = request.wait(request.query("wait"), service.settings.max_wait)
    operation = _find(service, request)
    if operation.outcome is None:
        await _ended(service, request, operation, wait)
    return answer(200, _view(service, operation), *wait.headers)


async def complete_operation(service: Service, request: Request) -> Answer:
    """``POST /v1/operations/{id}/complete``: complete an operation, whatever its need."""
    request.check_accept(JSON)
    request.query()
    body = decoded(await request.body(), COMPLETE, optional=True)
    operation = _find(service, request)
    if operation.outcome is not None:
        raise problems.already_ended(_view(service, operation))
    service.records.check_trouble()
    operation.force_complete(kept(body.result))
    return answer(200, _view(service, operation), *await service.records.settle())


async def cancel_operation(service: Service, request: Request) -> Answer:
    """``DELETE /v1/operations/{id}``: cancel an operation; no effect once it has ended."""
    request.check_accept(JSON)
    request.query()
    operation = _find(service, request)
    if operation.outcome is not None:
        return answer(200, _view(service, operation))
    service.records.check_trouble()
    operation.cancel()
    return answer(200, _view(service, operation), *await service.records.settle())


async def list_operations(service: Service, request: Request) -> Answer:
    """``GET /v1/operations``: list pending operations, oldest first, in pages."""
    request.check_accept(JSON)
    query = request.query("cursor", "key", "limit")
    limit = query.integer("limit", 1, MAX_LIMIT) or DEFAULT_LIMIT
    # The cursor is a place in the order of submission, so it stays valid when operations end.
    after = query.integer("cursor", 0, 2**63 - 1) or 0
    keys = query.keys()
    pending = service.pending(checked_key(keys[0]) if keys else None, after)
    return answer(200, _page(service, pending, limit))


async def wait_once(service: Service, request: Request) -> Answer:
    """``GET /v1/wait``: hold the request until the need holds, without an operation."""
    request.check_accept(JSON)
    query = request.query("key", "need", "wait", repeated="key")
    wait, need = request.wait(query, service.settings.max_wait), query.need()
    if not query.keys():
        raise problems.invalid("/key", f"name at least one key in the query, got {query.keys()!r}")
    keys = distinct_keys(query.keys())
    service.holds.check_room()
    if not wait.seconds:
        return Answer(204, headers=wait.headers)  # only later signals count
    operation = service.wait_once(keys, need, service.shortened(wait.seconds))
    try:
        await service.holds.until(operation, None, request.receive)
    finally:
        operation.cancel()  # the client left, or the service drains
    if operation.outcome is not Outcome.COMPLETED:
        return Answer(204, headers=wait.headers)
    return answer(200, WaitView(operation.signals), *wait.headers)


async def read_events(service: Service, request: Request) -> EventStream:
    """``GET /v1/events``: a stream of server-sent events, from now on or from behind ``Last-Event-ID``."""
    request.check_accept(EVENT_STREAM)
    request.query()
    last = request.header("last-event-id")
    try:
        after = None if last is None else service.feed.number_of(last)
    except ValueError:
        raise problems.bad_header("Last-Event-ID", "the id of an event, EPOCH-N", last or "") from None
    return service.streams.stream(after, request.receive)


def _page(service: Service, pending: Iterator[Operation], limit: int) -> OperationList:
    views: list[msgspec.Raw] = []
    size, last, now = 0, 0, service.timer.time()
    for operation in pending:
        if len(views) == limit or size > PAGE_BYTES:
            return OperationList(views, str(last))
        encoded = msgspec.json.encode(operation.view(now))
        views.append(msgspec.Raw(encoded))
        size += len(encoded)
        last = operation.sequence
    return OperationList(views)


async def _ended(service: Service, request: Request, operation: Operation, wait: Wait) -> bool:
    """Hold the request until the operation ends or the wait is over; return whether it ended."""
    if not wait.seconds:
        return False
    return await service.holds.until(operation, service.shortened(wait.seconds), request.receive)


def _find(service: Service, request: Request) -> Operation:
    raw = request.parameters["id"]
    try:
        return service.registry.find(percent_decoded(raw))
    except ValueError:
        raise problems.unknown_operation(raw.decode("ascii", "backslashreplace")) from None


def _view(service: Service, operation: Operation) -> OperationView:
    return operation.view(service.timer.time())


def _idempotency_key(request: Request) -> str | None:
    key = request.header("idempotency-key")
    if key is not None and not (0 < len(key) <= MAX_HEADER and key.isascii()):
        raise problems.bad_header("Idempotency-Key", f"1 to {MAX_HEADER} characters of ASCII", key)
    return key
