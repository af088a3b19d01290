"""ASGI: a task listens for the disconnect message while a request is held."""

import random
from collections.abc import Callable
from contextlib import suppress

from purgatory_async.web._answer import Encode, PollAnswer
from purgatory_async.web._poll import MAX_WAIT, RETRY_AFTER, Asked, Terms, poll
from purgatory_async.web.asgi import Receive, Scope, Send
from purgatory_async.web.race import WaitFunction, listening


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
    preferences = [value.decode("latin-1") for name, value in scope["headers"] if name.lower() == b"prefer"]
    asked = Asked(scope["query_string"].decode("latin-1"), ", ".join(preferences) or None)
    answer = await poll(asked, terms, lambda race: listening(receive, race), wait, args)
    return answer if scope.get("http_version", "1.1").startswith("1") else answer.without_close()


async def _send(answer: PollAnswer, send: Send) -> None:
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in answer.headers]
    if answer.media_type is not None:
        headers.append((b"content-type", answer.media_type.encode()))
    if answer.status != 204:  # noqa: PLR2004 - must not have a length
        headers.append((b"content-length", str(len(answer.body)).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
