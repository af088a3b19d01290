"""A server in its own process, to stop by a signal: ``python -m tests.web.servers.stopped STACK LOOP COUNT``.

It prints its port, and "held" when so many polls are.
"""

import asyncio
import sys
from contextlib import suppress

import uvicorn
import uvloop
from aiohttp import web

from purgatory_async import Purgatory
from purgatory_async.events import OperationSubmitted
from tests.web.servers.stacks import aiohttp_app, asgi_app, fastapi_app, free_socket, starlette_app


class Teller:
    """Sets an event once enough operations have been submitted."""

    def __init__(self, count):
        self.left = count

    def notify(self, event):
        self.left -= isinstance(event, OperationSubmitted)
        if not self.left:
            print("held", flush=True)  # noqa: T201 - the test reads it


APPS = {
    "starlette": starlette_app,
    "middleware": lambda purgatory: starlette_app(purgatory, middlewares=2),
    "fastapi": fastapi_app,
    "asgi": asgi_app,
}


def main(stack, loop, count):
    """Serve until a signal comes."""
    purgatory = Purgatory(observer=Teller(int(count)))
    sock = free_socket()
    print(sock.getsockname()[1], flush=True)  # noqa: T201 - the test reads it
    if stack == "aiohttp":
        made = uvloop.new_event_loop() if loop == "uvloop" else asyncio.new_event_loop()
        web.run_app(aiohttp_app(purgatory), sock=sock, loop=made, print=None)
        return
    config = uvicorn.Config(APPS[stack](purgatory), loop=loop, lifespan="off", log_config=None)
    with suppress(KeyboardInterrupt):  # as uvicorn's own command does
        uvicorn.Server(config).run([sock])


if __name__ == "__main__":
    main(*sys.argv[1:])
