"""Many clients, each with a connection of its own and one request that is held."""

import asyncio
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from resource import RLIMIT_NOFILE, getrlimit, setrlimit
from typing import cast

from bench.service.answers import Answer, take_answer

__all__ = ["Crowd", "Poll", "all_files", "source_address"]

PATIENCE_S = 120.0
AT_ONCE = 100  # connections that are being made at a time
# A source address has about 28 000 ports, some of them in use by others.
PER_ADDRESS = 5_000
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, for no time


def source_address(number: int) -> str:
    """Return the loopback address from which a client connects, by its number; 127.0.0.1 is left to others."""
    return f"127.0.0.{2 + number // PER_ADDRESS}"


@contextmanager
def all_files() -> Iterator[None]:
    """Let this process have as many files as the system allows, for the length of the block."""
    soft, hard = getrlimit(RLIMIT_NOFILE)
    setrlimit(RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        setrlimit(RLIMIT_NOFILE, (soft, hard))


class Poll(asyncio.Protocol):
    """One client: asks once.

    Attributes:
        answer: None until all of it has come.
        answered_ns: When its last byte had come, by `time.perf_counter_ns`.
    """

    __slots__ = ("_buffer", "_crowd", "_request", "answer", "answered_ns", "transport")

    def __init__(self, crowd: "Crowd", request: bytes) -> None:
        self.answer: Answer | None = None
        self.answered_ns = 0
        self._crowd = crowd
        self._request = request
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Note the time of the answer."""
        now_ns = time.perf_counter_ns()
        self._buffer += data
        self.answer = take_answer(self._buffer)
        if self.answer is not None:
            self.answered_ns = now_ns
            self._crowd.settle()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - however it went, it is gone
        """Count who goes without an answer."""
        if self.answer is None:
            self._crowd.settle()


class Crowd:
    """Polls that are held at the same time.

    Args:
        number: How many there will be.

    Attributes:
        polls: In the order of their requests.
        unsettled: How many were neither answered nor closed.
    """

    def __init__(self, number: int) -> None:
        self.polls: list[Poll] = []
        self.unsettled = number
        self._all_settled = asyncio.Event()

    @classmethod
    async def gather(cls, port: int, requests: Sequence[bytes]) -> "Crowd":
        """Connect and ask, a hundred clients at a time.

        Args:
            port: The port of the server, on this machine.
            requests: One for each client.

        Returns:
            All of them, connected; the server may not have read all requests yet.

        Raises:
            OSError: A connection cannot be made.
        """
        crowd = cls(len(requests))
        pending = iter(zip(count(), requests, strict=False))
        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(AT_ONCE, len(requests))):
                tasks.create_task(crowd._connect(port, pending))
        return crowd

    async def _connect(self, port: int, pending: Iterable[tuple[int, bytes]]) -> None:
        for number, request in pending:
            await self._open(port, number, request)

    async def _open(self, port: int, number: int, request: bytes) -> None:
        poll = Poll(self, request)
        self.polls.append(poll)
        loop, source = asyncio.get_running_loop(), (source_address(number), 0)
        await loop.create_connection(lambda: poll, "127.0.0.1", port, local_addr=source)

    def settle(self) -> None:
        """Note that one more was answered, or closed without an answer."""
        self.unsettled -= 1
        if not self.unsettled:
            self._all_settled.set()

    async def all_settled(self, patience_s: float = PATIENCE_S) -> None:
        """Wait until every poll was answered or closed.

        Raises:
            TimeoutError: Some were not for so many seconds.
        """
        try:
            async with asyncio.timeout(patience_s):
                await self._all_settled.wait()
        except TimeoutError:
            raise TimeoutError(
                f"{self.unsettled} polls are neither answered nor closed after {patience_s:.0f} s"
            ) from None

    def statuses(self) -> list[int | None]:
        """What each was answered; None for nothing."""
        return [None if poll.answer is None else poll.answer.status for poll in self.polls]

    def reset(self) -> None:
        """Abort every connection with a reset, so that no port stays taken either."""
        for poll in self.polls:
            if not poll.transport.is_closing():
                sock = cast("socket.socket", poll.transport.get_extra_info("socket"))
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                poll.transport.abort()

    def hang_up(self) -> None:
        """Close every connection, as a client that ends does."""
        for poll in self.polls:
            poll.transport.close()
