"""A long poll in one line of an existing application's handler.

    starlette_poll(request, wait, ...)           Starlette and FastAPI; returns the response
    aiohttp_poll(request, wait, ...)             aiohttp; returns the response
    asgi_poll(scope, receive, send, wait, ...)   any ASGI application; sends the response

``wait`` is `Purgatory.wait`, ``Watermark.reach``, ``HandOff.take``, or your own async function that takes ``timeout=``.
The client sets the time with ``?wait=30s`` or ``Prefer: wait=30``, up to ``max_wait``. It gets:

    200  the value, as JSON
    204  the wait expired, or `Purgatory.cancel_for_key` ended it
    400  a malformed ``wait=``
    503  with ``Retry-After``: the purgatory is full or closed, or the server stops

A signal is state if it stays true, as a finished build does: store it, call `Purgatory.check_and_complete`, and pass
``partial(purgatory.wait, until=...)``, so that a later poll finds it too. It is an event if it concerns only the
current waits: then `Purgatory.complete_for_key` ends them, and a later poll waits for the next event.

A wait may end up to a sixteenth early, so that polls which began together do not end together; in virtual time it
ends when it is due (see ``jitter`` in `starlette_poll`).

When the server reports that a client disconnected, its wait is cancelled. SIGTERM and SIGINT release every held poll
before the server begins to wait for its requests. No framework is imported.

A purgatory at module level can be tested with ``TestClient(app)``, which makes a loop for each request: once its loop
has closed and nothing waits, it belongs to the next loop.
"""

from purgatory_async.web._aiohttp import aiohttp_poll
from purgatory_async.web._asgi import asgi_poll
from purgatory_async.web._starlette import starlette_poll

__all__ = ["aiohttp_poll", "asgi_poll", "starlette_poll"]
