"""Three ways to restart the service on a port that clients go on using."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from bench.service.passing import PASSING
from bench.service.served import LOOK_S, Served

__all__ = ["PATIENCE_S", "WAYS", "Restarted", "passed", "supervised"]

PATIENCE_S = 300.0  # a start takes long on a machine that is busy with the clients
BACKLOG = 4096  # systemd's, as far as the system allows


@dataclass(frozen=True, slots=True)
class Restarted:
    """A service that can be restarted.

    Attributes:
        port: Where it listens all the while.
        restart: Restarts it; returns once the new process serves and the old one has ended.
    """

    port: int
    restart: Callable[[], Awaitable[None]]


def _given(descriptor: int) -> Served:
    return Served(str(descriptor), command=PASSING, descriptors=[descriptor])


@asynccontextmanager
async def passed(serve: Callable[[int], Served] = _given) -> AsyncIterator[Restarted]:
    """A process stops, then the next one starts; this process holds the socket, as systemd does.

    Args:
        serve: Makes the next server, from the descriptor of the socket.
    """
    with ExitStack() as stack:
        sock = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=BACKLOG))

        async def start() -> Served:
            return await _entered(stack, serve(sock.fileno()))

        served = await start()

        async def restart() -> None:
            nonlocal served
            await _stopped(served)
            served = await start()

        yield Restarted(served.port, restart)


@asynccontextmanager
async def supervised() -> AsyncIterator[Restarted]:
    """Of two workers the older stops, and the supervisor starts another in its place."""
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        flags = ("--workers", "2", "--store", f"sqlite:///{folder}/state.db")
        served = await _entered(stack, Served(*flags))

        async def restart() -> None:
            listening = served.logged("listening")
            os.kill(served.children()[0], signal.SIGTERM)
            async with asyncio.timeout(PATIENCE_S):
                while served.logged("listening") == listening:  # noqa: ASYNC110 - a log has no event
                    await asyncio.sleep(LOOK_S)

        yield Restarted(served.port, restart)


@asynccontextmanager
async def handed_over() -> AsyncIterator[Restarted]:
    """The next process starts with ``--reuse-port`` beside the one before, which then stops."""
    with ExitStack() as stack:
        served = await _entered(stack, Served("--reuse-port"))
        port = served.port

        async def restart() -> None:
            nonlocal served
            before = served
            served = await _entered(stack, Served("--port", str(port), "--reuse-port"))
            await _stopped(before)

        yield Restarted(port, restart)


async def _entered(stack: ExitStack, served: Served) -> Served:
    # In a thread: it waits for the process, and the clients must go on.
    return await asyncio.to_thread(stack.enter_context, served)


async def _stopped(served: Served) -> None:
    served.terminate()
    async with asyncio.timeout(PATIENCE_S):
        await served.exited()
    if served.process.returncode:
        raise RuntimeError(f"the service must exit with 0, got {served.process.returncode}")


WAYS = {
    "socket passed, as by systemd": passed,
    "one of two workers": supervised,
    "handed over with --reuse-port": handed_over,
}
