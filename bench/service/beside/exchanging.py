"""Messages from a publisher to a subscriber on many channels at once: the load for every server here.

One message is two requests: it is published, which answers a held poll, and the subscriber polls again. So that the
clients cost less than the servers, this is one thread on epoll, without a loop or a task; a message costs it four
system calls and a few regular expressions. It keeps a fixed number of messages under way. A channel goes to the end
of the line after its message, so its next poll has long been held when its turn comes again.
"""

import itertools
import select
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from bench.service.answers import is_whole
from bench.service.dialects import Conversation
from bench.service.latencies import Latencies

__all__ = ["Channel", "Exchanged", "exchange"]

CHANNELS: Final = 256
UNDER_WAY: Final = 16
PATIENCE_S: Final = 30.0
_ANY_BYTES: Final = 65_536
_GOOD: Final = b"HTTP/1.1 2"


@dataclass(frozen=True, slots=True)
class Exchanged:
    """What a load measured.

    Attributes:
        messages: How many were published, each answered one poll with its text.
        wall_s: For how long.
        client_cpu_s: The processor time of the clients meanwhile.
        latencies: From publishing to the last byte of the poll's answer.
    """

    messages: int
    wall_s: float
    client_cpu_s: float
    latencies: Latencies


class End:
    """A connection with one request under way."""

    __slots__ = ("_sock", "channel", "received")

    def __init__(self, port: int, channel: "Channel", stack: ExitStack) -> None:
        self.channel = channel
        self.received = b""
        self._sock = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def fileno(self) -> int:
        """Its descriptor."""
        return self._sock.fileno()

    def ask(self, request: bytes) -> None:
        """Send a request; it is far smaller than the socket's buffer."""
        self._sock.sendall(request)

    def take(self) -> bytes:
        """Take what has come; return a whole answer, or nothing while some of it is missing.

        Raises:
            RuntimeError: The connection was closed, or the answer is a refusal.
        """
        piece = self._sock.recv(_ANY_BYTES)
        self.received += piece
        if not piece or not self.received.startswith(_GOOD):
            raise RuntimeError(f"expected an answer 2xx, got {self.received!r}")
        if not is_whole(self.received):
            return b""
        answer, self.received = self.received, b""
        return answer


class Channel:
    """A key with its publisher and its subscriber."""

    __slots__ = ("_conversation", "key", "published_ns", "publisher", "subscriber", "text", "unsettled")

    def __init__(self, port: int, key: str, conversation: Conversation, stack: ExitStack) -> None:
        self.key = key
        self.text = ""
        self.published_ns = 0
        self.unsettled = 0  # answers that are missing of the present message
        self._conversation = conversation
        self.publisher = End(port, self, stack)
        self.subscriber = End(port, self, stack)
        self.subscriber.ask(conversation.poll(key))

    def publish(self, text: str) -> None:
        """Publish the next message."""
        self.text = text
        self.unsettled = 2
        self.published_ns = time.perf_counter_ns()
        self.publisher.ask(self._conversation.publish(self.key, text))

    def hear(self, answer: bytes) -> int:
        """Check what the subscriber got, and poll on; return how long it took, in nanoseconds.

        Raises:
            RuntimeError: It is not the message that was published last.
        """
        took_ns = time.perf_counter_ns() - self.published_ns
        if not self._conversation.brings(answer.partition(b"\r\n\r\n")[2], self.text):
            raise RuntimeError(f"expected the message {self.text!r}, got {answer!r}")
        self.subscriber.ask(self._conversation.go_on(self.key, answer))
        return took_ns


def exchange(
    port: int, conversation: Conversation, stamp: str, seconds: float, settled: Callable[[], object]
) -> Exchanged:
    """Publish messages and answer polls with them as fast as it goes.

    Args:
        port: The port of the server, on this machine.
        conversation: How it is spoken to.
        stamp: Part of the keys, different in each run against the same server.
        seconds: For how long.
        settled: Called with all polls sent; returns once they are held.

    Returns:
        What was measured. Every message has come, once and in order.

    Raises:
        RuntimeError: A message is lost, late by half a minute, or another than was published; or a request was refused.
        ConnectionError: The server closed a connection.
    """
    with ExitStack() as stack:
        channels = [Channel(port, f"{stamp}-{number}", conversation, stack) for number in range(CHANNELS)]
        settled()
        ends = {end.fileno(): end for channel in channels for end in (channel.publisher, channel.subscriber)}
        epoll = stack.enter_context(select.epoll())
        for descriptor in ends:
            epoll.register(descriptor, select.EPOLLIN)
        begin, begin_cpu_s = time.perf_counter(), time.process_time()
        took_ns = _exchange(epoll, ends, channels, begin + seconds)
        wall_s, cpu_s = time.perf_counter() - begin, time.process_time() - begin_cpu_s
    return Exchanged(len(took_ns), wall_s, cpu_s, Latencies.of_ns(took_ns))


def _exchange(epoll: select.epoll, ends: dict[int, End], channels: list[Channel], until: float) -> list[int]:
    """Run the load until a time; return how long each message took, in nanoseconds."""
    numbers, idle, under_way = itertools.count(), deque(channels), 0
    took_ns: list[int] = []
    while under_way or time.perf_counter() < until:
        while under_way < UNDER_WAY and time.perf_counter() < until:
            idle.popleft().publish(f"m{next(numbers)}")
            under_way += 1
        ready = epoll.poll(PATIENCE_S)
        if not ready:
            raise RuntimeError(f"{under_way} messages have not come after {PATIENCE_S:.0f} s")
        for descriptor, _ in ready:
            end = ends[descriptor]
            answer = end.take()
            if not answer:
                continue
            channel = end.channel
            if end is channel.subscriber:
                took_ns.append(channel.hear(answer))
            channel.unsettled -= 1
            if not channel.unsettled:
                idle.append(channel)
                under_way -= 1
    return took_ns
