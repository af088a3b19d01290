"""Polls for aiohttp: a protocol in front of aiohttp's detects a disconnect.

aiohttp does not report a disconnect to a handler, except by cancelling it with ``handler_cancellation=True``. So while
a poll is held, a tap stands before aiohttp's protocol and passes everything on. It sees the end of the connection in
the same turn of the loop, without a task. asyncio's own ``sendfile`` does the same.
"""

import asyncio
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from purgatory_async.web._answer import Encode
from purgatory_async.web._poll import MAX_WAIT, RETRY_AFTER, Asked, Terms, poll
from purgatory_async.web.race import ClientLeft, Race, WaitFunction


class AiohttpRequest(Protocol):
    """The part of an ``aiohttp.web.Request`` that a poll uses."""

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
    answer = await poll(asked, terms, lambda race: _overhearing(request.transport, race), wait, args)
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


@contextmanager
def _overhearing(transport: asyncio.Transport | None, race: Race) -> Iterator[None]:
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
        self.races: set[Race] = set()
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
