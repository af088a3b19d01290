"""One request to the service and its answer: on the served path, or through the ASGI adapter.

The suite takes the served path; ``pytest --through asgi tests/service`` takes the other. Both kinds of exchange have
the same members, so a test need not know which it has. These tests always take the same one:

=================================== ========== =====================================================================
tests                               path       why
=================================== ========== =====================================================================
requests below a `root_path`        asgi       a mount point comes with an ASGI scope
http/test_asgi                      asgi       heads that a connection refuses itself
test_app, access/test_access_origin asgi       scopes without all members, the lifespan, servers and middleware
held/test_events_pace               asgi       the test is the server's buffer; http/test_unsent has a connection's
those that call ``link()``          connection bytes, pipelines, deadlines
=================================== ========== =====================================================================
"""

import asyncio
from collections import deque
from urllib.parse import unquote

from tests import exchange
from tests.service.wire import Readable, first_reply

FRAMING = {"content-length", "transfer-encoding"}
OWN = {"date", "transfer-encoding"}


class Connected(Readable):
    """A request on a connection of its own, whose client leaves with the answer.

    A whole body comes in one read with its head. Pieces are chunks, each in a read of its own, and a client that has
    its answer sends no more of them.

    Attributes:
        over: The task that sends it, done once the connection has ended.
    """

    def __init__(self, client, method, target, headers, body, *, more=False):
        self._link = client.server.link()
        self._bare = method == "HEAD"
        self._reads = deque()
        self._changed = asyncio.Event()
        self._link.pipe.told = self._changed.set
        framed = not FRAMING.isdisjoint(name for name, _ in headers)
        self._chunked = isinstance(body, list) and not framed
        whole, pieces = (b"", body) if isinstance(body, list) else (body or b"", [])
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
        if self._chunked:
            lines.append("transfer-encoding: chunked")
        elif whole and not framed:
            lines.append(f"content-length: {len(whole)}")
        self._give("\r\n".join([*lines, "", ""]).encode("latin-1") + whole)
        for number, piece in enumerate(pieces, 1):
            self.give(piece, more=more or number < len(pieces))
        self.over = asyncio.get_running_loop().create_task(self._converse())

    def give(self, piece, *, more=False):
        """Send a piece of the body."""
        if self._chunked:
            piece = b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""
            piece += b"" if more else b"0\r\n\r\n"
        self._give(piece)

    def hang_up(self):
        """Leave, after all that was sent."""
        self._give(None)

    def cancel(self):
        """Do as the server does to a request that it gives up."""
        self._link.protocol.cut()

    def _give(self, data):
        self._reads.append(data)
        self._changed.set()

    async def _converse(self):
        link = self._link
        try:
            while not link.pipe.closing:
                if self.answered or (self._reads and self._reads[0] is None):
                    link.leave()
                elif self._reads:
                    link.protocol.data_received(self._reads.popleft())
                    await asyncio.sleep(0)
                else:
                    await self._change()
            while not link.pipe.lost:
                await self._change()
        finally:
            link.pipe.lose()

    async def _change(self):
        self._changed.clear()
        await self._changed.wait()

    @property
    def unread(self):
        """How many pieces it had not sent when it was answered."""
        return len(self._reads)

    @property
    def _reply(self):
        return first_reply(self._link.pipe.written, bare=self._bare, ended=self._link.pipe.closing)[0]

    @property
    def started(self):
        return bool(self._link.pipe.written)

    @property
    def answered(self):
        return self.started and self._reply.whole

    @property
    def cut(self):
        """Whether the server has cut the connection, so that half an answer is not taken for a whole one."""
        return self._link.pipe.cut and not self.answered

    @property
    def status(self):
        return self._reply.status

    @property
    def headers(self):
        """The fields of the answer, but for those that only a connection sends."""
        return {name: value for name, value in self._reply.headers.items() if name not in OWN}

    @property
    def body(self):
        return self._reply.body if self.started else b""


class Mounted(Readable, exchange.Exchange):
    """A request by ASGI, under way from the start.

    Attributes:
        over: The task that serves it.
    """

    def __init__(self, client, method, target, headers, body, *, more=False, root_path=""):
        super().__init__(*(body if isinstance(body, list) else [body or b""]), more=more)
        path, _, query = target.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": unquote(root_path + path),
            "raw_path": (root_path + path).encode(),
            "root_path": root_path,
            "query_string": query.encode("latin-1"),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
        }
        self.over = asyncio.get_running_loop().create_task(client.app(scope, self.receive, self.send))

    def cancel(self):
        """Do as the server does to a request that it gives up."""
        self.over.cancel()

    @property
    def unread(self):
        """How many messages of the body were not asked for."""
        return self.inbox.qsize()

    @property
    def cut(self):
        """Whether the server is to cut the connection."""
        return isinstance(self.over.exception(), ConnectionError)
