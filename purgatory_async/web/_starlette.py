"""Polls and streams for Starlette and FastAPI, whose requests carry their ASGI channel."""

import random
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

from purgatory_async.web._answer import Encode, PollAnswer
from purgatory_async.web._asgi import AsgiWire, head_for, last_event_id, poll_scope, raw_headers, stream_scope
from purgatory_async.web._event_sources import Source
from purgatory_async.web._event_stream import (
    HEARTBEAT,
    RETRY,
    SEND_TIMEOUT,
    EventName,
    EventStream,
    EventTerms,
    Wire,
)
from purgatory_async.web._poll import MAX_WAIT, RETRY_AFTER, Terms
from purgatory_async.web.asgi import Receive, Scope, Send
from purgatory_async.web.race import WaitFunction


class StarletteRequest(Protocol):
    """The part of a ``starlette.requests.Request`` that a poll uses."""

    @property
    def scope(self) -> Scope:
        """The request's scope, as in ASGI."""
        ...

    @property
    def receive(self) -> Receive:
        """Receives the request's messages, as in ASGI."""
        ...


async def starlette_poll(
    request: StarletteRequest,
    wait: WaitFunction,
    *args: object,
    max_wait: float = MAX_WAIT,
    jitter: float | None = None,
    draw: Callable[[], float] = random.random,
    encode: Encode | None = None,
    retry_after: tuple[float, float] = RETRY_AFTER,
) -> Any:
    """Hold a Starlette or FastAPI request until its wait ends.

    The client sets the time with ``?wait=30s`` or ``Prefer: wait=30``; the query wins. The wait begins before other
    code on the loop runs: what the handler looked up just before this call still holds.

    The answer is 200 with the value as JSON; 204 when the wait expires or `Purgatory.cancel_for_key` ends it; 400 to a
    malformed ``wait=``; 503 with ``Retry-After`` when the purgatory is full or closed, and after SIGTERM or SIGINT.
    When the client disconnects, ``wait`` is cancelled in the same turn of the loop: ``HandOff.take`` then puts its
    item back.

    A value that ``wait`` has returned counts as sent. If it cannot be encoded, the framework answers 500, and the
    signal or item is spent. So encode before completing: ``complete_for_key(key, order.model_dump_json().encode())``
    raises at the signaller, and ``encode=bytes`` sends the bytes. A wait with ``until`` checks state, which no answer
    spends.

    Args:
        request: The handler's; this call listens to its ``receive``, so read the body before.
        wait: An async function; called as ``wait(*args, timeout=seconds)``. For other keyword arguments use
            `functools.partial`, as ``partial(purgatory.wait, until=...)``, which also finds what came before the
            poll; `Purgatory.wait` without ``until`` does not.
        *args: Its positional arguments.
        max_wait: Seconds; a longer wait is cut, and a client that asks for none gets this one.
        jitter: The largest share of a wait by which it may end early, so that polls which began together do not
            end together; 0 for none. None: a sixteenth, but none in a test, where ``wait`` is a method of an object
            on a `ManualClock` or the loop is a `VirtualTimeLoop`. Give 0 there for a function of your own.
        draw: Returns the next random fraction, from 0 to 1.
        encode: Converts the value to what ``json.dumps`` takes, or to JSON as bytes; for example
            `dataclasses.asdict`. None if ``json.dumps`` takes the value.
        retry_after: The least and the most seconds of a 503's ``Retry-After``, a whole number drawn between them.
            (0, 1) suits several workers, of which another one is ready. Where the next process needs time to start,
            give about as much, and a range: clients that were refused together come back spread over it.

    Returns:
        The ``starlette.responses.Response``; its status is 499 when the client has disconnected.

    Raises:
        TypeError: JSON cannot carry the value (the message says how it could), ``wait`` is not an async function, or
            ``encode`` is not a function, or ``retry_after`` is not a pair.
        ValueError: ``max_wait``, ``jitter`` or ``retry_after`` is out of bounds.
        RuntimeError: The application has not imported ``starlette.responses``.
        BaseException: Any other exception of ``wait`` or ``encode``, and a cancellation from outside, which cancels
            the wait.

    O(1) beside the wait: one task that listens, and no timer.
    """
    answer = await poll_scope(
        request.scope, request.receive, Terms(max_wait, jitter, draw, encode, retry_after), wait, args
    )
    return _responses(request, "asgi_poll").Response(
        answer.body or None, answer.status, headers=dict(answer.headers), media_type=answer.media_type
    )


