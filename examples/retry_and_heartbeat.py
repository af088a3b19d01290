"""A link that is pinged while it is quiet, given up when its peer says nothing any more, and made again.

The sockets are real, and so is the time, in much shorter intervals than one would take: virtual time would not wait
for an answer that is on its way. It does not send again what was lost with the old link, and does not choose
where to connect to: that is up to a registry, which has the last word here.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from purgatory_async import Purgatory, Timer
from purgatory_async.patterns import Heartbeat, Periodic, Retrier

PING_S = 0.06  # in earnest a minute
RETRY_S = 0.1  # in earnest five seconds
REPORT_S = 0.02


class Peer:
    """Answers so many pings; then it freezes, or hangs up at the next. Its address is known before it is up."""

    def __init__(self, name: str, *, answers: int, freezes: bool) -> None:
        self.name = name
        self.answers = answers
        self.freezes = freezes
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))

    async def start(self) -> asyncio.Server:
        """Be up."""
        return await asyncio.start_server(self.serve, sock=self.socket)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hear the pings of one link."""
        async for _ in reader:
            if self.answers:
                self.answers -= 1
                writer.write(b"pong\n")
            elif not self.freezes:
                break
        writer.close()


class Link:
    """Connected to one peer or to nobody, and never content with the latter."""

    def __init__(self, timer: Timer) -> None:
        self.timer = timer
        self.retrier: Retrier[str] = Retrier(timer, delay=RETRY_S, attempts=3)
        self.changes = Purgatory("changes of the link", timer=timer)
        self.peer = self.reported = "nobody"
        self.refusals = self.answers = 0

    async def connect(self, peer: Peer) -> None:
        """Make the link, or raise."""
        try:
            reader, writer = await asyncio.open_connection(*peer.socket.getsockname())
        except ConnectionError:
            self.refusals += 1
            self.tell(f"{peer.name} refuses the connection")
            raise
        self.peer = peer.name
        self.tell(f"connected to {peer.name}")
        self.talking = asyncio.create_task(self.talk_to(peer, reader, writer))

    async def talk_to(self, peer: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The life of one connection; when it ends, another is wanted."""

        def ping() -> None:
            self.tell(f"ping {peer.name}")
            writer.write(b"ping\n")

        async with Heartbeat(self.timer, interval=PING_S, send=ping, on_dead=writer.close) as heartbeat:
            with suppress(ConnectionError):
                async for _ in reader:
                    heartbeat.saw_read()
                    self.answers += 1
                    self.tell(f"{peer.name} answers")
        writer.close()
        self.peer = "nobody"
        self.retrier.submit("link", partial(self.connect, peer))
        self.tell(
            f"{peer.name} {'has hung up' if heartbeat.alive else 'is dead'}; to do: connect to it again"
        )

    def tell(self, what: str) -> None:
        """Say what has happened, and let those go on who waited for it."""
        print(what)
        self.changes.check_and_complete("link")

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something to happen."""
        await self.changes.wait("link", until=condition, timeout=5)

    def report(self) -> None:
        """Say whom it is connected to, if that is news."""
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
        await link.until(lambda: link.peer == "nobody")
        link.retrier.submit("link", partial(link.connect, standby))
        print("the registry: connect to standby instead")
        await link.until(lambda: link.refusals > 0)
        async with await standby.start():
            await link.until(lambda: link.peer == "standby" and link.answers == 3)
            reports.close()
            await link.until(lambda: link.peer == "nobody")
    undone = await link.retrier.aclose()
    link.changes.close()
    print(f"left undone: {', '.join(undone)}; left behind in the timer: {timer.pending}")
    timer.close()


if __name__ == "__main__":
    asyncio.run(main())
