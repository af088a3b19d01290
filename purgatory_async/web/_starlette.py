"""Starlette, and FastAPI, which is made of it: the request brings its ASGI channel along."""

import random
import sys
from collections.abc import Callable
from typing import Any, Protocol

from purgatory_async.web._answer import Encode
from purgatory_async.web._asgi import Receive, Scope, poll_scope
from purgatory_async.web._poll import MAX_WAIT, Terms
from purgatory_async.web._race import Wait

__all__ = ["starlette_poll"]


class StarletteRequest(Protocol):
    """What is used of a ``starlette.requests.Request``."""

    @property
    def scope(self) -> Scope:
        """ASGI's."""

    @property
    def receive(self) -> Receive:
        """ASGI's."""


async def starlette_poll(
    request: StarletteRequest,
    wait: Wait,
    *args: object,
    max_wait: float = MAX_WAIT,
    jitter: float | None = None,
    draw: Callable[[], float] = random.random,
    encode: Encode | None = None,
) -> Any:
    """Hold a request of Starlette or FastAPI until what it waits for is there.

    The client says for how long, with ``?wait=30s`` or ``Prefer: wait=30``; the query wins. The wait begins before
    anything else on the loop can run: what the handler looked up just before this call is still so.

    It is answered 200 with the value as JSON; 204 when the time is up or `Purgatory.cancel_for_key` ended the wait;
    400 to a malformed ``wait=``; 503 with ``Retry-After`` when the purgatory is full or closed, and when the process
    is told to stop by SIGTERM or SIGINT. When the client leaves, ``wait`` is cancelled in the same turn of the loop:
    what takes something, as ``HandOff.take`` does, puts it back then. A value that ``wait`` has returned counts as
    sent, also if it cannot be encoded: the framework answers 500, and the signal or item is spent. So encode where a
    failure costs nothing, before completing: ``complete_for_key(key, order.model_dump_json().encode())`` raises at the
    signaller, and ``encode=bytes`` sends it as it is. A wait with ``until`` looks at a state, which no answer spends.

    Args:
        request: The handler's; its ``receive`` is listened to from now on, so read the body before.
        wait: An async function; called as ``wait(*args, timeout=seconds)``. For other keyword arguments use
            `functools.partial`, as ``partial(purgatory.wait, until=...)``, which also finds what came before the
            poll; `Purgatory.wait` without ``until`` does not.
        *args: Its positional arguments.
        max_wait: Seconds; a longer wait is cut, and who asks for none gets this one.
        jitter: The largest share of a wait by which it may end early, so that polls which began together do not
            end together; 0 for none. None: a sixteenth, but none in a test, where ``wait`` is a method of something
            on a `ManualClock` or the loop is a `VirtualTimeLoop`. Give 0 there for a function of your own.
        draw: The next random fraction, from 0 to 1.
        encode: Makes of the value what ``json.dumps`` takes, or the JSON itself as bytes; for example
            `dataclasses.asdict`. None where the value is what ``json.dumps`` takes.

    Returns:
        The ``starlette.responses.Response``; with status 499, which nobody gets, when the client has left.

    Raises:
        TypeError: JSON cannot carry the value (the message says how it could), ``wait`` is no async function, or
            ``encode`` no function.
        ValueError: ``max_wait`` or ``jitter`` is out of its bounds.
        RuntimeError: The application has not imported ``starlette.responses``.
        BaseException: Whatever else ``wait`` or ``encode`` raised; the framework handles it as it does a handler's
            own. So it does a cancellation from outside, which withdraws the wait.

    O(1) beside the wait: a task that listens, and no timer.
    """
    answer = await poll_scope(
        request.scope, request.receive, Terms(max_wait, jitter, draw, encode), wait, args
    )
    responses = sys.modules.get("starlette.responses")
    if responses is None:
        raise RuntimeError(
            f"the answer to {request!r} is a starlette.responses.Response, and nobody imported that; import it, or "
            "use asgi_poll"
        )
    return responses.Response(
        answer.body or None, answer.status, headers=dict(answer.headers), media_type=answer.media_type
    )
