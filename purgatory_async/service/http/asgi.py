"""The application under another server, by ASGI 3: a scope becomes a request, and an answer two messages."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import quote

from purgatory_async.service.contract.header_fields import Address, Field, Fields, Head, Profile
from purgatory_async.service.http.answer import ALWAYS, Answer, fields_in
from purgatory_async.service.http.wire import Asked, Mounted
from purgatory_async.web.asgi import Message, Receive, Scope, Send

_CLOSE: Final = (b"connection", b"close")


class Adapter:
    """An application of ASGI.

    Args:
        app: Answers the requests.
        keep: Runs from the lifespan's startup on.
        close: Ends it at the shutdown.
    """

    def __init__(
        self, app: Mounted, keep: Callable[[], Awaitable[None]], close: Callable[[], Awaitable[None]]
    ) -> None:
        self._app: Final = app
        self._keep: Final = keep
        self._close: Final = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an ASGI scope: ``http`` or ``lifespan``; refuse ``websocket``."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        else:
            server = scope.get("server")
            await _Wire(receive, send, server and tuple(server)).carry(self._app, scope)

    async def _live(self, receive: Receive, send: Send) -> None:
        running: asyncio.Future[None] | None = None
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                running = asyncio.ensure_future(self._keep())
                await send({"type": "lifespan.startup.complete"})
            else:
                await self._close()
                if running is not None:
                    await running
                await send({"type": "lifespan.shutdown.complete"})
                return


class _Wire:
    """One request and its answer; see `Wire`."""

    def __init__(self, receive: Receive, send: Send, address: Address) -> None:
        self.address = address
        self._receive: Final = receive
        self._send: Final = send
        self._answer: tuple[Answer, bytes] | None = None
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reads = False  # whether the body is awaited
        self._begun = False
        self._request: Asked

    async def carry(self, app: Mounted, scope: Scope) -> None:
        """Serve a request to its end."""
        # ASGI servers may omit raw_path; then %2F is lost.
        path: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
        fields = Fields(scope.get("headers", ()))
        head = Head(
            Profile(scope["method"], scope.get("http_version", "1.1"), fields), path, scope["query_string"]
        )
        request = self._request = app.request(head, self, quote(scope.get("root_path", "")))
        app.serve(request)
        if not self._ended.done():
            listening = asyncio.get_running_loop().create_task(self._listen())
            try:
                await self._ended
            finally:
                listening.cancel()
                if not request.ended:
                    request.leave()
        answer = self._answer
        del self._request  # or each would keep the other
        if answer is not None:
            await self._write(request.method, *answer)

    async def _listen(self) -> None:
        """Read the body if it is awaited, then until the client has left."""
        try:
            while not self._ended.done():
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    break
                self._request.feed(message.get("body", b""), whole=not message.get("more_body", False))
        except OSError:
            pass  # some servers report a disconnect this way
        if not self._ended.done():
            self._request.leave()
            self._end()

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    @property
    def closing(self) -> bool:
        """Whether the client has left."""
        return self._ended.done()

    def answer(self, answer: Answer, stamp: bytes, now: float) -> None:
        """Send an answer."""
        del now
        self._answer = None if self._begun else (answer, stamp)
        self._end()

    async def _write(self, method: str, answer: Answer, stamp: bytes) -> None:
        headers: list[Field] = fields_in(ALWAYS + answer.lines + stamp)
        if answer.close:
            headers.append(_CLOSE)
        body = b"" if method == "HEAD" else answer.body
        try:
            await self._send({"type": "http.response.start", "status": answer.status, "headers": headers})
            await self._send({"type": "http.response.body", "body": body})
        except OSError:
            pass  # ASGI's sign that the client left

    def await_body(self) -> None:
        """Do nothing: the body is read until the request is answered."""

    async def open(self, lines: bytes) -> None:
        """Begin a stream."""
        headers = [*fields_in(ALWAYS + lines), _CLOSE]
        await self._pass({"type": "http.response.start", "status": 200, "headers": headers})
        self._begun = True

    async def send(self, piece: bytes) -> None:
        """Send a piece of it."""
        await self._pass({"type": "http.response.body", "body": piece, "more_body": True})

    async def end(self) -> None:
        """End it."""
        await self._pass({"type": "http.response.body", "body": b"", "more_body": False})
        self._end()

    async def _pass(self, message: Message) -> None:
        """Send a part of a stream."""
        try:
            await self._send(message)
        except OSError as error:
            self._end()
            raise ConnectionResetError("the client has left") from error

    def cut(self) -> None:
        """End without the rest, so that the server cuts the connection."""
        if not self._ended.done():
            self._ended.set_exception(ConnectionAbortedError("the answer is incomplete: cut the connection"))
