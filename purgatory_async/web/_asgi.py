"""ASGI: the client's leaving is a message, so somebody must listen for it while the request is held."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from typing import Any

from purgatory_async.web._answer import Answer, Encode
from purgatory_async.web._poll import MAX_WAIT, Asked, Terms, poll
from purgatory_async.web._race import Race, Wait

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


async def asgi_poll(
    scope: Scope,
    receive: Receive,
    send: Send,
    wait: Wait,
    *args: object,
    max_wait: float = MAX_WAIT,
    jitter: float | None = None,
    draw: Callable[[], float] = random.random,
    encode: Encode | None = None,
) -> None:
    """Hold a request of any ASGI application until what it waits for is there, and answer it.

    See `starlette_poll` for what is waited for, and what is answered.

    Args:
        scope: ASGI's, of type ``http``.
        receive: ASGI's; from now on it is listened to for the client's leaving, so read the body before.
        send: ASGI's; nothing has been sent yet.
        wait: As for `starlette_poll`.
        *args: As for `starlette_poll`.
        max_wait: As for `starlette_poll`.
        jitter: As for `starlette_poll`.
        draw: As for `starlette_poll`.
        encode: As for `starlette_poll`.

    Raises:
        ValueError: The scope is not one of HTTP; else as `starlette_poll`.
        TypeError, BaseException: As `starlette_poll`.
    """
    if scope["type"] != "http":
        raise ValueError(f"asgi_poll answers scopes of type 'http', got {scope['type']!r}")
    answer = await poll_scope(scope, receive, Terms(max_wait, jitter, draw, encode), wait, args)
    with suppress(OSError):  # ASGI's way to say that the client left meanwhile
        await _send(answer, send)


async def poll_scope(
    scope: Scope, receive: Receive, terms: Terms, wait: Wait, args: tuple[object, ...]
) -> Answer:
    """Hold a request of an ASGI application; see `poll`."""
    preferences = [value.decode("latin-1") for name, value in scope["headers"] if name.lower() == b"prefer"]
    asked = Asked(scope["query_string"].decode("latin-1"), ", ".join(preferences) or None)
    answer = await poll(asked, terms, lambda race: listening(receive, race), wait, args)
    return answer if scope.get("http_version", "1.1").startswith("1") else answer.without_close()


@contextmanager
def listening(receive: Receive, race: Race) -> Iterator[None]:
    """A context in which a race is told when the client leaves.

    Args:
        receive: The request's; its body has been read.
        race: The wait that then is in vain.
    """
    listener = asyncio.get_running_loop().create_task(_listen(receive, race), name="long poll: listener")
    try:
        yield
    finally:
        listener.cancel()


async def _listen(receive: Receive, race: Race) -> None:
    """Tell the race when the client leaves; what it may still send is not looked at."""
    body_read = False
    try:
        while (message := await receive())["type"] != "http.disconnect":
            if body_read:
                return  # a stand-in that says the same for ever: it would be asked for ever
            body_read = not message.get("more_body", False)
    except OSError:
        pass  # some servers say it this way
    except Exception as error:  # noqa: BLE001 - the caller's to judge, and it has the caller's handlers
        race.fail(error)
        return
    race.leave()


async def _send(answer: Answer, send: Send) -> None:
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in answer.headers]
    if answer.media_type is not None:
        headers.append((b"content-type", answer.media_type.encode()))
    if answer.status != 204:  # noqa: PLR2004 - the one that must not have a length
        headers.append((b"content-length", str(len(answer.body)).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
