"""Two ends of a connection in memory, for code that takes asyncio's streams."""

import asyncio
from collections import deque
from typing import Any, Final, NamedTuple

from purgatory_async.clock import Clock, check_delay, describe, seconds_to_ns

_HIGH_WATER: Final = 64 * 1024  # bytes on their way, as asyncio's own transports


class Streams(NamedTuple):
    """One end of a `stream_pair`."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


def stream_pair(*, clock: Clock | None = None, delay: float = 0.0) -> "StreamPair":
    r"""Make a connection in memory, as `asyncio.open_connection` and a server's callback have of a real one.

    What one end writes, the other reads in order; a writer that is far ahead waits in ``drain``. Call it on a loop.

    Args:
        clock: Measures ``delay``; if not given, the loop does, which may be a `VirtualTimeLoop`.
        delay: Seconds that bytes, and the end of a stream, are on their way. Zero: until the loop's next turn.

    Raises:
        TypeError, ValueError: ``delay`` is not a number, or negative, NaN or infinite; ``clock`` is no clock.
        RuntimeError: No loop is running.

    >>> async def main():
    ...     pair = stream_pair()
    ...     pair.left.writer.write(b"ping\n")
    ...     print(await pair.right.reader.readline())
    ...     pair.cut()
    ...     try:
    ...         await pair.right.reader.readline()
    ...     except ConnectionResetError as error:
    ...         print(error)
    >>> asyncio.run(main())
    b'ping\n'
    the connection was cut
    """
    if clock is not None and not isinstance(clock, Clock):
        raise TypeError(f"clock must have time_ns and call_at_ns, as a ManualClock has, got {clock!r}")
    seconds = check_delay("delay", delay)
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"delay must be finite and not negative, got {describe(delay)}")
    return StreamPair(clock, seconds_to_ns(seconds))


class StreamPair:
    """Both ends of a connection in memory; made by `stream_pair`."""

    __slots__ = ("__weakref__", "_ways", "left", "right")

    left: Streams
    """One end."""
    right: Streams
    """The other end."""

    def __init__(self, clock: Clock | None, delay_ns: int) -> None:
        loop = asyncio.get_running_loop()
        left, right = _End(loop), _End(loop)
        left.way = right.back = _Way(clock, delay_ns, left, right)
        right.way = left.back = _Way(clock, delay_ns, right, left)
        self._ways = (left.way, right.way)
        self.left, self.right = left.streams, right.streams

    def __repr__(self) -> str:
        right, left = self._ways
        state = " stalled" if left.stalled else ""
        return f"<StreamPair{state} on_the_way={right.waiting} to the right, {left.waiting} to the left>"

    def cut(self) -> None:
        """Lose the connection at once: what is on its way is lost, both ends raise `ConnectionResetError`."""
        for way in self._ways:
            way.source.lose(ConnectionResetError("the connection was cut"))

    def half_close(self, end: int = 0) -> None:
        """Let one end write no more, as ``write_eof``: the other reads what is on its way, then the end, and may write.

        Args:
            end: 0 for the left end, 1 for the right one.

        Raises:
            ValueError: ``end`` is another number.
        """
        if end not in (0, 1):
            raise ValueError(f"end must be 0 for the left end or 1 for the right one, got {end!r}")
        self._ways[end].source.write_eof()

    def stall(self) -> None:
        """Deliver nothing more in either direction until `resume`, as when a network is gone without a sign."""
        for way in self._ways:
            way.stalled = True

    def resume(self) -> None:
        """Deliver again, first what has become due meanwhile."""
        for way in self._ways:
            way.stalled = False
            way.deliver()


class _Way:
    """Carries bytes, and behind them the end of the stream, from one end to the other."""

    def __init__(self, clock: Clock | None, delay_ns: int, source: "_End", target: "_End") -> None:
        self._clock = clock
        self._delay_ns = delay_ns
        self.source = source
        self._target = target
        self._sent: deque[bytes] = deque()  # an empty one is the end of the stream
        self._arrived = 0  # how many of them may be delivered
        self.waiting = 0  # bytes not delivered
        self.stalled = False

    def send(self, data: bytes) -> None:
        """Send bytes, or with none the end of the stream."""
        self._sent.append(data)
        self.waiting += len(data)
        if not self._delay_ns:
            self.source.loop.call_soon(self._arrive)
        elif self._clock is None:
            self.source.loop.call_later(self._delay_ns / 1e9, self._arrive)
        else:
            self._clock.call_at_ns(self._clock.time_ns() + self._delay_ns, self._arrive)

    def _arrive(self) -> None:
        self._arrived += 1
        self.deliver()

    def deliver(self) -> None:
        """Deliver what has arrived, unless the connection is stalled, or the reader has enough."""
        while self._arrived and self._sent and not self.stalled and self._target.reads:
            self._arrived -= 1
            data = self._sent.popleft()
            self.waiting -= len(data)
            self._target.receive(data)
        self.source.flow()


class _End(asyncio.Transport):
    """The transport of one end, which asyncio's streams call."""

    way: _Way  # from here to the other end
    back: _Way

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__({"peername": "stream_pair"})
        self.loop = loop
        self.reads = True
        self._ended = self._closing = self._lost = self._full = False
        self._high = _HIGH_WATER
        reader = asyncio.StreamReader(loop=loop)
        self._protocol: Any = asyncio.StreamReaderProtocol(reader, loop=loop)
        self._protocol.connection_made(self)
        self.streams = Streams(reader, asyncio.StreamWriter(self, self._protocol, reader, loop))

    def receive(self, data: bytes) -> None:
        """Take bytes, or the end of the stream, from the other end."""
        if self.is_closing():
            if data:  # as TCP answers what is not read
                self.back.source.lose(ConnectionResetError("the other end has closed the connection"))
        elif data:
            self._protocol.data_received(data)
        elif not self._protocol.eof_received():
            self.close()

    def lose(self, error: Exception | None) -> None:
        """End, with an error unless it was closed here."""
        if not self._lost:
            self._lost = True
            self._protocol.connection_lost(error)

    def flow(self) -> None:
        """Let the writer go on, or wait in ``drain``, by what is on its way."""
        if not self._full and self.way.waiting > self._high:
            self._full = True
            self._protocol.pause_writing()
        elif self._full and self.way.waiting <= self._high // 4:
            self._full = False
            self._protocol.resume_writing()

    def write(self, data: Any) -> None:
        """Send bytes; lost once the connection is."""
        if self._ended:
            raise RuntimeError("cannot write after the end of the stream was written")
        if data and not self.is_closing():
            self.way.send(bytes(data))
            self.flow()

    def can_write_eof(self) -> bool:
        """Whether one end may end its stream and read on: yes."""
        return True

    def write_eof(self) -> None:
        """Send the end of the stream, once."""
        if not self._ended and not self.is_closing():
            self._ended = True
            self.way.send(b"")

    def is_closing(self) -> bool:
        """Whether it was closed here, or lost."""
        return self._closing or self._lost

    def close(self) -> None:
        """End both streams; what was written is still delivered."""
        if not self.is_closing():
            self.write_eof()
            self._closing = True
            self.loop.call_soon(self.lose, None)

    def abort(self) -> None:
        """End both streams, and lose what is on its way."""
        self.back.source.lose(ConnectionResetError("the other end has aborted the connection"))
        self.lose(None)

    def pause_reading(self) -> None:
        """Take nothing more for now."""
        self.reads = False

    def resume_reading(self) -> None:
        """Take what has arrived meanwhile."""
        self.reads = True
        self.back.deliver()

    def is_reading(self) -> bool:
        """Whether it takes what arrives."""
        return self.reads

    def get_write_buffer_size(self) -> int:
        """How many bytes are not delivered."""
        return self.way.waiting

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:  # noqa: ARG002 - asyncio's
        """Set above how many bytes on their way a writer waits in ``drain``."""
        self._high = _HIGH_WATER if high is None else high
        self.flow()

    def get_protocol(self) -> asyncio.BaseProtocol:
        """What it tells of bytes and the end."""
        return self._protocol  # type: ignore[no-any-return]  # asyncio's streams have one

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Tell another one."""
        self._protocol = protocol
