"""Remote calls over one TCP connection: the table of calls in flight, by request id.

Replies come in any order, too late, as errors, or never because the connection is lost; none of these leaves
anything to clean up. The wire is JSON, a message a line. It does not reconnect (retry_and_heartbeat.py does),
does not limit calls in flight (give the purgatory a ``max_pending``), and trusts its peer.
"""

import asyncio
import json
from itertools import count
from typing import Any

from purgatory_async import OperationExpired, Purgatory
from purgatory_async.patterns import Correlator


class RemoteError(Exception):
    """An error that the server reports."""


class Client:
    """Calls methods of a server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.calls = Purgatory("calls")
        self.replies: Correlator[Any] = Correlator(self.calls)
        self.writer = writer
        self.ids = count(1)
        self.listener = asyncio.create_task(self.listen(reader))

    async def call(self, method: str, *arguments: int, timeout: float = 5, number: int | None = None) -> Any:
        """Call a method and wait for its result."""
        number = next(self.ids) if number is None else number
        # Expect the reply before sending, so that none is too early; a failed send withdraws it.
        with self.replies.expect(number, timeout) as reply:
            await send(self.writer, id=number, method=method, arguments=arguments)
            return await reply

    async def listen(self, reader: asyncio.StreamReader) -> None:
        """Give each reply to the call that expects it, until the connection ends."""
        try:
            async for line in reader:
                message = json.loads(line)
                if "error" in message:
                    self.replies.reject(message["id"], RemoteError(message["error"]))
                else:
                    self.replies.resolve(message["id"], message["result"])
        finally:
            failed = self.replies.close(ConnectionError("the connection was lost"))
            print(f"the connection has ended; calls in flight: {failed}")

    async def close(self) -> None:
        """Close the connection; calls in flight fail."""
        self.writer.close()
        await self.listener
        self.calls.close()


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Add and divide at once; answer laborious calls on "finish"; disconnect on "hang up"."""
    unfinished: list[int] = []
    async for line in reader:
        request = json.loads(line)
        match request["method"], request["arguments"]:
            case "add", numbers:
                await send(writer, id=request["id"], result=sum(numbers))
            case "divide", [dividend, 0]:
                await send(writer, id=request["id"], error=f"{dividend} cannot be divided by 0")
            case "laborious", _:
                unfinished.append(request["id"])
            case "finish", _:
                for number in (*unfinished, request["id"]):
                    await send(writer, id=number, result="finished")
                unfinished.clear()
            case "hang up", _:
                break
    writer.close()


async def send(writer: asyncio.StreamWriter, **message: Any) -> None:
    writer.write(json.dumps(message).encode() + b"\n")
    await writer.drain()


async def show(client: Client) -> None:
    async def show_call(what: str, *arguments: int, **options: Any) -> None:
        try:
            print(f"{what}: {await client.call(what, *arguments, **options)}")
        except (RemoteError, OperationExpired, ConnectionError, ValueError) as error:
            print(f"{what}: {type(error).__name__}: {error}")

    async with asyncio.TaskGroup() as calls:
        first = calls.create_task(show_call("laborious"))
        await show_call("add", 2, 3)
        print(f"the reply to the second call is here, the first one's {'too' if first.done() else 'not'}")
        await client.call("finish")

    await show_call("laborious", timeout=0.05)
    await client.call("finish")
    print(f"replies that came too late: {client.replies.late}")

    await show_call("divide", 1, 0)

    async with asyncio.TaskGroup() as calls:
        calls.create_task(show_call("laborious", number=100))
        await asyncio.sleep(0)
        await show_call("add", 1, 1, number=100)
        calls.create_task(show_call("hang up"))
    await show_call("add", 1, 1)


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        client = Client(*await asyncio.open_connection(*server.sockets[0].getsockname()))
        await show(client)
        await client.close()
    print(f"left behind: {client.calls.pending} calls")


if __name__ == "__main__":
    asyncio.run(main())
