"""One request and its answer, between an ASGI application and a connection.

A held request keeps its memory, so an exchange keeps little: no head, event, queue or task, only one future while the
application waits. It checks the application's messages, because a client would read an answer of the wrong length as
two.
"""

import asyncio
import os
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, Final, Protocol
from urllib.parse import unquote

from purgatory_async.service.contract.header_fields import Field
from purgatory_async.service.contract.problems import Problem, internal
from purgatory_async.service.http.head import Head, are_fields
from purgatory_async.service.visit import Visit
from purgatory_async.web.asgi import Message, Scope

MAX_UNREAD: Final = 65_536  # bytes of a body kept for the application before reading pauses
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
_ASGI: Final = {"version": "3.0", "spec_version": "2.4"}
_CODING: Final = b"transfer-encoding"  # the server frames answers, not the application
_FRAMING: Final = frozenset({b"connection", b"content-length", _CODING})
_CLOSE: Final = (b"connection", b"close")


class Wire(Protocol):
    """What an exchange needs of its connection."""

    def write(self, data: bytes) -> None:
        """Send bytes, unless the connection is closing."""

    async def writable(self) -> None:
        """Wait until the write buffer has room."""

    def pause_reading(self) -> None:
        """Stop reading from the socket."""

    def resume_reading(self) -> None:
        """Read from the socket again."""

    def date(self) -> list[Field]:
        """Return the fields of every answer."""
        ...

    def reusable(self) -> bool:
        """Whether another request can follow now."""
        ...

    def answered(self) -> None:
        """Continue after the answer."""

    def finished(self, task: asyncio.Task[None], error: BaseException | None, visit: Visit) -> None:
        """Log the application's error."""

    def cut(self) -> None:
        """Abort, so that the client does not take a partial answer as complete."""

    def refuse(self, problem: Problem) -> None:
        """Answer with a problem instead of the application."""


