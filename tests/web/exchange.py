"""Requests that speak ASGI to a poll, or to a stream of events."""

import asyncio

from purgatory_async.web import asgi_events, asgi_poll
from tests import exchange
from tests.web.event_lines import parse


class Exchange(exchange.Exchange):
    """A poll under way, and its answer once there is one.

    Args:
        wait: What it waits for, and its arguments.
        query: The query string.
        headers: (name, value) pairs.
        http_version: As ASGI writes it.
        terms: Keyword arguments of the poll; without jitter unless they say otherwise.
    """

    def __init__(self, *wait, query="", headers=(), http_version="1.1", **terms):
        super().__init__(b"")
        scope = {
            "type": "http",
            "http_version": http_version,
            "query_string": query.encode("latin-1"),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
        }
        self.running = asgi_poll(scope, self.receive, self.send, *wait, **{"jitter": 0, **terms})
        self.task = None

    def start(self):
        self.task = asyncio.get_running_loop().create_task(self.running)
        return self


class Stream(exchange.Exchange):
    """A stream of events, read by a client that can stop reading.

    Args:
        source: What it sends.
        last_id: The id that the client brings; None for none.
        method: The request's.
        terms: Keyword arguments of the stream.

    Attributes:
        reads: Whether the client takes what is sent.
    """

    def __init__(self, source, *, last_id=None, method="GET", http_version="1.1", **terms):
        super().__init__(b"")
        headers = [] if last_id is None else [(b"Last-Event-ID", last_id.encode())]
        scope = {"type": "http", "http_version": http_version, "method": method, "headers": headers}
        self.reads = asyncio.Event()
        self.reads.set()
        self.running = asgi_events(scope, self.receive, self.send, source, **terms)
        self.task = None

    def start(self):
        self.task = asyncio.get_running_loop().create_task(self.running)
        return self

    async def send(self, message):
        await self.reads.wait()
        await super().send(message)

    @property
    def parsed(self):
        return parse(self.body)

    @property
    def events(self):
        return self.parsed.events

    @property
    def data(self):
        return [event.data for event in self.events]

    @property
    def last_id(self):
        return self.parsed.last_id
