"""A long poll in somebody else's application, in one line of a handler.

    starlette_poll(request, wait, ...)           Starlette and FastAPI; returns the response
    aiohttp_poll(request, wait, ...)             aiohttp; returns the response
    asgi_poll(scope, receive, send, wait, ...)   any ASGI application; answers by itself

``wait`` is whatever waits: `Purgatory.wait`, ``Watermark.reach``, ``HandOff.take``, or an async function of one's own
that takes ``timeout=``. The client says for how long with ``?wait=30s`` or ``Prefer: wait=30``, never longer than
``max_wait``. What it gets:

    200  the value, as JSON
    204  the time was up, or `Purgatory.cancel_for_key` ended the wait
    400  a ``wait=`` that follows no grammar
    503  with ``Retry-After``: the purgatory is full or closed, or the server has been told to stop

A signal is state if it stays true, as a finished build does: store it, call `Purgatory.check_and_complete`,
and pass ``partial(purgatory.wait, until=...)``, so that a poll also finds what came before it. It is an event
if it concerns only those who wait at that moment: then `Purgatory.complete_for_key` ends their waits, and a
later poll waits for the next one.

A wait may end up to a sixteenth early, so that polls which began together do not end together; in virtual time it
ends when it is due (see ``jitter`` in `starlette_poll`).

A client that leaves takes its wait with it, as soon as the server says so. SIGTERM and SIGINT let every held poll go
before the server begins to wait for its requests. No framework is imported.
"""

from purgatory_async.web._aiohttp import aiohttp_poll
from purgatory_async.web._asgi import asgi_poll
from purgatory_async.web._starlette import starlette_poll

__all__ = ["aiohttp_poll", "asgi_poll", "starlette_poll"]