class Exchange:
    """One request and its answer.

    Attributes:
        keep_alive: Whether another request may follow on the connection.
        gone: Whether the client left or was refused.
        begun: Whether part of the answer was written.
        ended: Whether all of it was.
        head_only: Whether the request is a HEAD.
        visit: Names the request in the log.
    """

    __slots__ = (
        *("begun", "ended", "gone", "head_only", "keep_alive", "visit"),
        *(
            "_asked",
            "_bare",
            "_chunked",
            "_delivered",
            "_due",
            "_left",
            "_lost",
            "_old",
            "_opening",
            "_unread",
            "_waiter",
        ),
        "_wire",
    )

    def __init__(self, wire: Wire, head: Head, visit: Visit) -> None:
        self.visit = visit
        self.keep_alive = head.keep_alive
        self.gone = self.begun = self.ended = False
        self.head_only = head.method == "HEAD"
        self._wire = wire
        # The request.
        self._due = head.length != 0  # whether the body is incomplete
        self._asked = not head.expects_continue
        self._unread = b""
        self._delivered = False  # whether the application has the whole body
        self._waiter: asyncio.Future[None] | None = None
        self._lost: Callable[[], object] | None = None
        # The answer.
        self._old = head.version == "1.0"
        self._bare = False  # no body, whatever its fields say
        self._opening = b""  # sent with the first piece of the body, as ASGI requires
        self._chunked = False
        self._left: int | None = None  # bytes of the body; None without a Content-Length

    # For the connection.

    def take(self, content: bytes, *, more: bool) -> None:
        """Keep a piece of the body for the application; drop it after the answer."""
        self._due = more
        if not (self.ended or self.gone):
            self._unread += content
            if len(self._unread) > MAX_UNREAD:
                self._wire.pause_reading()
            self._wake()

    def lose(self) -> None:
        """Report the disconnect to the application."""
        self.gone = True
        self._wake()
        if self._lost is not None:
            self._lost()

    def finish(self, task: asyncio.Task[None]) -> None:
        """Answer or abort a request that its application left unanswered."""
        error = None if task.cancelled() else task.exception()
        unanswered = not (self.ended or self.gone)
        if unanswered and not task.cancelled() and error is None:
            error = RuntimeError("the application returned before its answer was complete")
        self._wire.finished(task, None if isinstance(error, ConnectionError) else error, self.visit)
        if unanswered and (task.cancelled() or self.begun):
            self._wire.cut()
        elif unanswered:
            self._wire.refuse(internal())

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # For the application.

    def watch(self, lost: Callable[[], object]) -> bool:
        """Call a function when the client leaves, which costs less than a task that awaits `receive`. O(1).

        Args:
            lost: Called at once if the client has left already. One function at a time is watched with.

        Returns:
            False while part of the body is unread: nothing is called then, because only `receive` reads on.
        """
        if self._due or self._unread:
            return False
        if not self._delivered:
            self._delivered = True
            self._wire.resume_reading()
        self._lost = lost
        if self.gone:
            lost()
        return True

    def unwatch(self) -> None:
        """Call the function of `watch` no more."""
        self._lost = None

    async def receive(self) -> Message:
        """Return the next piece of the body, then a disconnect once the client left or was answered.

        Raises:
            RuntimeError: Another task awaits it.
        """
        if not self._asked:
            self._asked = True
            if self._due and not self._unread:
                self._wire.write(CONTINUE)
        while not (self.gone or self.ended):
            if self._unread or not (self._due or self._delivered):
                content, self._unread = self._unread, b""
                self._delivered = not self._due
                self._wire.resume_reading()
                return {"type": "http.request", "body": content, "more_body": self._due}
            if self._waiter is not None and not self._waiter.done():
                raise RuntimeError("receive() is already awaited: await it in one task at a time")
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Send the start of the answer, or a piece of its body.

        Raises:
            ConnectionResetError: The client left or was refused.
            RuntimeError: The message is out of order, or the body does not match its Content-Length.
        """
        await self._wire.writable()
        if self.gone:
            raise ConnectionResetError("the client closed the connection, or was refused")
        expected = "http.response.body" if self._opening or self.begun else "http.response.start"
        if self.ended or message["type"] != expected:
            raise RuntimeError(f"expected {'nothing' if self.ended else expected}, got {message['type']!r}")
        if message["type"] == "http.response.start":
            self._open(message["status"], message.get("headers", ()))
        else:
            self._write(message.get("body", b""), more=message.get("more_body", False))

    def _open(self, status: int, given: Iterable[Any]) -> None:
        fields: list[Field] = [*self._wire.date()]
        self._bare = self.head_only or status in {204, 304}
        for given_name, value in given:
            name = given_name.lower()
            if name in _FRAMING and not self._frames(name, value):
                continue
            fields.append((name, value))
        if self._left is None and not self._bare:
            # HTTP/1.0 has no chunks: closing the connection ends the answer.
            self._chunked = not self._old
            if self._chunked:
                fields.append((_CODING, b"chunked"))
        # Without 100 Continue the client may send its body or not, so what follows is ambiguous.
        self.keep_alive = self.keep_alive and (self._asked or not self._due) and self._wire.reusable()
        if not self.keep_alive:
            fields.append(_CLOSE)
        self._opening = opening(status, fields)

    def _frames(self, name: bytes, value: bytes) -> bool:
        """Take what a field says about the framing; return whether to send it as given."""
        if name == b"content-length":
            self._left = int(value)
        elif name == b"connection" and b"close" in value.lower():
            self.keep_alive = False
            return False
        return name != _CODING

    def _write(self, body: bytes, *, more: bool) -> None:
        if self._bare:
            body = b""
        elif self._chunked:
            piece = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            body = piece if more else piece + b"0\r\n\r\n"
        elif self._left is not None:
            self._left -= len(body)
            if self._left < 0 or (self._left and not more):
                raise RuntimeError(f"the body is {-self._left} bytes longer than its Content-Length")
        self._wire.write(self._opening + body)
        self._opening, self.begun = b"", True
        if not more:
            self.ended = True
            self._wake()
            self._wire.answered()


def opening(status: int, fields: list[Field]) -> bytes:
    """Return the status line and fields of an answer.

    Raises:
        RuntimeError: A field is malformed.
    """
    block = b"".join([b"%b: %b\r\n" % field for field in fields])
    if not are_fields(block, len(fields)):
        raise RuntimeError(f"header fields must be valid names and values, got {block!r}")
    return b"%b%b\r\n" % (_STATUS_LINES[status], block)


def scope_of(head: Head, server: tuple[Any, ...] | str | bytes) -> Scope:
    """Return the ASGI scope of a request to a socket's own address, a Unix socket's path included.

    Leaves out ``client`` and ``root_path``, which nothing reads: either would double the size of the dictionary while
    the request is held.
    """
    return {
        "type": "http",
        "asgi": _ASGI,
        "http_version": head.version,
        "method": head.method,
        "scheme": "http",
        "path": unquote(head.path.decode()),
        "raw_path": head.path,
        "query_string": head.query,
        "headers": head.fields,
        "server": server[:2] if isinstance(server, tuple) else (os.fsdecode(server), None),
    }
