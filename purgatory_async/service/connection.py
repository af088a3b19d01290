"""One client's connection under uvicorn: what uvicorn does not bound is bounded here.

uvicorn makes a protocol for each connection and says goodbye to it; what lies between is that protocol's own. So
this is a protocol of its own and not a part of uvicorn's: it needs none of its insides, and can hold a request in
a third less memory. What it relies on, and what `tests/service/test_connection_uvicorn.py` holds uvicorn to:

- ``uvicorn.Config(http=...)`` takes a class, and makes it with ``config``, ``server_state``, ``app_state``, ``_loop``;
- ``server_state`` has the sets ``connections`` and ``tasks``, on which a shutdown waits, the counter
  ``total_requests``, and ``default_headers``, where it keeps the date;
- ``shutdown()`` asks a connection to close when it has answered.

A connection is in one of these states, each with its deadline, on the timer of the service:

========== ============================================ =============================================
state      what is awaited                              at the deadline
========== ============================================ =============================================
idle       another request                              closed; nothing was asked
head       the end of a head, from accept or first byte 408, closed; without a word if nothing came
body       the end of the body                          408, closed
answering  the application                              none: a held request has its own
crowded    the same, and much came behind the request   what came is thrown away
stalled    that the client reads                        cut
lingering  the client's end, behind the last answer     closed
closing    that what was written leaves                 cut, unless the client is reading
========== ============================================ =============================================

While a request is answered, what comes behind it is kept and not looked at, so no request runs before its turn.
What is kept is bounded. Of a client that sends more nothing is read for a moment, in which most requests are
answered; but behind bytes that are not read nobody can see that it left. So then they are read and thrown away, and
the connection closes behind the present answer, after which a client has to expect that nothing else was run
(RFC 9112, 9.3.2).
"""

import asyncio
from typing import Any, Final, cast

import msgspec
import uvicorn
from uvicorn.server import ServerState

from purgatory_async.service import problems
from purgatory_async.service.answer import PROBLEM_JSON, Answer
from purgatory_async.service.body import Body, ChunkedBody, SizedBody
from purgatory_async.service.exchange import Exchange, opening, scope_of
from purgatory_async.service.front import ServerContext
from purgatory_async.service.head import END, Field, Head, check_start, read_head
from purgatory_async.service.watch import Allowed, Watched

__all__ = ["Connection", "connection_class"]

MAX_BEHIND: Final = 65_536  # bytes kept behind a request that is being answered; and one read more
MAX_SPARED: Final = 65_536  # bytes of a body that nobody wants but that are read to keep the connection
MAX_IGNORED: Final = 1 << 22  # bytes read behind the last answer; then it is cut


