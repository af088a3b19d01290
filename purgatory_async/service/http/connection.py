"""An HTTP/1.1 connection, which turns bytes into requests and writes their answers.

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

A request is answered within the call that brings its last byte, unless it has to wait. Bytes that follow it are kept
unparsed until its answer, so no request runs before its turn. Above a limit the connection pauses reading, until the
answer or a short deadline: while reading is paused, a disconnect goes unseen. After the deadline it discards the bytes
and closes after the present answer; a client must then assume that nothing else ran (RFC 9112, 9.3.2).
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Final, cast

from purgatory_async.durable.documents import problems
from purgatory_async.service.contract import http_problems
from purgatory_async.service.contract.header_fields import Profile
from purgatory_async.service.http.answer_writer import AnswerWriter
from purgatory_async.service.http.body import Body, ChunkedBody, SizedBody
from purgatory_async.service.http.context import Allowed, ServerContext
from purgatory_async.service.http.phase import Phase

MAX_BEHIND: Final = 65_536  # pipelined bytes kept, plus one read
MAX_IGNORED: Final = 1 << 22  # bytes discarded after the last answer, before an abort


class Connection(AnswerWriter, asyncio.Protocol):
    """A client's connection.

    Args:
        context: What all connections of its server share.
    """

    __slots__ = ("_ignored", "_input", "_last", "_phase", "_stopped")

    def __init__(self, context: ServerContext) -> None:
        super().__init__(context)
        self._phase = Phase.HEAD
        self._last = False  # whether the server stops, so that one more request is answered at most
        self._input: bytearray | None = None  # an incomplete head, or bytes that follow the request
        self._ignored = 0
        self._stopped = False  # whether reading is paused

    def __repr__(self) -> str:
        return f"<Connection {self._phase}>"

    def _move(self, event: str) -> None:
        self._phase = self._phase.after(event)

    # For the loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Expect a request."""
        self._transport = cast("asyncio.Transport", transport)
        own = transport.get_extra_info("sockname")
        self.address = own[:2] if isinstance(own, tuple) else (os.fsdecode(own), None)
        self.context.connections.add(self)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the reason does not matter
        """Release everything, and let the request go."""
        self.context.connections.discard(self)
        self.context.unsent.forget(self)
        self._move("lose")
        self._unwatch()
        request, self._request = self._request, None
        self._body = self._input = None
        self._lose()
        if request is not None:
            request.leave()

    def data_received(self, data: bytes) -> None:
        """Handle received bytes by the present phase."""
        if self._phase.ready:
            self._take_head(data)
        elif self._phase.deaf:
            self._ignore(data)
        elif self._body is not None:
            self._take_body(self._body, data)
        else:
            self._keep(data)

    def shutdown(self) -> None:
        """Close after the present answer; without one, after that to a request that may be on its way.

        A lingering connection keeps its deadline.
        """
        self._last = True
        if self._request is None or self._request.ended:
            if self._phase is Phase.BODY:
                self._close()
            elif not self._phase.deaf:
                self._watch()
        else:
            self._keep_alive = False

    def resume_writing(self) -> None:
        """Send on; then a request that came meanwhile has its turn."""
        super().resume_writing()
        if self._request is not None and self._request.ended and not self.blocked:
            self._go_on()

    # The answers.

    def refuse(self, problem: problems.Problem) -> None:
        """Answer with a problem and close; never begins a second answer."""
        self._write_refusal(problem)
        self._end(sending=True)

    def _answered(self, now: float) -> None:
        usual = self._keep_alive and self._input is None and self._pieces is None and not self._paused
        if usual and self._phase is _ANSWERING:
            self._request = None
            self._phase = _ANSWERING.moves["turn"]
            self._until = now + self.context.deadlines.idle
            if self._until < self._due:
                self._watch(now)
        elif not self._transport.is_closing():
            self._resume_reading()
            self._go_on()

    # Input.

    def _take_head(self, data: bytes) -> None:
        """Add to the head, and start its request once it is complete."""
        context = self.context
        try:
            taken = context.heads.take(self._input, data)
        except problems.Problem as problem:
            self.refuse(problem)
            return
        if taken is None:
            self._await_head(data)
            return
        head, rest = taken
        self._input = None
        profile = head.profile
        request = self._request = context.app.request(head, self)
        self._keep_alive = profile.keep_alive and not self._last
        self._begun = self._expects = False
        if profile.length == len(rest):  # nearly always all of it has come, and nothing behind it
            self._phase = self._phase.moves["request"]
            if rest:
                request.feed(rest, whole=True)
        else:
            self._begin_body(profile, rest)
            if request.gone:
                return
        context.app.serve(request)

    def _await_head(self, data: bytes) -> None:
        if self._input is None:
            self._input = bytearray(data)
            if self._phase is Phase.IDLE:  # the deadline of the first head runs since accept
                self._move("begin")
                self._watch()

    def _begin_body(self, profile: Profile, rest: bytes) -> None:
        """Take what came behind a head: all of the body and more, or less."""
        if profile.length == 0:
            self._move("request")
        else:
            self._expects = profile.expects_continue
            self._body = ChunkedBody() if profile.length is None else SizedBody(profile.length)
            self._move("upload")
            self._watch()
        if rest:
            self.data_received(rest)

    def _take_body(self, body: Body, data: bytes) -> None:
        request = self._request
        assert request is not None, f"{self!r} awaits a body without a request"
        try:
            content, behind = body.take(data)
        except problems.Problem as problem:
            self.refuse(problem)
            return
        if content:
            self._expects = False
        if body.ended:
            self._body = None
            self._move("body")
            if behind:
                self._keep(behind)
            if request.ended:
                self._go_on()
                return
        request.feed(content, whole=body.ended)

    def _keep(self, data: bytes) -> None:
        """Keep bytes that follow the present request."""
        self._input = (self._input or bytearray()) + data
        if len(self._input) > MAX_BEHIND and self._phase is Phase.ANSWERING:
            self._move("crowd")
            self._stopped = True
            self._transport.pause_reading()
            self._watch()

    def _resume_reading(self) -> None:
        if self._stopped and not self._transport.is_closing():
            self._stopped = False
            self._transport.resume_reading()

    def _throw_away(self) -> None:
        """Read and discard input, to see the client disconnect."""
        self._input = None
        self._move("discard")
        self._keep_alive = False
        self._resume_reading()

    def _ignore(self, data: bytes) -> None:
        self._ignored += len(data)
        if self._ignored > MAX_IGNORED:
            self.cut()

    def _go_on(self) -> None:
        if not self._keep_alive:
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
        self._request = None
        self._move("turn")
        behind, self._input = self._input, None
        if behind is not None:
            self._take_head(bytes(behind))
        else:
            self._watch()

    def _end(self, *, sending: bool) -> None:
        """Close; if the client may be sending, linger so that it can read the answer.

        Closing a socket with unread input sends a reset, which can destroy the answer (RFC 9112, 9.6).
        """
        self._request = self._body = self._input = None
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
        allowed = self._stall_allowed()
        if allowed is not None:
            return allowed
        seconds = self.context.deadlines.of(self._phase, last=self._last)
        return None if seconds is None else (seconds, _LATE[self._phase])

    def _late(self) -> None:
        """Refuse a request that is not there in time; only close if nothing of it came."""
        heads = self._phase is Phase.HEAD
        if heads and (self._input is None or not self._input.strip(b"\r\n")):
            self._close()
        else:
            seconds = self.context.deadlines.of(self._phase, last=self._last)
            self.refuse(http_problems.too_slow("head" if heads else "body", seconds or 0.0))


_ANSWERING: Final = Phase.ANSWERING
_LATE: Final[Mapping[Phase, Callable[[Connection], None]]] = {
    Phase.HEAD: Connection._late,
    Phase.BODY: Connection._late,
    Phase.CROWDED: Connection._throw_away,
    Phase.IDLE: Connection._close,
    Phase.LINGERING: Connection._close,
}
"""What runs at the deadline of a phase."""
