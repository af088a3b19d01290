"""The answers on a connection: one to each request, whole or as a stream."""

from typing import Final

from purgatory_async.durable.documents.problems import Problem
from purgatory_async.service.contract.header_fields import NO_HEAD, Address
from purgatory_async.service.http.answer import CLOSE, Answer
from purgatory_async.service.http.body import Body, SizedBody
from purgatory_async.service.http.context import ServerContext
from purgatory_async.service.http.outlet import Outlet
from purgatory_async.service.http.wire import Asked

MAX_SPARED: Final = 65_536  # bytes of an unused body that are read to keep the connection
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_CHUNKED: Final = b"transfer-encoding: chunked\r\n"


class AnswerWriter(Outlet):
    """Writes the answer to the present request; see `Wire` for what its application calls.

    A stream has no length, so its connection ends with it.
    """

    __slots__ = ("_begun", "_body", "_chunked", "_expects", "_keep_alive", "_request", "address")

    def __init__(self, context: ServerContext) -> None:
        super().__init__(context)
        self.address: Address = None  # the server's end
        self._request: Asked | None = None  # None also once the client has left
        self._body: Body | None = None  # of the present request, until it is complete
        self._keep_alive = False  # whether another request may follow
        self._expects = False  # whether the client awaits 100 Continue
        self._begun = False  # whether part of the answer was written
        self._chunked = False

    @property
    def closing(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._transport.is_closing()

    def answer(self, answer: Answer, stamp: bytes, now: float) -> None:
        """Send an answer, and go on."""
        request = self._request
        if request is None:
            return
        if self._begun:
            self.cut()  # a stream that failed in its middle
            return
        if answer.close or (self._body is not None and not self._is_reusable(self._body)):
            self._keep_alive = False
        self._write(answer, stamp, now, request.method == "HEAD")
        self._answered(now)

    def await_body(self) -> None:
        """Let the client send a body that it holds back."""
        if self._expects:
            self._expects = False
            self.write(_CONTINUE)

    async def open(self, lines: bytes) -> None:
        """Begin an answer of unknown length."""
        await self.writable()
        request = self._require_request()
        self._keep_alive = False
        # HTTP/1.0 has no chunks: closing the connection ends the answer.
        self._chunked = request.profile.version != "1.0" and request.method != "HEAD"
        framed = lines + _CHUNKED if self._chunked else lines
        self.write(b"%b%b%b\r\n" % (self.context.answer_heads.of(200), framed, CLOSE))
        self._begun = True

    async def send(self, piece: bytes) -> None:
        """Send a piece of it."""
        await self.writable()
        self._require_request()
        self.write(b"%x\r\n%b\r\n" % (len(piece), piece) if self._chunked else piece)

    async def end(self) -> None:
        """End it."""
        await self.writable()
        self._require_request()
        if self._chunked:
            self.write(b"0\r\n\r\n")
        self._answered(self.context.now())

    def _write(self, answer: Answer, stamp: bytes, now: float, bare: bool) -> None:
        self._begun = True
        if not self._keep_alive:
            stamp += CLOSE
        self.write(self.context.answer_heads.sent(answer, stamp, now, b"" if bare else answer.body))

    def _write_refusal(self, problem: Problem) -> None:
        """Answer with a problem, unless an answer has begun; the request is given up."""
        request, context = self._request, self.context
        if request is not None and not request.ended:
            request.leave()
        if request is None or not self._begun:
            request = request or context.app.request(NO_HEAD, self)
            self._keep_alive = False
            self._write(*context.app.refuse(request, problem), context.now(), request.method == "HEAD")

    def _is_reusable(self, unread: Body) -> bool:
        """Whether another request can follow an unread body: what is left of it is short enough to read."""
        # Without 100 Continue the client may send its body or not, so what follows is ambiguous.
        return not self._expects and isinstance(unread, SizedBody) and unread.left <= MAX_SPARED

    def _answered(self, now: float) -> None:
        """Go on after the answer."""
        raise NotImplementedError

    def _require_request(self) -> Asked:
        if self._request is None or self._request.gone:
            raise ConnectionResetError("the client closed the connection, or was refused")
        return self._request
