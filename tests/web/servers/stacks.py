"""One small application on every framework and server.

It holds ``/poll``, ``/read`` (which reads its body first), ``/odd`` (whose value is no JSON) and ``/events``. Each
stack is an async context manager that takes a purgatory and gives a port.
"""

import asyncio
import socket
from contextlib import asynccontextmanager
from functools import cache, partial

import fastapi
import starlette.requests
import uvicorn
from aiohttp import web
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.routing import Route

from purgatory_async.patterns import Broadcast
from purgatory_async.web import (
    aiohttp_events,
    aiohttp_poll,
    asgi_events,
    asgi_poll,
    starlette_events,
    starlette_poll,
)
from tests.web.servers.wire import until


def starlette_routes(purgatory):
    news = cache(partial(Broadcast, purgatory))

    async def events(request):
        return await starlette_events(request, news())

    async def poll(request):
        return await starlette_poll(request, purgatory.wait, "k")

    async def read(request):
        await request.body()
        return await starlette_poll(request, purgatory.wait, "k")

    async def odd(request):
        async def wait(*, timeout):
            return {"a set"}

        return await starlette_poll(request, wait)

    return [
        Route("/poll", poll, methods=["GET", "POST"]),
        Route("/read", read, methods=["POST"]),
        Route("/odd", odd),
        Route("/events", events),
    ]


class Passing(BaseHTTPMiddleware):
    """A middleware as thousands of applications have it."""

    async def dispatch(self, request, call_next):
        return await call_next(request)


def starlette_app(purgatory, *, middlewares=0):
    return Starlette(routes=starlette_routes(purgatory), middleware=[Middleware(Passing)] * middlewares)


def fastapi_app(purgatory):
    app = fastapi.FastAPI()
    news = cache(partial(Broadcast, purgatory))

    @app.get("/events")
    async def events(request: fastapi.Request) -> fastapi.Response:
        return await starlette_events(request, news())

    @app.get("/poll")
    @app.post("/poll")
    async def poll(request: fastapi.Request) -> fastapi.Response:
        return await starlette_poll(request, purgatory.wait, "k")

    @app.post("/read")
    async def read(request: fastapi.Request, body: dict):
        return await starlette_poll(request, purgatory.wait, "k")

    @app.get("/odd")
    async def odd(request: starlette.requests.Request):
        async def wait(*, timeout):
            return {"a set"}

        return await starlette_poll(request, wait)

    return app


def asgi_app(purgatory):
    news = cache(partial(Broadcast, purgatory))

    async def app(scope, receive, send):
        async def wait(*, timeout):
            return {"a set"}

        if scope["path"] == "/read":
            while (await receive()).get("more_body"):
                pass
        if scope["path"] == "/odd":
            await asgi_poll(scope, receive, send, wait)
        elif scope["path"] == "/events":
            await asgi_events(scope, receive, send, news())
        else:
            await asgi_poll(scope, receive, send, purgatory.wait, "k")

    return app


def aiohttp_app(purgatory):
    news = cache(partial(Broadcast, purgatory))

    async def events(request):
        return await aiohttp_events(request, news())

    async def poll(request):
        response = await aiohttp_poll(request, purgatory.wait, "k")
        assert request.transport is None or request.transport.get_protocol() is request.protocol
        return response

    async def read(request):
        await request.read()
        return await aiohttp_poll(request, purgatory.wait, "k")

    async def odd(request):
        async def wait(*, timeout):
            return {"a set"}

        return await aiohttp_poll(request, wait)

    app = web.Application()
    app.add_routes([web.get("/poll", poll), web.post("/poll", poll)])
    app.add_routes([web.post("/read", read), web.get("/odd", odd), web.get("/events", events)])
    return app


def free_socket():
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    sock.listen(1024)
    return sock


@asynccontextmanager
async def on_uvicorn(make_app, http, purgatory):
    sock = free_socket()
    config = uvicorn.Config(make_app(purgatory), http=http, ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve([sock]))
    await until(lambda: server.started)
    try:
        yield sock.getsockname()[1]
    finally:
        server.should_exit = True
        await serving


@asynccontextmanager
async def on_aiohttp(handler_cancellation, purgatory):
    runner = web.AppRunner(aiohttp_app(purgatory), handler_cancellation=handler_cancellation)
    await runner.setup()
    sock = free_socket()
    await web.SockSite(runner, sock).start()
    try:
        yield sock.getsockname()[1]
    finally:
        await runner.cleanup()


ON_UVICORN = {
    "starlette-httptools": partial(on_uvicorn, starlette_app, "httptools"),
    "starlette-h11": partial(on_uvicorn, starlette_app, "h11"),
    "middleware-httptools": partial(on_uvicorn, partial(starlette_app, middlewares=1), "httptools"),
    "middleware-h11": partial(on_uvicorn, partial(starlette_app, middlewares=1), "h11"),
    "middlewares": partial(on_uvicorn, partial(starlette_app, middlewares=3), "httptools"),
    "fastapi": partial(on_uvicorn, fastapi_app, "httptools"),
    "asgi-httptools": partial(on_uvicorn, asgi_app, "httptools"),
    "asgi-h11": partial(on_uvicorn, asgi_app, "h11"),
}
ON_AIOHTTP = {
    "aiohttp": partial(on_aiohttp, False),
    "aiohttp-cancelling": partial(on_aiohttp, True),
}
