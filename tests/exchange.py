"""A request that speaks ASGI without a server or a socket, and its answer once there is one."""

import asyncio
import json


class Exchange:
    """One request under way.

    Attributes:
        inbox: What the application has yet to receive; an exception is raised there.
        sent: What it has sent.
    """

    def __init__(self, *pieces, more=False):
        self.inbox = asyncio.Queue()
        self.sent = []
        for number, piece in enumerate(pieces, 1):
            self.give(piece, more=more or number < len(pieces))

    def give(self, piece, *, more=False):
        """Send a piece of the body."""
        self.inbox.put_nowait({"type": "http.request", "body": piece, "more_body": more})

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
    def started(self):
        return bool(self.sent)

    @property
    def answered(self):
        return len(self.sent) > 1 and not self.sent[-1].get("more_body", False)

    @property
    def status(self):
        assert self.sent[0]["type"] == "http.response.start"
        return self.sent[0]["status"]

    @property
    def headers(self):
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def body(self):
        return b"".join(
            message["body"] for message in self.sent[1:] if message["type"] == "http.response.body"
        )

    @property
    def json(self):
        assert "json" in self.headers["content-type"]
        return json.loads(self.body)
