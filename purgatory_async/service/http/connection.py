"""An HTTP/1.1 connection under uvicorn that bounds what uvicorn does not.

uvicorn only creates and shuts down a connection's protocol. This one replaces uvicorn's, so it uses no internals and
holds a request in a third less memory. `tests/service/http/test_connection_uvicorn.py` checks what it relies on:

- ``uvicorn.Config(http=...)`` takes a class and calls it with ``config``, ``server_state``, ``app_state``, ``_loop``;
- ``server_state`` has the sets ``connections`` and ``tasks``, which a shutdown awaits, the counter
  ``total_requests``, and ``default_headers`` with the date;
- ``shutdown()`` asks a connection to close after its answer.

`phase` has the states and what moves a connection between them. Each has a deadline on the service's timer:

========== ============================================ =============================================
phase      waits for                                    at the deadline
========== ============================================ =============================================
head       the end of a head, from accept or first byte 408 and close; only close if nothing came
body       the end of the body                          408 and close
answering  the application                              none: a held request has its own
crowded    the same, with too many bytes pipelined      discard the pipelined bytes
discarding the application                              none
idle       another request                              close
lingering  the client to close, after the last answer   close
closing    written bytes to leave                       abort, unless the client is reading
========== ============================================ =============================================

In every phase a client that does not read what was written has the same deadline as in closing.

Bytes that follow a request are kept unparsed until its answer, so no request runs before its turn. Above a limit the
connection pauses reading, until the answer or a short deadline: while reading is paused, a disconnect goes unseen.
After the deadline it discards the bytes and closes after the present answer; a client must then assume that nothing
else ran (RFC 9112, 9.3.2).
"""

import asyncio
from contextvars import copy_context
from typing import Any, Final, cast

import msgspec
import uvicorn
from uvicorn.server import ServerState

from purgatory_async.service.contract import problems
from purgatory_async.service.contract.header_fields import Field
from purgatory_async.service.http.answer import PROBLEM_JSON, Answer
from purgatory_async.service.http.body import Body, ChunkedBody, SizedBody
from purgatory_async.service.http.context import Allowed, ServerContext
from purgatory_async.service.http.exchange import Exchange, opening, scope_of
from purgatory_async.service.http.head import END, Head, check_start, read_head
from purgatory_async.service.http.outlet import Outlet
from purgatory_async.service.http.phase import TRANSITIONS, Phase
from purgatory_async.service.visit import VISIT, Visit

MAX_BEHIND: Final = 65_536  # pipelined bytes kept, plus one read
MAX_SPARED: Final = 65_536  # bytes of an unused body that are read to keep the connection
MAX_IGNORED: Final = 1 << 22  # bytes discarded after the last answer, before an abort
_DEAF: Final = frozenset({Phase.DISCARDING, Phase.LINGERING, Phase.CLOSING, Phase.CLOSED})


