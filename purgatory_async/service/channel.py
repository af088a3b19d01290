"""The connection between the supervisor and one of its workers: whole messages, in order, over a socket pair.

Each end reads the end of the stream when the other process is gone, however it ended.
"""

import asyncio
import socket
import struct
from collections.abc import Mapping
from typing import Any, Final

import msgspec

MOST_UNREAD: Final = 4_194_304  # unread bytes of a stopped process beyond which it is asked nothing more

DRAIN: Final = "drain"
"""The question that begins the drain of all workers."""
_SIZE: Final = struct.Struct(">I")


class Serving(msgspec.Struct, tag=True):
    """To all workers: which of them serve, of how many, and whether all were ready at some time."""

    workers: list[int]
    total: int
    complete: bool


class Start(msgspec.Struct, tag=True):
    """To a new worker, first: its number, from 1; its settings by name; who serves, so that it knows before it accepts.

    ``rates`` is the descriptor of the file in which all workers count requests; None without tokens. ``epoch`` is the
    store's, as a worker reported it last; empty before, as the first workers create it.
    """

    number: int
    settings: Mapping[str, Any]
    serving: Serving
    rates: int | None = None
    epoch: str = ""


class Forwarded(msgspec.Struct, tag=True):
    """To all workers: the supervisor got this signal; ``repeated`` if another one to stop came before."""

    signal: int
    repeated: bool = False


class Ready(msgspec.Struct, tag=True):
    """From a worker: it accepts connections."""


class Epoch(msgspec.Struct, tag=True):
    """From a worker: it has loaded the state of this epoch."""

    epoch: str


class Refused(msgspec.Struct, tag=True):
    """From a worker, last: why it ends with an exit code that another start would not change."""

    reason: str


class Ask(msgspec.Struct, tag=True):
    """From a worker to all others, by way of the supervisor; answered with the same number."""

    what: str
    worker: int
    number: int


class Answer(msgspec.Struct, tag=True):
    """To the worker that asked, by way of the supervisor; ``worker`` is the one that answers."""

    to: int
    number: int
    worker: int
    body: bytes


Message = Start | Serving | Forwarded | Ready | Epoch | Refused | Ask | Answer

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final[msgspec.msgpack.Decoder[Message]] = msgspec.msgpack.Decoder(Message)


class _EndingStream(asyncio.StreamReaderProtocol):
    """A stream that ends when the other process is gone, also with bytes unread: no error waits to be fetched."""

    def connection_lost(self, exc: Exception | None) -> None:
        """End the stream."""
        super().connection_lost(None if isinstance(exc, ConnectionError) else exc)


class Channel:
    """One end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, sock: socket.socket) -> "Channel":
        """Make an end of a connected socket, which it then owns."""
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
        transport, protocol = await loop.create_unix_connection(lambda: _EndingStream(reader), sock=sock)
        return cls(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    def send(self, message: Message) -> None:
        """Send a message without waiting; it is dropped if the other end is gone.

        A question or answer is also dropped if the other end has stopped reading.
        """
        transport = self._writer.transport
        if transport.is_closing():
            return
        if isinstance(message, Ask | Answer) and transport.get_write_buffer_size() > MOST_UNREAD:
            return
        data = _ENCODER.encode(message)
        self._writer.write(_SIZE.pack(len(data)) + data)

    async def receive(self) -> Message | None:
        """Return the next message, or None once the other process is gone."""
        try:
            (size,) = _SIZE.unpack(await self._reader.readexactly(_SIZE.size))
            return _DECODER.decode(await self._reader.readexactly(size))
        except asyncio.IncompleteReadError:
            return None

    def close(self) -> None:
        """Close; what is buffered is still sent while the loop runs."""
        self._writer.close()

    async def aclose(self) -> None:
        """Close, and wait until what was buffered is sent."""
        self.close()
        await self._writer.wait_closed()
