"""A request that speaks ASGI to a poll."""

import asyncio

from purgatory_async.web import asgi_poll
from tests import exchange


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
