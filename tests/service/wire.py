"""Connections without sockets: bytes go in, bytes come out, and time is the service's."""

import asyncio
import json
from dataclasses import dataclass

from purgatory_async.service.http.answer import Answer, refusal
from purgatory_async.service.http.connection import Connection
from purgatory_async.service.http.context import Deadlines, ServerContext
from purgatory_async.service.http.wire import Asked
from purgatory_async.testing import settle

HEAD_TIME = 10.0
BODY_TIME = 30.0
PATIENCE = 45.0  # seconds of real time, where there is any; less than the 50 s of a held request
DATE = "Thu, 01 Jan 2026 12:00:00 GMT"


async def until(holds):
    """Wait until something holds."""
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 - it is the other end's state, which says nothing when it changes
            await asyncio.sleep(0.01)


class Pipe(asyncio.Transport):
    """A transport whose other end is the test; what is written leaves at once unless the client does not read."""

    high = 65_536  # unread bytes above which a client that takes nothing pauses writing

    def __init__(self, protocol):
        super().__init__({"sockname": ("127.0.0.1", 8765)})
        self.protocol = protocol
        self.written = bytearray()
        self.unread = 0  # bytes that cannot leave
        self.taken = True  # whether what is written leaves
        self.reading = True
        self.half_closed = self.closing = self.cut = self.lost = False
        self.told = lambda: None  # called when something was written, and at the end

    def write(self, data):
        assert (self.closing, self.half_closed) == (False, False), f"wrote {data!r} behind the end"
        self.written += data
        if not self.taken:
            paused = self.unread > self.high
            self.unread += len(data)
            if self.unread > self.high and not paused:
                self.protocol.pause_writing()
        self.told()

    def write_eof(self):
        assert not self.closing
        self.half_closed = True

    def get_write_buffer_size(self):
        return self.unread

    def is_closing(self):
        return self.closing

    def pause_reading(self):
        assert not self.closing
        self.reading = False

    def resume_reading(self):
        assert not self.closing
        self.reading = True

    def close(self):
        if not self.closing:
            self.closing = True
            if not self.unread:
                asyncio.get_running_loop().call_soon(self.lose)

    def abort(self):
        self.cut = self.closing = True
        asyncio.get_running_loop().call_soon(self.lose)

    def lose(self, error=None):
        self.closing = True
        if not self.lost:
            self.lost = True
            protocol, self.protocol = self.protocol, None  # as a real one, or each would keep the other
            protocol.connection_lost(error)
            self.told()
            self.told = None


class Readable:
    """What tests read of an answer's body."""

    @property
    def json(self):
        assert "json" in self.headers["content-type"]
        return json.loads(self.body)

    @property
    def slug(self):
        """The slug of a problem; fails unless the answer is a whole problem document."""
        assert self.headers["content-type"] == "application/problem+json"
        assert self.json["status"] == self.status
        assert {"title", "detail"} <= self.json.keys()
        return self.json["type"].removeprefix("urn:purgatory:problem:")


@dataclass
class Reply(Readable):
    """One answer, as a client that reads to the letter finds it; ``whole`` says that all of its body is there."""

    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool


def replies(data, *, bare=False):
    """Split what a server sent into whole answers; anything left over is a fault."""
    found = []
    while data:
        reply, data = first_reply(data, bare=bare)
        assert reply.whole
        found.append(reply)
    return found


def first_reply(data, *, bare=False, ended=True):
    """The first answer in what a server sent, and what follows it; ``ended`` says that nothing more will come."""
    head, end, data = bytes(data).partition(b"\r\n\r\n")
    assert end, f"half a head: {head!r}"
    first, *lines = head.decode("latin-1").split("\r\n")
    version, status, _ = first.split(" ", 2)
    assert version == "HTTP/1.1"
    headers = dict(line.split(": ", 1) for line in lines)
    assert len(headers) == len(lines), f"a field is sent twice: {lines}"
    whole = True
    if status == "100":
        body = b""
    elif headers.get("transfer-encoding") == "chunked":
        body, data, whole = unchunked(data)
    elif "content-length" in headers:
        size = 0 if bare else int(headers["content-length"])
        body, data = data[:size], data[size:]
        whole = len(body) == size
    elif bare or status in {"204", "304"}:
        body = b""
    else:
        body, data, whole = data, b"", ended
    return Reply(int(status), headers, body, whole), data


