"""A request that speaks ASGI to a poll without a server or a socket."""

import asyncio
import json

from purgatory_async.web import asgi_poll


class Exchange:
    """One request under way, and its answer once there is one.

    Args:
        wait: What it waits for, and its arguments.
        query: The query string.
        headers: (name, value) pairs.
        http_version: As ASGI writes it.
        terms: Keyword arguments of the poll; without jitter unless they say otherwise.
    """

    def __init__(self, *wait, query="", headers=(), http_version="1.1", **terms):
        self.inbox = asyncio.Queue()
        self.inbox.put_nowait({"type": "http.request", "body": b"", "more_body": False})
        self.sent = []
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

    async def receive(self):
        message = await self.inbox.get()
        if isinstance(message, BaseException):
            raise message
        return message

    async def send(self, message):
        self.sent.append(message)

    def hang_up(self):
        self.inbox.put_nowait({"type": "http.disconnect"})

    @property
    def answered(self):
        return len(self.sent) == 2

    @property
    def status(self):
        assert self.answered, f"sent: {self.sent}"
        assert [message["type"] for message in self.sent] == ["http.response.start", "http.response.body"]
        return self.sent[0]["status"]

    @property
    def headers(self):
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def body(self):
        return self.sent[1]["body"]

    @property
    def json(self):
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body)
