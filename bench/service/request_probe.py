"""Answer requests over a transport in memory, for counting the instructions of the service alone.

``python -m bench.service.request_probe SCENE COUNT`` runs a scene so many times. No socket and no client is in it, so
what two runs of different counts differ by is the request path: parsing, state, JSON and the answer.
"""

import asyncio
import sys
from collections.abc import Callable, Mapping
from typing import Final

from bench.measure.loops import UVLOOP, run_on
from bench.service.dialects import CONVERSATIONS, READ, request
from purgatory_async.service.app import Application, create_app
from purgatory_async.service.http.connection import Connection
from purgatory_async.service.http.context import Deadlines, ServerContext
from purgatory_async.service.logs import stderr_log
from purgatory_async.service.process.server import calm_collector
from purgatory_async.service.settings.settings import Settings

__all__ = ["SCENES", "Wire", "context_of"]

# By name: what it shows.
SCENES: Final = {
    "exchange": "a message: a held read, the signal that answers it",
    "submit": "a submission",
    "signal": "a signal",
    "read": "a read",
    "status": "the status of a pending operation",
    "take": "an item: put, taken and acknowledged",
    "health": "the health check: HTTP alone",
}
KEYS: Final = 64
HELD_PASSES: Final = 3  # after which a poll is held
PASSES: Final = 20  # of the loop, in which a request that is not held must be answered


class Wire(asyncio.Transport):
    """The server's end of a connection to a client in this process.

    Attributes:
        answer: The last bytes written, empty before.
    """

    def __init__(self, context: ServerContext) -> None:
        super().__init__({"sockname": ("127.0.0.1", 8765)})
        self.answer = b""
        self.protocol = Connection(context)
        self.protocol.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep an answer."""
        self.answer = bytes(data)

    def is_closing(self) -> bool:
        """Never: the client stays."""
        return False

    def write_eof(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def pause_reading(self) -> None:
        """Do nothing."""

    def resume_reading(self) -> None:
        """Do nothing."""

    def get_write_buffer_size(self) -> int:
        """Return 0: the client has read all."""
        return 0

    def send(self, asked: bytes) -> None:
        """Ask."""
        self.answer = b""
        self.protocol.data_received(asked)

    async def answered(self) -> None:
        """Let the loop run until the answer has come.

        Raises:
            RuntimeError: It does not, or it is a refusal.
        """
        for _ in range(PASSES):
            if self.answer:
                break
            await asyncio.sleep(0)
        if not self.answer.startswith(b"HTTP/1.1 20"):
            raise RuntimeError(f"the answer must be 2xx within {PASSES} passes, got {self.answer[:200]!r}")


def _submission(key: str, known_as: str = "") -> bytes:
    named = f', "id": "{known_as}"' if known_as else ""
    return request("POST", "/v1/operations", f'{{"keys": ["{key}"], "timeout": 600{named}}}'.encode())


# By scene, the request for a key.
ASKED: Final[Mapping[str, Callable[[str], bytes]]] = {
    "submit": _submission,
    "status": lambda key: request("GET", f"/v1/operations/{key}"),
    "signal": READ.tell,
    "read": lambda key: request("GET", f"/v1/keys/{key}"),
    "health": lambda _: request("GET", "/healthz"),
}


async def run(scene: str, count: int) -> None:
    """Run a scene so many times, over one connection of a publisher and one of a subscriber.

    Args:
        scene: One of `SCENES`.
        count: How many times.

    Raises:
        RuntimeError: An answer is missing, or is a refusal.
    """
    app = create_app(Settings(jitter=0), log=stderr_log())
    context = context_of(app)
    publisher, subscriber = Wire(context), Wire(context)
    talk = CONVERSATIONS[READ.name]
    polls: dict[str, bytes] = {}
    for number in range(count):
        key = f"key{number % KEYS}"
        if scene == "exchange":
            subscriber.send(polls.get(key) or talk.poll(key))
            for _ in range(HELD_PASSES):
                await asyncio.sleep(0)
            if subscriber.answer:
                raise RuntimeError(f"the poll must be held, got {subscriber.answer!r}")
            publisher.send(READ.tell(key))
            await publisher.answered()
            await subscriber.answered()
            polls[key] = talk.go_on(key, subscriber.answer)
        elif scene == "take":
            await _pass_on(publisher, key)
        else:
            if scene == "status" and number < KEYS:
                publisher.send(_submission(key, known_as=key))
                await publisher.answered()
            publisher.send(ASKED[scene](key))
            await publisher.answered()
    await app.service.aclose()


async def _pass_on(client: Wire, queue: str) -> None:
    client.send(request("POST", f"/v1/queues/{queue}/items", b'{"item": "done"}'))
    await client.answered()
    client.send(request("POST", f"/v1/queues/{queue}/take"))
    await client.answered()
    lease = client.answer.partition(b'"lease":"')[2].partition(b'"')[0].decode()
    client.send(request("POST", f"/v1/leases/{lease}/ack"))
    await client.answered()


def context_of(app: Application) -> ServerContext:
    """Return what the connections of an application share."""
    service, deadlines = app.service, Deadlines(head=10, body=30)
    return ServerContext(app, service.timer, deadlines, stderr_log(), service.held.unsent, now=service.now)


if __name__ == "__main__":
    calm_collector()
    run_on(UVLOOP, run(sys.argv[1], int(sys.argv[2])))
