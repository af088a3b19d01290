"""A long poll as one writes it by hand: a Starlette handler that waits for an event of its key.

Run as ``python -m bench.service.beside.bare DESCRIPTOR``, the descriptor of a listening socket.
"""

import asyncio
import signal
import socket
import sys
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from bench.service.channel import open_channel
from bench.service.dialects import WAIT_S, request
from bench.service.served import Served

__all__ = ["Bare"]

_COMMAND: Final = (sys.executable, "-m", "bench.service.beside.bare")


class Bare(Served):
    """The server as a process of its own; a context manager that kills it at the end.

    Args:
        descriptor: The descriptor of a listening socket, which it inherits.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(str(descriptor), command=_COMMAND, descriptors=[descriptor])

    async def held(self) -> int:
        """How many handlers wait."""
        channel = await open_channel(self.port)
        try:
            return int((await channel.ask(request("GET", "/held"))).body)
        finally:
            channel.close()


class _Key:
    """The newest message of a key."""

    def __init__(self) -> None:
        self.number = 0
        self.text = b""
        self.event = asyncio.Event()


_keys: Final[dict[str, _Key]] = {}
_held: Final = [0]


async def _publish(asked: Request) -> Response:
    key = _keys.setdefault(asked.path_params["key"], _Key())
    key.text = await asked.body()
    key.number += 1
    event, key.event = key.event, asyncio.Event()
    event.set()
    return Response()


async def _poll(asked: Request) -> Response:
    key = _keys.setdefault(asked.path_params["key"], _Key())
    query = asked.query_params
    if key.number <= int(query["after"]):
        _held[0] += 1
        try:
            async with asyncio.timeout(float(query.get("wait", WAIT_S))):
                await key.event.wait()
        except TimeoutError:
            return Response(status_code=304)
        finally:
            _held[0] -= 1
    return PlainTextResponse(key.text, headers={"x-index": str(key.number)})


async def _count(_: Request) -> Response:
    return PlainTextResponse(str(_held[0]))


def main() -> None:
    """Serve until SIGTERM."""
    sock = socket.socket(fileno=int(sys.argv[1]))
    routes = [
        Route("/keys/{key}", _publish, methods=["POST"]),
        Route("/keys/{key}", _poll, methods=["GET"]),
        Route("/held", _count),
    ]
    config = uvicorn.Config(
        Starlette(routes=routes), loop="uvloop", http="httptools", access_log=False, log_level="warning"
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn raises it again once it has stopped
    # The socket listens already, so a client can connect from here on.
    print("http://{}:{}".format(*sock.getsockname()), flush=True)
    uvicorn.Server(config).run([sock])


if __name__ == "__main__":
    main()
