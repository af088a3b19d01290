"""``/v1/events``: what happens to operations, as it happens."""

import re
from typing import Final

from purgatory_async.service import problems
from purgatory_async.service.request import Request
from purgatory_async.service.service import Service
from purgatory_async.service.stream import EVENT_STREAM, EventStream

_NUMBER: Final = re.compile(r"[0-9]{1,18}")


async def events(service: Service, request: Request) -> EventStream:
    """``GET /v1/events``: a stream of server-sent events, from now on or from behind ``Last-Event-ID``."""
    request.check_accept(EVENT_STREAM)
    request.query()
    last = request.header("last-event-id")
    if last is not None and _NUMBER.fullmatch(last) is None:
        raise problems.bad_header("Last-Event-ID", "the number of an event, 1 to 18 digits", last)
    return service.streams.stream(None if last is None else int(last), request.receive)
