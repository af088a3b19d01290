"""Calls over a TCP connection that is pinged while quiet, given up when its peer falls silent, and made again.

`Link` joins `Correlator`, `Heartbeat` and `Retrier`; copy it. Replies come in any order, too late, as errors, or never
because the connection is lost; none of these leaves anything to clean up. A call in flight at a loss fails, since only
its caller knows whether it may be done twice; one that comes before the next connection waits for that.

The wire is JSON, a message a line; one without an id is a ping or its answer. Sockets and time are real, with intervals
much shorter than in production. It does not limit calls in flight (give the purgatory a ``max_pending``), and trusts
its peer.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Self

from purgatory_async import OperationExpired, Purgatory, Timer
from purgatory_async.patterns import Correlator, Heartbeat, Retrier

PING_S = 0.2  # in production 20 seconds
RETRY_S = 0.05  # in production a second

Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class RemoteError(Exception):
    """An error that the peer reports."""


class Link:
    """Calls to one peer, within ``async with``; ``connect`` makes a connection to it, or raises."""

    def __init__(self, connect: Connect, timer: Timer) -> None:
        self.connect = connect
        self.purgatory = Purgatory("calls", timer=timer)
        self.calls: Correlator[Any] = Correlator(self.purgatory)
        self.retrier: Retrier[str] = Retrier(timer, attempts=None, delay=RETRY_S, jitter=1.0)
        self.connection: tuple[asyncio.StreamWriter, Heartbeat] | None = None

    async def __aenter__(self) -> Self:
        self.keeping = asyncio.create_task(self.retrier.run("connection", self.keep_connection))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.calls.close(ConnectionError("the link is closed"))
        self.purgatory.close()
        self.keeping.cancel()
        await asyncio.gather(self.keeping, return_exceptions=True)

    async def call(self, method: str, *arguments: int, timeout: float = 5) -> Any:
        """Call a method and wait for its result; the timeout is over connecting, sending and the reply."""

        async def send(number: int) -> None:
            writer, heartbeat = await self.purgatory.wait("connection", until=lambda: self.connection)
            heartbeat.saw_write()
            writer.write(encode(id=number, method=method, arguments=arguments))
            await writer.drain()

        return await self.calls.request(send, timeout=timeout)

    async def keep_connection(self) -> None:
        """Make a connection and serve it; raise when it is lost, so that the retrier makes the next."""
        reader, writer = await self.connect()
        ping, abort = partial(writer.write, encode()), writer.transport.abort
        try:
            async with Heartbeat(
                self.purgatory.timer, interval=PING_S, send=ping, on_dead=abort
            ) as heartbeat:
                self.connection = writer, heartbeat
                self.purgatory.check_and_complete("connection")
                await self.listen(reader, heartbeat)
        except Exception as loss:
            self.calls.fail_all(loss)
            raise
        finally:
            self.connection = None
            abort()

    async def listen(self, reader: asyncio.StreamReader, heartbeat: Heartbeat) -> None:
        """Give each reply to the call that expects it; raise at the end of the connection."""
        async for line in reader:
            heartbeat.saw_read()
            message = json.loads(line)
            if "error" in message:
                self.calls.reject(message["id"], RemoteError(message["error"]))
            elif "id" in message:
                self.calls.resolve(message["id"], message["result"])
        raise ConnectionError("the peer hung up" if heartbeat.alive else "the peer fell silent")


def encode(**message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer pings; add and divide at once, and laborious calls on "finish"; fall silent or hang up when asked to."""
    unfinished: list[int] = []
    async for line in reader:
        request = json.loads(line)
        number = request.get("id")
        match request.get("method"), request.get("arguments"):
            case None, _:
                writer.write(encode())
            case "add", numbers:
                writer.write(encode(id=number, result=sum(numbers)))
            case "divide", [dividend, 0]:
                writer.write(encode(id=number, error=f"{dividend} cannot be divided by 0"))
            case "laborious", _:
                unfinished.append(number)
            case "finish", _:
                writer.writelines(encode(id=each, result="finished") for each in (*unfinished, number))
                unfinished.clear()
            case "fall silent", _:
                await reader.read()
            case "hang up", _:
                break
    writer.close()


async def show(link: Link) -> None:
    async def call(what: str, *arguments: int, **options: Any) -> None:
        try:
            print(f"{what}: {await link.call(what, *arguments, **options)}")
        except (RemoteError, OperationExpired, ConnectionError) as error:
            print(f"{what}: {type(error).__name__}: {error}")

    await call("add", 2, 3)
    await call("divide", 1, 0)
    async with asyncio.TaskGroup() as calls:
        first = calls.create_task(call("laborious"))
        await call("add", 2, 4)
        print(f"the reply to the second call is here, the first one's {'too' if first.done() else 'not'}")
        await call("finish")

    await call("laborious", timeout=0.05)
    await call("finish")
    print(f"replies that came too late: {link.calls.late}, unknown: {link.calls.unknown}")

    for wish in ("fall silent", "hang up"):
        async with asyncio.TaskGroup() as calls:
            calls.create_task(call("laborious"))
            calls.create_task(call(wish))
        await call("add", 3, 3)


async def main() -> None:
    timer = Timer()
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        link = Link(partial(asyncio.open_connection, *server.sockets[0].getsockname()), timer)
        link.retrier.on_failure = lambda _, error, number: print(f"connection {number} is lost: {error}")
        async with link:
            await show(link)
    print(f"left behind: {link.purgatory.pending} calls, {timer.pending} in the timer")
    timer.close()


if __name__ == "__main__":
    asyncio.run(main())
