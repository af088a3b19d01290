"""``/v1/events``: what happens to operations, as it happens."""

from purgatory_async.service import problems
from purgatory_async.service.request import Request
from purgatory_async.service.service import Service
from purgatory_async.service.stream import EVENT_STREAM, EventStream


async def events(service: Service, request: Request) -> EventStream:
    """``GET /v1/events``: a stream of server-sent events, from now on or from behind ``Last-Event-ID``."""
    request.check_accept(EVENT_STREAM)
    request.query()
    last = request.header("last-event-id")
    try:
        after = None if last is None else service.feed.number_of(last)
    except ValueError:
        raise problems.bad_header("Last-Event-ID", "the id of an event, EPOCH-N", last or "") from None
    return service.streams.stream(after, request.receive)