async def starlette_events(
    request: StarletteRequest,
    source: Source,
    *,
    encode: Encode | None = None,
    event: EventName = None,
    heartbeat: float = HEARTBEAT,
    retry: tuple[float, float] = RETRY,
    send_timeout: float = SEND_TIMEOUT,
) -> Any:
    """Answer a Starlette or FastAPI request with server-sent events, which a browser reads with ``EventSource``.

    From a `Broadcast` the client gets what is published after this call, with ids. When it comes back it sends the
    last one, as browsers do by themselves, and gets what it missed first. If some of that is gone, or the id is of
    another broadcast (as after a restart), it first gets an event named ``gap`` whose data is ``{"missed": 7}``, or
    ``{"missed": null}`` where the number is not known, and then all that is kept: load the state again on it.

    An async iterable is one client's own; its items have no ids. It is iterated, and closed, in a task of its own,
    which is cancelled when the stream ends.

    The stream ends with its source; when the purgatory is full or closed; when the client disconnects, or takes
    nothing for ``send_timeout``; and within a second of SIGTERM or SIGINT, after the events until then. While the
    server stops, a stream ends where it begins: a browser comes back after the end of a stream, but not after a 503.

    Args:
        request: The handler's; the response listens to its ``receive``, so read the body before.
        source: A `Broadcast`, for any number of clients, or an async iterable for this one.
        encode: Converts an item to what ``json.dumps`` takes, or to JSON as bytes; None if ``json.dumps`` takes it.
        event: The name of the events, or a function that returns an item's; None for ``message``.
        heartbeat: Seconds without an event after which a comment is sent, for proxies that cut silent connections.
        retry: The least and the most seconds after which a client comes back; each draws its own between them, so
            that those whose streams ended together come back spread.
        send_timeout: Seconds for the client to take an event, or up to 32 KiB of them.

    Returns:
        The ``starlette.responses.Response``, which sends the stream; set its headers and background task as usual.
        An exception of the source or of ``encode`` ends the stream, and is raised to the framework.

    Raises:
        TypeError: ``source`` is neither a `Broadcast` nor an async iterable, ``encode`` or ``event`` has the wrong
            type, or ``retry`` is not a pair.
        ValueError: ``heartbeat``, ``retry`` or ``send_timeout`` is out of bounds, or ``event`` has a line end.
        RuntimeError: The application has not imported ``starlette.responses``.

    O(1) for each event, and one task that listens; a client has no buffer of its own.
    """
    terms = EventTerms(encode, event, heartbeat, retry, send_timeout)
    begin = terms.streaming(source, last_event_id(request.scope))
    response = _stream_response(_responses(request, "asgi_events").Response)
    return response(head_for(request.scope), begin)


def _responses(request: StarletteRequest, instead: str) -> Any:
    responses = sys.modules.get("starlette.responses")
    if responses is None:
        raise RuntimeError(
            f"starlette.responses is not imported: cannot answer {request!r}; import it, or use {instead}"
        )
    return responses


@cache
def _stream_response(base: type[Any]) -> type[Any]:
    """Return a subclass of Starlette's response, which FastAPI insists on, that sends a stream."""

    class EventStreamResponse(base):  # type: ignore[misc]  # Starlette is not a dependency
        """Sends a stream as its body."""

        def __init__(self, head: PollAnswer, begin: Callable[[Wire], EventStream]) -> None:
            super().__init__(None, head.status)  # pyright: ignore[reportUnknownMemberType]
            self.raw_headers = raw_headers(head)  # without a length
            self._begin = begin

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            await stream_scope(scope, receive, self._begin(AsgiWire(send, self.raw_headers)))
            if self.background is not None:
                await self.background()

    return EventStreamResponse
