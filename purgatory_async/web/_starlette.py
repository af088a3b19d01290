"""Polls for Starlette and FastAPI, whose requests carry their ASGI channel."""

import random
import sys
from collections.abc import Callable
from typing import Any, Protocol

from purgatory_async.web._answer import Encode
from purgatory_async.web._asgi import poll_scope
from purgatory_async.web._poll import MAX_WAIT, RETRY_AFTER, Terms
from purgatory_async.web.asgi import Receive, Scope
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
    responses = sys.modules.get("starlette.responses")
    if responses is None:
        raise RuntimeError(
            f"starlette.responses is not imported: cannot answer {request!r}; import it, or use asgi_poll"
        )
    return responses.Response(
        answer.body or None, answer.status, headers=dict(answer.headers), media_type=answer.media_type
    )