def unchunked(data):
    """The content of the chunks, what follows them, and whether the last one is there."""
    body = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        piece, data = data[: int(size, 16)], data[int(size, 16) :]
        assert data.startswith(b"\r\n")
        body, data = body + piece, data[2:]
        if not piece:
            return body, data, True
    return body, data, False


class SocketlessConnection:
    """A client's end of one connection."""

    def __init__(self, context):
        self.protocol = Connection(context)
        self.pipe = Pipe(self.protocol)
        self.protocol.connection_made(self.pipe)

    async def send(self, *pieces):
        """Send pieces one by one, as far as the server reads."""
        for piece in pieces:
            assert self.pipe.reading, "the server does not read"
            if not self.pipe.closing:
                self.protocol.data_received(piece)
                await settle()

    def leave(self):
        """Close our end, as the server's transport sees it: `eof_received` that is not kept open."""
        assert not self.protocol.eof_received()
        self.pipe.close()

    async def hang_up(self):
        """Close our end, and let the server see it."""
        self.leave()
        await settle()

    async def stop_reading(self, unread=100_000):
        self.pipe.unread = unread
        self.protocol.pause_writing()

    async def read_all(self):
        self.pipe.unread = 0
        self.protocol.resume_writing()
        await settle()

    async def answered(self, number):
        """Let the loop turn until so many answers have come: requests in one read have a pass each."""
        for _ in range(2 * number):
            if self.pipe.written.count(b"HTTP/1.1 ") == number:
                return
            await asyncio.sleep(0)

    @property
    def replies(self):
        return replies(self.pipe.written)

    @property
    def reply(self):
        """The only answer so far."""
        (reply,) = self.replies
        return reply

    def reply_headers(self, name):
        """The values of a field in all answers that have it."""
        return [reply.headers[name] for reply in self.replies if name in reply.headers]

    @property
    def open(self):
        """Whether the next request would be read."""
        return not (self.pipe.closing or self.pipe.half_closed)

    @property
    def refused(self):
        """The slug of the only answer, behind which the connection ends."""
        assert not self.open
        assert self.reply.headers["connection"] == "close"
        return self.reply.slug


class SocketlessServer:
    """A service, or any application, and connections to it."""

    def __init__(self, client, app=None, **deadlines):
        self.client = client
        self.service = client.service
        self.faults = []  # of the application, as they would be logged
        self.warnings = []
        limits = Deadlines(**{"head": HEAD_TIME, "body": BODY_TIME, **deadlines})
        service = client.service
        self.app = app or client.app
        self.context = ServerContext(
            self.app, service.timer, limits, self, service.held.unsent, date=lambda: DATE
        )

    def error(self, event, exc_info, **_):
        self.faults.append(exc_info)

    def warning(self, message, **figures):
        self.warnings.append((message, figures))

    def link(self):
        return SocketlessConnection(self.context)

    async def after(self, seconds):
        await self.client.advance(seconds)

    @property
    def signals(self):
        """How many signals the service was given: what only a request that was run can change."""
        return self.service.fold.shared.totals.signals

    @property
    def idle(self):
        """Whether nothing is left of any request or connection, and nothing went wrong."""
        return not (
            self.faults or self.context.connections or self.app.tasks or self.service.held.requests.count
        )


def request(target="/healthz", method="GET", body=None, **fields):
    """A request that is as it should be."""
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


SIGNAL = request("/v1/keys/a/signal", "POST", b"{}")
HELD = request("/v1/wait?key=a&wait=50s")


class Scripted:
    """An application that does what the test says, in place of the service."""

    def __init__(self, act=None):
        self.requests = []
        self.tasks = set()
        self.act = act  # called with each request, as it comes

    def request(self, head, wire, root=""):
        return Asked(self, wire, head)

    def now(self):
        return 0.0

    def serve(self, request):
        self.requests.append(request)
        if self.act is not None:
            self.act(request)

    def answer(self, answer=None):
        """Answer the newest request."""
        request = self.requests[-1]
        if not (request.ended or request.gone):
            request.ended = True
            request.wire.answer(answer or Answer(200, b"ok"), b"", self.now())

    def run(self, coroutine):
        """Stream an answer to the newest request, in a task."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def refuse(self, request, problem):
        self.drop(request)
        return refusal(problem), self.stamp(request)

    def drop(self, request):
        request.ended = True

    def stamp(self, request):
        return b""
