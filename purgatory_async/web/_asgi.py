"""Polls and streams for ASGI: a task listens for the disconnect message while a request is held."""

import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from purgatory_async.web._answer import Encode, PollAnswer, stream_head
from purgatory_async.web._event_sources import Source
from purgatory_async.web._event_stream import (
    HEARTBEAT,
    RETRY,
    SEND_TIMEOUT,
    EventName,
    EventStream,
    EventTerms,
)
from purgatory_async.web._poll import MAX_WAIT, RETRY_AFTER, Asked, Terms, poll
from purgatory_async.web.asgi import Receive, Scope, Send
from purgatory_async.web.race import WaitFunction, listening

RawHeaders = list[tuple[bytes, bytes]]


async def asgi_poll(
    scope: Scope,
    receive: Receive,
    send: Send,
    wait: WaitFunction,
    *args: object,
    max_wait: float = MAX_WAIT,
    jitter: float | None = None,
    draw: Callable[[], float] = random.random,
    encode: Encode | None = None,
    retry_after: tuple[float, float] = RETRY_AFTER,
) -> None:
    """Hold an ASGI application's request until its wait ends, and send the response.

    This call listens to ``receive`` for the disconnect, so read the body before; begin no response with ``send``. The
    other arguments, the waits and the answers are as in `starlette_poll`.

    Raises:
        ValueError: The scope's type is not ``http``; else as `starlette_poll`.
        TypeError, BaseException: As `starlette_poll`.
    """
    if scope["type"] != "http":
        raise ValueError(f"asgi_poll answers scopes of type 'http', got {scope['type']!r}")
    answer = await poll_scope(scope, receive, Terms(max_wait, jitter, draw, encode, retry_after), wait, args)
    with suppress(OSError):  # ASGI: the client disconnected
        await _send(answer, send)


async def poll_scope(
    scope: Scope, receive: Receive, terms: Terms, wait: WaitFunction, args: tuple[object, ...]
) -> PollAnswer:
    """Hold an ASGI application's request; see `poll`."""
    asked = Asked(scope["query_string"].decode("latin-1"), _field(scope, b"prefer"))
    answer = await poll(asked, terms, partial(listening, receive), wait, args)
    return _for_version(scope, answer)


async def asgi_events(
    scope: Scope,
    receive: Receive,
    send: Send,
    source: Source,
    *,
    encode: Encode | None = None,
    event: EventName = None,
    heartbeat: float = HEARTBEAT,
    retry: tuple[float, float] = RETRY,
    send_timeout: float = SEND_TIMEOUT,
) -> None:
    """Answer an ASGI application's request with server-sent events, until there are no more.

    This call listens to ``receive`` for the disconnect, so read the body before; begin no response with ``send``. The
    other arguments and the stream are as in `starlette_events`.

    Raises:
        ValueError: The scope's type is not ``http``; else as `starlette_events`.
        TypeError, BaseException: As `starlette_events`, and any exception of the source or of ``encode``.
    """
    if scope["type"] != "http":
        raise ValueError(f"asgi_events answers scopes of type 'http', got {scope['type']!r}")
    terms = EventTerms(encode, event, heartbeat, retry, send_timeout)
    begin = terms.streaming(source, last_event_id(scope))
    await stream_scope(scope, receive, begin(AsgiWire(send, raw_headers(head_for(scope)))))


async def stream_scope(scope: Scope, receive: Receive, stream: EventStream) -> None:
    """Answer an ASGI application's request with a stream; see `EventStream`."""
    await stream.run(partial(listening, receive), head=scope.get("method") == "HEAD")


def last_event_id(scope: Scope) -> str | None:
    """Return the id of the event that a returning client has had last; None for a new one."""
    return _field(scope, b"last-event-id")


def head_for(scope: Scope) -> PollAnswer:
    """Return the head of a stream that answers a request."""
    return _for_version(scope, stream_head())


class AsgiWire:
    """Writes a stream as ASGI messages; its head has these headers."""

    def __init__(self, send: Send, headers: RawHeaders) -> None:
        self._send = send
        self._headers = headers

    async def open(self) -> None:
        """Send the head."""
        await self._send({"type": "http.response.start", "status": 200, "headers": self._headers})

    async def write(self, chunk: bytes) -> None:
        """Send a part of the body."""
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self) -> None:
        """End the body."""
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def cut(self) -> None:
        """Do nothing: the server drops a connection whose response is incomplete."""


def _field(scope: Scope, name: bytes) -> str | None:
    """Return the values of a header, joined; None without any."""
    values = [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]
    return ", ".join(values) or None


def _for_version(scope: Scope, answer: PollAnswer) -> PollAnswer:
    return answer if scope.get("http_version", "1.1").startswith("1") else answer.without_close()


async def _send(answer: PollAnswer, send: Send) -> None:
    headers = raw_headers(answer)
    if answer.status != 204:  # noqa: PLR2004 - must not have a length
        headers.append((b"content-length", str(len(answer.body)).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


def raw_headers(answer: PollAnswer) -> RawHeaders:
    """Return the headers as ASGI has them, all but the length of the body."""
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in answer.headers]
    if answer.media_type is not None:
        headers.append((b"content-type", answer.media_type.encode()))
    return headers
