"""Polls and streams for aiohttp: a protocol in front of aiohttp's detects a disconnect.

aiohttp does not report a disconnect to a handler, except by cancelling it with ``handler_cancellation=True``. So while
one is held, a tap stands before aiohttp's protocol and passes everything on. It sees the end of the connection in
the same turn of the loop, without a task. asyncio's own ``sendfile`` does the same.
"""

import asyncio
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from purgatory_async.web._answer import Encode, stream_head
from purgatory_async.web._event_sources import Source
from purgatory_async.web._event_stream import (
    HEARTBEAT,
    RETRY,
    SEND_TIMEOUT,
    EventName,
    EventTerms,
)
from purgatory_async.web._poll import MAX_WAIT, RETRY_AFTER, Asked, Terms, poll
from purgatory_async.web.race import ClientLeft, Interruptible, WaitFunction


class AiohttpRequest(Protocol):
    """The part of an ``aiohttp.web.Request`` that a poll or a stream uses."""

    @property
    def method(self) -> str:
        """The method, in upper case."""
        ...

    @property
    def headers(self) -> Any:
        """A multi-mapping."""

    @property
    def rel_url(self) -> Any:
        """A ``yarl.URL``."""

    @property
    def transport(self) -> asyncio.Transport | None:
        """The connection; None when it is lost."""


async def aiohttp_poll(
    request: AiohttpRequest,
    wait: WaitFunction,
    *args: object,
    max_wait: float = MAX_WAIT,
    jitter: float | None = None,
    draw: Callable[[], float] = random.random,
    encode: Encode | None = None,
    retry_after: tuple[float, float] = RETRY_AFTER,
) -> Any:
    """Hold an aiohttp request until its wait ends.

    Arguments, waits and answers are as in `starlette_poll`.

    Returns:
        The ``aiohttp.web.Response``; its status is 499 when the client has disconnected.

    Raises:
        TypeError, ValueError, BaseException: As `starlette_poll`; with ``handler_cancellation=True`` also the
            cancellation when the client disconnects.

    O(1) beside the wait, with no task and no timer.
    """
    asked = Asked(request.rel_url.raw_query_string, ", ".join(request.headers.getall("Prefer", ())) or None)
    terms = Terms(max_wait, jitter, draw, encode, retry_after)
    answer = await poll(asked, terms, partial(_overhearing, request.transport), wait, args)
    # The request is aiohttp's, so this module is loaded; aiohttp accepts only its own class.
    response = sys.modules["aiohttp.web_response"].Response(
        body=answer.body or None,
        status=answer.status,
        headers=answer.without_close().headers,
    )
    if answer.media_type is not None:
        response.headers["Content-Type"] = answer.media_type
    if answer.closes:
        response.force_close()
    return response


async def aiohttp_events(
    request: AiohttpRequest,
    source: Source,
    *,
    encode: Encode | None = None,
    event: EventName = None,
    heartbeat: float = HEARTBEAT,
    retry: tuple[float, float] = RETRY,
    send_timeout: float = SEND_TIMEOUT,
) -> Any:
    """Answer an aiohttp request with server-sent events, until there are no more.

    Arguments and stream are as in `starlette_events`. The connection of a client that takes nothing is aborted.

    Returns:
        The ``aiohttp.web.StreamResponse``, which has been sent.

    Raises:
        TypeError, ValueError: As `starlette_events`.
        BaseException: Any exception of the source or of ``encode``, and a cancellation from outside, which ends the
            stream; with ``handler_cancellation=True`` also when the client disconnects.

    O(1) for each event, with no task for a `Broadcast`.
    """
    terms = EventTerms(encode, event, heartbeat, retry, send_timeout)
    begin = terms.streaming(source, request.headers.get("Last-Event-ID"))
    head = stream_head()
    response = sys.modules["aiohttp.web_response"].StreamResponse(headers=head.without_close().headers)
    response.content_type = head.media_type
    response.force_close()
    stream = begin(_AiohttpWire(request, response))
    await stream.run(partial(_overhearing, request.transport), head=request.method == "HEAD")
    return response


class _AiohttpWire:
    def __init__(self, request: AiohttpRequest, response: Any) -> None:
        self._request = request
        self._response = response

    async def open(self) -> None:
        """Send the head."""
        await self._response.prepare(self._request)

    async def write(self, chunk: bytes) -> None:
        """Send a part of the body."""
        await self._response.write(chunk)

    async def end(self) -> None:
        """End the body."""
        await self._response.write_eof()

    def cut(self) -> None:
        """Abort the connection."""
        if self._request.transport is not None:
            self._request.transport.abort()


@contextmanager
def _overhearing(transport: asyncio.Transport | None, race: Interruptible) -> Iterator[None]:
    if transport is None:
        raise ClientLeft
    protocol = transport.get_protocol()
    if not isinstance(protocol, asyncio.Protocol):
        yield  # a test stand-in has no connection to lose
        return
    tap = protocol if isinstance(protocol, _Tap) else _Tap(protocol)
    tap.races.add(race)
    transport.set_protocol(tap)
    try:
        yield
    finally:
        tap.races.remove(race)
        # A TLS transport that lost its connection must not be asked for its protocol.
        if not (tap.races or tap.lost) and transport.get_protocol() is tap:
            transport.set_protocol(tap.behind)


class _Tap(asyncio.Protocol):
    """Passes everything on to the protocol ``behind``, and ends races when the connection is lost."""

    def __init__(self, behind: asyncio.Protocol) -> None:
        self.behind = behind
        self.races: set[Interruptible] = set()
        self.lost = False

    def __repr__(self) -> str:
        return f"<_Tap before {self.behind!r}>"

    def connection_lost(self, exc: Exception | None) -> None:
        """End the races, then pass it on."""
        self.lost = True
        for race in self.races:
            race.leave()
        self.behind.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass it to the protocol behind."""
        self.behind.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass it to the protocol behind."""
        return self.behind.eof_received()

    def pause_writing(self) -> None:
        """Pass it to the protocol behind."""
        self.behind.pause_writing()

    def resume_writing(self) -> None:
        """Pass it to the protocol behind."""
        self.behind.resume_writing()
