"""A link that is pinged while quiet, given up when its peer falls silent, and made again.

Sockets and time are real, because virtual time does not wait for the network; the intervals are much shorter
than in production. It does not resend what the old link lost. A registry chooses the peer.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from purgatory_async import Purgatory, Timer
from purgatory_async.patterns import Heartbeat, Periodic, Retrier

PING_S = 0.06  # in production a minute
RETRY_S = 0.1  # in production five seconds
REPORT_S = 0.02


class Peer:
    """Answers a number of pings, then freezes or hangs up. Its address is known before it starts."""

    def __init__(self, name: str, *, answers: int, freezes: bool) -> None:
        self.name = name
        self.answers = answers
        self.freezes = freezes
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))

    async def start(self) -> asyncio.Server:
        """Start to listen."""
        return await asyncio.start_server(self.serve, sock=self.socket)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the pings of one link."""
        async for _ in reader:
            if self.answers:
                self.answers -= 1
                writer.write(b"pong\n")
            elif not self.freezes:
                break
        writer.close()


class Link:
    """Connected to one peer; connects again after a loss."""

    def __init__(self, timer: Timer) -> None:
        self.timer = timer
        self.retrier: Retrier[str] = Retrier(timer, delay=RETRY_S, attempts=3)
        self.changes = Purgatory("changes of the link", timer=timer)
        self.peer = self.reported = "none"
        self.refusals = self.answers = 0

    async def connect(self, peer: Peer) -> None:
        """Make the link, or raise."""
        try:
            reader, writer = await asyncio.open_connection(*peer.socket.getsockname())
        except ConnectionError:
            self.refusals += 1
            self.changed(f"{peer.name} refuses the connection")
            raise
        self.peer = peer.name
        self.changed(f"connected to {peer.name}")
        self.talking = asyncio.create_task(self.talk_to(peer, reader, writer))

    async def talk_to(self, peer: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection; when it ends, submit the next."""

        def ping() -> None:
            self.changed(f"ping {peer.name}")
            writer.write(b"ping\n")

        async with Heartbeat(self.timer, interval=PING_S, send=ping, on_dead=writer.close) as heartbeat:
            with suppress(ConnectionError):
                async for _ in reader:
                    heartbeat.saw_read()
                    self.answers += 1
                    self.changed(f"{peer.name} answers")
        writer.close()
        self.peer = "none"
        self.retrier.submit("link", partial(self.connect, peer))
        self.changed(
            f"{peer.name} {'has hung up' if heartbeat.alive else 'is dead'}; to do: connect to it again"
        )

    def changed(self, what: str) -> None:
        """Print what happened, and wake the tasks that wait for it."""
        print(what)
        self.changes.check_and_complete("link")

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition of the link holds."""
        await self.changes.wait("link", until=condition, timeout=5)

    def report(self) -> None:
        """Print a new peer."""
        if self.peer != self.reported:
            self.reported = self.peer
            print(f"report: connected to {self.peer}")


async def main() -> None:
    primary = Peer("primary", answers=2, freezes=True)
    standby = Peer("standby", answers=1, freezes=False)
    timer = Timer()
    link = Link(timer)
    async with await primary.start(), Periodic(timer, REPORT_S, link.report) as reports:
        await link.connect(primary)
        await link.until(lambda: link.peer == "none")
        link.retrier.submit("link", partial(link.connect, standby))
        print("the registry: connect to standby instead")
        await link.until(lambda: link.refusals > 0)
        async with await standby.start():
            await link.until(lambda: link.peer == "standby" and link.answers == 3)
            reports.close()
            await link.until(lambda: link.peer == "none")
    undone = await link.retrier.aclose()
    link.changes.close()
    print(f"left undone: {', '.join(undone)}; left behind in the timer: {timer.pending}")
    timer.close()


if __name__ == "__main__":
    asyncio.run(main())
