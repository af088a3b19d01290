"""Long polls and server-sent events in one line of an existing application's handler.

    starlette_poll(request, wait, ...)           Starlette and FastAPI; returns the response
    aiohttp_poll(request, wait, ...)             aiohttp; returns the response
    asgi_poll(scope, receive, send, wait, ...)   any ASGI application; sends the response

    starlette_events(request, source, ...)           the same for streams of events
    aiohttp_events(request, source, ...)
    asgi_events(scope, receive, send, source, ...)

Polls
-----
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

Server-sent events
------------------
``source`` is a `Broadcast`, which any number of clients follow, or an async iterable for one client::

    news = Broadcast(purgatory)

    @app.get("/news")
    async def follow(request: Request):
        return await starlette_events(request, news)

    news.publish({"build": 77, "report": "green"})

In a browser, ``new EventSource("/news")`` comes back by itself when it lost its stream, and gets what it missed: each
event has an id, and the server keeps the newest items. Where some are gone it gets an event named ``gap`` instead, on
which the page loads its state again. Under several workers, follow one log: ``Broadcast.of(cluster)`` has the same ids
at each, so that a client may come back to another one; ``encode=attrgetter("value")`` sends what was signalled.

The answer has an end only when the source has one. A client that reads too slowly gets a ``gap``; one that takes
nothing for ``send_timeout`` is unsubscribed. aiohttp then drops its connection; an ASGI server keeps it until TCP gives
it up, so start uvicorn with ``--timeout-graceful-shutdown``.

Both
----
When the server reports that a client disconnected, its wait or stream is cancelled. SIGTERM and SIGINT release every
held poll, and end every stream within a second, before the server begins to wait for its requests. No framework is
imported.

A purgatory at module level can be tested with ``TestClient(app)``, which makes a loop for each request: once its loop
has closed and nothing waits, it belongs to the next loop.
"""

from purgatory_async.web._aiohttp import aiohttp_events, aiohttp_poll
from purgatory_async.web._asgi import asgi_events, asgi_poll
from purgatory_async.web._starlette import starlette_events, starlette_poll

__all__ = [
    "aiohttp_events",
    "aiohttp_poll",
    "asgi_events",
    "asgi_poll",
    "starlette_events",
    "starlette_poll",
]