class Connection(Outlet, asyncio.Protocol):
    """A client's connection; uvicorn makes it from the class that `connection_class` returns."""

    __slots__ = ("_body", "_exchange", "_ignored", "_input", "_last", "_phase", "_state")

    def __init__(
        self,
        config: uvicorn.Config,  # noqa: ARG002 - `context` has all that it needs
        server_state: ServerState,
        app_state: dict[str, Any],  # noqa: ARG002 - see config
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__()
        self._state = server_state
        self._phase = Phase.HEAD
        self._last = False  # whether the server stops, so that one more request is answered at most
        self._exchange: Exchange | None = None
        self._body: Body | None = None  # of the exchange, until it is complete
        self._input: bytearray | None = None  # an incomplete head, or bytes that follow the exchange
        self._ignored = 0

    def __repr__(self) -> str:
        return f"<Connection {self._phase}>"

    def _move(self, event: str) -> None:
        try:
            self._phase = TRANSITIONS[self._phase][event]
        except KeyError:
            allowed = ", ".join(TRANSITIONS[self._phase]) or "nothing"
            raise RuntimeError(f"a connection that is {self._phase} takes {allowed}, got {event}") from None

    # For uvicorn and its loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Expect a request."""
        self._transport = cast("asyncio.Transport", transport)
        self._state.connections.add(cast("Any", self))
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the reason does not matter
        """Release everything and report the disconnect to the application."""
        self._state.connections.discard(cast("Any", self))
        self.context.unsent.forget(self)
        self._move("lose")
        self._unwatch()
        if self._exchange is not None:
            self._exchange.lose()
        self._exchange = self._body = self._input = None
        self._lose()

    def data_received(self, data: bytes) -> None:
        """Handle received bytes by the present phase."""
        if self._phase in _DEAF:
            self._ignore(data)
        elif self._body is not None:
            self._take_body(self._body, data)
        elif self._exchange is not None:
            self._keep(data)
        else:
            self._take_head(data)

    def shutdown(self) -> None:
        """Close after the present answer; without one, after that to a request that may be on its way.

        A lingering connection keeps its deadline.
        """
        self._last = True
        if self._exchange is None or self._exchange.ended:
            if self._phase is Phase.BODY:
                self._close()
            elif self._phase not in _DEAF:
                self._watch()
        else:
            self._exchange.keep_alive = False

    def resume_writing(self) -> None:
        """Send on; then a request that came meanwhile has its turn."""
        super().resume_writing()
        if self._exchange is not None and self._exchange.ended and not self.blocked:
            self._go_on()

    # For the exchange.

    def pause_reading(self) -> None:
        """Stop reading from the socket."""
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again, unless too many bytes wait."""
        if not (self._phase is Phase.CROWDED or self._transport.is_closing()):
            self._transport.resume_reading()

    def date(self) -> list[Field]:
        """Return the fields of every answer: uvicorn keeps the date in them."""
        return self._state.default_headers

    def reusable(self) -> bool:
        """Whether another request can follow: the unread body is short enough to read."""
        return self._body is None or (isinstance(self._body, SizedBody) and self._body.left <= MAX_SPARED)

    def answered(self) -> None:
        """Continue after the answer."""
        self._state.total_requests += 1
        if not self._transport.is_closing():
            self.resume_reading()
            self._go_on()

    def finished(self, task: asyncio.Task[None], error: BaseException | None, visit: Visit) -> None:
        """Log the application's error."""
        self._state.tasks.discard(task)
        visit.task = None  # or the task would keep itself by its context
        if error is not None:
            self.context.log.error("request failed", request_id=visit.request_id, exc_info=error)

    def refuse(self, problem: problems.Problem) -> None:
        """Answer with a problem and close; never begins a second answer."""
        exchange = self._exchange
        if exchange is not None:
            exchange.lose()
        if exchange is None or not exchange.begun:
            traffic = self.context.traffic
            visit = traffic.begin(None) if exchange is None else exchange.visit
            answer = Answer(problem.kind.status, msgspec.json.encode(problem.document), PROBLEM_JSON)
            fields = [*self.date(), *answer.fields(), visit.field, (b"connection", b"close")]
            body = b"" if exchange is not None and exchange.head_only else answer.body
            self.write(opening(answer.status, fields) + body)
            traffic.refuse(problem.kind)
            traffic.end(visit, answer.status, len(body))
        self._end(sending=True)

    # Input.

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
                self._start(read_head(bytes(window[:end]), self.context.probed), bytes(window[end:]))
                return
            check_start(window, looked)
        except problems.Problem as problem:
            self.refuse(problem)
            return
        if self._input is None:
            self._input = bytearray(data)
            if self._phase is Phase.IDLE:  # the deadline of the first head runs since accept
                self._move("begin")
                self._watch()

    def _start(self, head: Head, rest: bytes) -> None:
        scope = scope_of(head, self._transport.get_extra_info("sockname"))
        visit = self.context.traffic.begin(scope)
        exchange = self._exchange = Exchange(self, head, visit)
        exchange.keep_alive = exchange.keep_alive and not self._last
        self._move("request" if head.length == 0 else "upload")
        if head.length != 0:
            self._body = ChunkedBody() if head.length is None else SizedBody(head.length)
        self._watch()
        if rest:
            self.data_received(rest)
        if not exchange.gone:
            answering: Any = self.context.app(scope, exchange.receive, exchange.send)
            named = copy_context()
            named.run(VISIT.set, visit)
            task = asyncio.get_running_loop().create_task(answering, context=named)
            visit.task = task
            self._state.tasks.add(task)
            task.add_done_callback(exchange.finish)

    def _take_body(self, body: Body, data: bytes) -> None:
        exchange = self._exchange
        assert exchange is not None, f"{self!r} awaits a body without an exchange"
        try:
            content, behind = body.take(data)
        except problems.Problem as problem:
            self.refuse(problem)
            return
        exchange.take(content, more=not body.ended)
        if body.ended:
            self._body = None
            self._move("body")
            if behind:
                self._keep(behind)
            if exchange.ended:
                self._go_on()
            else:
                self._watch()

    def _keep(self, data: bytes) -> None:
        """Keep bytes that follow the present request."""
        self._input = (self._input or bytearray()) + data
        if len(self._input) > MAX_BEHIND and self._phase is Phase.ANSWERING:
            self._move("crowd")
            self.pause_reading()
            self._watch()

    def _throw_away(self) -> None:
        """Read and discard input, to see the client disconnect."""
        self._input = None
        self._move("discard")
        if self._exchange is not None:
            self._exchange.keep_alive = False
        self.resume_reading()

    def _ignore(self, data: bytes) -> None:
        self._ignored += len(data)
        if self._ignored > MAX_IGNORED:
            self.cut()

    # After an answer.

    def _go_on(self) -> None:
        exchange = self._exchange
        if exchange is None or not exchange.keep_alive:
            self._end(sending=self._phase is not Phase.ANSWERING or self._input is not None)
        elif self._phase is not Phase.BODY and not self.blocked:  # or memory would hold a second answer
            if self._input is None:
                self._turn()
            else:
                # One request per loop pass, so a thousand in one read do not block the loop.
                asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """Start the next request, or wait for it."""
        if self._transport.is_closing():
            return
        if self._phase is Phase.DISCARDING:
            self._end(sending=True)
            return
        self._exchange = None
        self._move("turn")
        behind, self._input = self._input, None
        if behind is None:
            self._watch()
        else:
            self._take_head(bytes(behind))

    def _end(self, *, sending: bool) -> None:
        """Close; if the client may be sending, linger so that it can read the answer.

        Closing a socket with unread input sends a reset, which can destroy the answer (RFC 9112, 9.6).
        """
        self._exchange = self._body = self._input = None
        if sending and not self._transport.is_closing():
            self._move("linger")
            self.finish(self._transport.write_eof)
            self._watch()
        else:
            self._close()

    def _close(self) -> None:
        self._move("close")
        self.finish(self._transport.close)
        self._expect_reading()

    # Deadlines.

    def _allowed(self) -> Allowed:
        """Return the deadline of the present phase, and what runs then."""
        deadlines, allowed = self.context.deadlines, self._stall_allowed()
        if allowed is not None:
            return allowed
        match self._phase:
            case Phase.HEAD:
                allowed = self._head_time, Connection._late_head
            case Phase.BODY:
                allowed = deadlines.body, Connection._late_body
            case Phase.CROWDED:
                allowed = deadlines.crowd, Connection._throw_away
            case Phase.IDLE:
                allowed = deadlines.last if self._last else deadlines.idle, Connection._close
            case Phase.LINGERING:
                allowed = deadlines.linger, Connection._close
            case Phase.ANSWERING | Phase.DISCARDING | Phase.CLOSING | Phase.CLOSED:
                pass  # their answers have deadlines of their own, or there is nothing to wait for
        return allowed

    @property
    def _head_time(self) -> float:
        return self.context.deadlines.last if self._last else self.context.deadlines.head

    def _late_head(self) -> None:
        if self._input is None or not self._input.strip(b"\r\n"):
            self._close()  # no request to answer
        else:
            self.refuse(problems.too_slow("head", self._head_time))

    def _late_body(self) -> None:
        self.refuse(problems.too_slow("body", self.context.deadlines.body))


def connection_class(context: ServerContext) -> type[Connection]:
    """Return the class of a server's connections, for ``uvicorn.Config(http=...)``."""
    return type("ServedConnection", (Connection,), {"__slots__": (), "context": context})
