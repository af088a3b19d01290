"""aiohttp: a handler is not told that its client left, but the loop tells the connection's protocol.

aiohttp has no call for it (with ``handler_cancellation=True`` it cancels the handler, without it says nothing). So
while a poll is held, a protocol of ours stands before aiohttp's: it passes everything on, and hears of the end of
the connection in the same turn of the loop, without a task. asyncio's own ``sendfile`` does the same.
"""

import asyncio
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from purgatory_async.web._answer import Encode
from purgatory_async.web._poll import MAX_WAIT, Asked, Terms, poll
from purgatory_async.web._race import ClientLeft, Race, Wait

__all__ = ["aiohttp_poll"]


class AiohttpRequest(Protocol):
    """What is used of an ``aiohttp.web.Request``."""

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
    wait: Wait,
    *args: object,
    max_wait: float = MAX_WAIT,
    jitter: float | None = None,
    draw: Callable[[], float] = random.random,
    encode: Encode | None = None,
) -> Any:
    """Hold a request of aiohttp until what it waits for is there.

    See `starlette_poll` for what is waited for, and what is answered.

    Args:
        request: The handler's.
        wait: As for `starlette_poll`.
        *args: As for `starlette_poll`.
        max_wait: As for `starlette_poll`.
        jitter: As for `starlette_poll`.
        draw: As for `starlette_poll`.
        encode: As for `starlette_poll`.

    Returns:
        The ``aiohttp.web.Response``; with status 499, which nobody gets, when the client has left.

    Raises:
        TypeError, ValueError, BaseException: As `starlette_poll`; with ``handler_cancellation=True`` also the
            cancellation when the client leaves.

    O(1) beside the wait, with no task and no timer.
    """
    asked = Asked(request.rel_url.raw_query_string, ", ".join(request.headers.getall("Prefer", ())) or None)
    terms = Terms(max_wait, jitter, draw, encode)
    answer = await poll(asked, terms, lambda race: _overhearing(request.transport, race), wait, args)
    # The request is aiohttp's, so this is loaded; and what it wants back is an instance of its own class.
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
        yield  # a stand-in of somebody's test: there is no connection to lose
        return
    tap = protocol if isinstance(protocol, _Tap) else _Tap(protocol)
    tap.races.add(race)
    transport.set_protocol(tap)
    try:
        yield
    finally:
        tap.races.remove(race)
        # A transport of TLS must not be asked for its protocol any more when its connection is lost.
        if not (tap.races or tap.lost) and transport.get_protocol() is tap:
            transport.set_protocol(tap.behind)


class _Tap(asyncio.Protocol):
    """Passes everything on, and tells races when the connection is lost.

    Args:
        behind: Whose connection it is.
    """

    def __init__(self, behind: asyncio.Protocol) -> None:
        self.behind = behind
        self.races: set[Race] = set()
        self.lost = False

    def __repr__(self) -> str:
        return f"<_Tap before {self.behind!r}>"

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the races, then pass it on."""
        self.lost = True
        for race in self.races:
            race.leave()
        self.behind.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass it on."""
        self.behind.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass it on."""
        return self.behind.eof_received()

    def pause_writing(self) -> None:
        """Pass it on."""
        self.behind.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self.behind.resume_writing()