class Connection(Watched, asyncio.Protocol):
    """One client's connection; made by uvicorn, from a class that `connection_class` has made.

    Args:
        config: uvicorn's.
        server_state: uvicorn's.
        app_state: uvicorn's, of the lifespan protocol, which is off.
        _loop: uvicorn's.
    """

    __slots__ = (
        *("_body", "_deaf", "_exchange", "_ignored", "_input", "_served"),
        *("_state", "_transport", "_unread", "_writable"),
    )

    _transport: asyncio.Transport

    def __init__(
        self,
        config: uvicorn.Config,  # noqa: ARG002 - what of it matters to us is in `front`
        server_state: ServerState,
        app_state: dict[str, Any],  # noqa: ARG002 - see config
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__()
        self._state = server_state
        self._served = False  # whether a request was answered, so that the next may take its time
        self._exchange: Exchange | None = None
        self._body: Body | None = None  # of the exchange, while it is still to come
        self._input: bytearray | None = None  # the beginning of a head, or what is behind the exchange
        self._deaf = False  # whether what comes is ignored
        self._ignored = 0
        self._writable: asyncio.Future[None] | None = None  # until the client reads
        self._unread = 0  # bytes that the client had to read when it was last looked at

    def __repr__(self) -> str:
        state = "closing" if self._transport.is_closing() else "ignoring" if self._deaf else "idle"
        return f"<Connection {'answering' if self._exchange is not None else state}>"

    # For uvicorn and its loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Expect a request."""
        self._transport = cast("asyncio.Transport", transport)
        self._state.connections.add(cast("Any", self))
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - however it went, it is gone
        """Let go of everything; whoever is answering learns that nobody listens."""
        self._state.connections.discard(cast("Any", self))
        self._deaf = True
        self._unwatch()
        if self._exchange is not None:
            self._exchange.lose()
        self._exchange = self._body = self._input = None
        self._let_write()

    def data_received(self, data: bytes) -> None:
        """Take what has come for what it is by now."""
        if self._deaf:
            self._ignore(data)
        elif self._body is not None:
            self._take_body(self._body, data)
        elif self._exchange is not None:
            self._keep(data)
        else:
            self._take_head(data)

    def pause_writing(self) -> None:
        """Let whoever sends wait until the client has read some of it; not for ever."""
        self._writable = asyncio.get_running_loop().create_future()
        self._unread = self._transport.get_write_buffer_size()
        self._watch()

    def resume_writing(self) -> None:
        """Let whoever sends go on."""
        self._let_write()
        self._watch()

    def shutdown(self) -> None:
        """Close behind the present answer, or at once if there is none; who lingers may go on for its moment."""
        if self._exchange is None or self._exchange.ended:
            if not self._deaf:
                self._close()
        else:
            self._exchange.keep_alive = False

    # For the exchange.

    def write(self, data: bytes) -> None:
        """Send bytes, unless the connection is closing."""
        if not self._transport.is_closing():
            self._transport.write(data)

    async def writable(self) -> None:
        """Wait until the client has read enough of what was sent before."""
        while self._writable is not None:
            await asyncio.shield(self._writable)

    def pause_reading(self) -> None:
        """Let the client wait."""
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take more, unless there is much already."""
        if not (self._crowded or self._transport.is_closing()):
            self._transport.resume_reading()

    def date(self) -> list[Field]:
        """Return the fields that every answer has: uvicorn keeps the date in them."""
        return self._state.default_headers

    def reusable(self) -> bool:
        """Whether another request can follow: no more of a body is on its way than is worth reading."""
        return self._body is None or (isinstance(self._body, SizedBody) and self._body.left <= MAX_SPARED)

    def answered(self) -> None:
        """Go on behind the answer."""
        self._state.total_requests += 1
        if not self._transport.is_closing():
            self.resume_reading()
            self._go_on()

    def finished(self, task: asyncio.Task[None], error: BaseException | None) -> None:
        """Log what went wrong."""
        self._state.tasks.discard(task)
        if error is not None:
            self.front.log.error("request failed", exc_info=error)

    def cut(self) -> None:
        """Close at once, so that the client does not take what it has for all of the answer."""
        self._transport.abort()

    def refuse(self, problem: problems.Problem) -> None:
        """Answer what cannot be read any further or was not answered, and end; no second answer is begun."""
        exchange = self._exchange
        if exchange is not None:
            exchange.lose()
        if exchange is None or not exchange.begun:
            answer = Answer(problem.kind.status, msgspec.json.encode(problem.document), PROBLEM_JSON)
            fields = [*self.date(), *answer.fields(), (b"connection", b"close")]
            bare = exchange is not None and exchange.head_only
            self.write(opening(answer.status, fields) + (b"" if bare else answer.body))
        self._deaf = True
        self._end()

    # What comes.

    def _take_head(self, data: bytes) -> None:
        """Add to the head, and start its request once it is complete."""
        window: bytes | bytearray = data
        looked = 0
        if self._input is not None:
            looked = len(self._input)
            self._input += data
            window = self._input
        end = window.find(END, max(0, looked - len(END) + 1)) + len(END)
        try:
            if end >= len(END):
                self._input = None
                self._start(read_head(bytes(window[:end])), bytes(window[end:]))
                return
            check_start(window, looked)
        except problems.Problem as problem:
            self.refuse(problem)
            return
        if self._input is None:
            self._input = bytearray(data)
            if self._served:  # the first head's time is running since accept
                self._watch()

    def _start(self, head: Head, rest: bytes) -> None:
        exchange = self._exchange = Exchange(self, head)
        self._served = True
        if head.length != 0:
            self._body = ChunkedBody() if head.length is None else SizedBody(head.length)
        self._watch()
        if rest:
            self.data_received(rest)
        if not exchange.gone:
            scope = scope_of(head, self._transport.get_extra_info("sockname"))
            answering: Any = self.front.app(scope, exchange.receive, exchange.send)
            task = asyncio.get_running_loop().create_task(answering)
            self._state.tasks.add(task)
            task.add_done_callback(exchange.finish)

    def _take_body(self, body: Body, data: bytes) -> None:
        exchange = self._exchange
        assert exchange is not None, f"{self!r} awaits a body for nobody"
        try:
            content, behind = body.take(data)
        except problems.Problem as problem:
            self.refuse(problem)
            return
        exchange.take(content, more=not body.ended)
        if body.ended:
            self._body = None
            if behind:
                self._keep(behind)
            if exchange.ended:
                self._go_on()
            else:
                self._watch()

    def _keep(self, data: bytes) -> None:
        """Keep what is behind the present request."""
        self._input = (self._input or bytearray()) + data
        if self._crowded:
            self.pause_reading()
            self._watch()

    @property
    def _crowded(self) -> bool:
        return self._input is not None and len(self._input) > MAX_BEHIND

    def _throw_away(self) -> None:
        """Read on and keep nothing of it, so that it shows when the client leaves."""
        self._input = None
        self._deaf = True
        if self._exchange is not None:
            self._exchange.keep_alive = False
        self.resume_reading()

    def _ignore(self, data: bytes) -> None:
        self._ignored += len(data)
        if self._ignored > MAX_IGNORED:
            self.cut()

    # Behind an answer.

    def _go_on(self) -> None:
        exchange = self._exchange
        if exchange is None or not exchange.keep_alive:
            self._end()
        elif self._body is None:
            if self._input is None:
                self._turn()
            else:
                # In a pass of the loop of its own, so that a thousand requests in one read stop nobody.
                asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """Take the next request, or wait for it."""
        if self._transport.is_closing():
            return
        if self._deaf:
            self._end()
            return
        self._exchange = None
        behind, self._input = self._input, None
        if behind is None:
            self._watch()
        else:
            self._take_head(bytes(behind))

    def _end(self) -> None:
        """Close; where the client is still sending, not before it had a moment to read the answer.

        To close a socket that has something to read sends a reset, which takes the answer with it (RFC 9112, 9.6).
        """
        sending = self._deaf or self._body is not None or self._input is not None
        self._exchange = self._body = self._input = None
        self._deaf = True
        if sending and not self._transport.is_closing():
            self._transport.write_eof()
            self._watch()
        else:
            self._close()

    def _close(self) -> None:
        self._deaf = True
        self._transport.close()
        self._unread = self._transport.get_write_buffer_size()
        self._watch()

    # Deadlines.

    def _allowed(self) -> Allowed:
        """Return how long the present state may last, and what ends it."""
        deadlines = self.front.deadlines
        if self._writable is not None or self._transport.is_closing():
            return deadlines.stall, Connection._stalled
        if self._exchange is None:
            if self._deaf:
                return deadlines.linger, Connection._close
            if self._served and self._input is None:
                return deadlines.idle, Connection._close
            return deadlines.head, Connection._late_head
        if self._body is not None:
            return deadlines.body, Connection._late_body
        return (deadlines.crowd, Connection._throw_away) if self._crowded else None

    def _late_head(self) -> None:
        if self._input is None or not self._input.strip(b"\r\n"):
            self._close()  # it asked for nothing that could be answered
        else:
            self.refuse(problems.too_slow("head", self.front.deadlines.head))

    def _late_body(self) -> None:
        self.refuse(problems.too_slow("body", self.front.deadlines.body))

    def _stalled(self) -> None:
        unread = self._transport.get_write_buffer_size()
        if unread < self._unread:  # slow, but reading
            self._unread = unread
            self._watch()
        else:
            self.cut()

    def _let_write(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None


def connection_class(front: ServerContext) -> type[Connection]:
    """Make the class of a server's connections, for ``uvicorn.Config(http=...)``.

    Args:
        front: What they share.

    Returns:
        The class.
    """
    return type("ServedConnection", (Connection,), {"__slots__": (), "front": front})
