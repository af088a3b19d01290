"""One connection: its requests in order, one at a time, as Kafka serves them.

A request that must wait holds those behind it. Reading goes on meanwhile, up to a bound, because that is how a client
that has gone is noticed; its held request is cancelled then, and leaves its purgatory at once.
"""

import asyncio
import logging
from collections.abc import Awaitable
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from purgatory_async.kafka import wire
from purgatory_async.kafka.absent import Absence
from purgatory_async.kafka.api import Answer, Api
from purgatory_async.kafka.client import Client
from purgatory_async.kafka.errors import ErrorCode, MalformedRequestError
from purgatory_async.kafka.frames import Frame, FrameReader
from purgatory_async.kafka.inbox import Inbox
from purgatory_async.kafka.node import Node
from purgatory_async.kafka.requests import APIS, UNLISTED

if TYPE_CHECKING:
    from purgatory_async import TimerHandle

__all__ = ["Connection", "Listener"]

_LOG: Final = logging.getLogger(__name__)
_MAX_AHEAD_BYTES: Final = 1 << 20  # of requests behind a held one, before reading pauses
_JOINED_BYTES: Final = 1 << 16  # up to here one copy costs less than sending the parts


class Listener(Protocol):
    """What connections share: the broker that accepted them."""

    @property
    def node(self) -> Node:
        """What requests are about."""
        ...

    @property
    def scratch(self) -> memoryview:
        """Where connections receive, one at a time."""
        ...

    @property
    def inbox(self) -> Inbox:
        """Counts the memory of requests that are not served yet."""
        ...

    def opened(self, connection: "Connection") -> bool:
        """Count a connection; False refuses it."""
        ...

    def answer(self, api: Api, request: Any, client: Client) -> Answer | Awaitable[Answer]:
        """Serve a request."""
        ...

    def lost(self, connection: "Connection") -> None:
        """Forget a connection whose held request has ended too."""
        ...


class Connection(asyncio.BufferedProtocol):
    """The broker's end of a client's connection.

    Args:
        listener: The broker.
    """

    __slots__ = (
        *("_client", "_frames", "_heard_at", "_held", "_idle", "_listener", "_paused", "_reading"),
        "_transport",
    )

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._frames = FrameReader(
            listener.scratch,
            listener.node.settings.max_frame_bytes,
            listener.inbox,
            resumed=self._limit_reading,
            cut=self._close_stalled,
        )
        self._client = Client("", "")
        self._held: asyncio.Task[None] | None = None
        self._paused = False  # the client does not take its answers
        self._reading = True
        self._heard_at = listener.node.timer.time()
        self._idle: TimerHandle | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, unless the broker is full."""
        self._transport = cast("asyncio.Transport", transport)
        peer: object = transport.get_extra_info("peername")
        self._client = Client("", cast("tuple[str, int]", peer)[0] if isinstance(peer, tuple) else "")
        if not self._listener.opened(self):
            self._transport.abort()
        elif (idle_timeout := self._listener.node.settings.idle_timeout) < inf:
            self._idle = self._listener.node.timer.call_later(idle_timeout, self._close_if_idle)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - as asyncio calls it
        """Cancel the held request; those behind it are dropped."""
        self._frames.clear()
        if self._idle is not None:
            self._idle.cancel()
        if self._held is None:
            self._listener.lost(self)
        else:
            self._held.add_done_callback(self._released)
            self._held.cancel()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - as asyncio calls it
        """Return the memory to receive into."""
        return self._frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Serve what has arrived."""
        self._heard_at = self._listener.node.timer.time()
        try:
            self._frames.received(nbytes)
        except MalformedRequestError as error:
            self._refuse(error)
            return
        self._serve_ready()

    def pause_writing(self) -> None:
        """Serve no further request until the client has taken its answers."""
        self._paused = True

    def resume_writing(self) -> None:
        """Serve requests again."""
        self._paused = False
        self._serve_ready()

    def close(self) -> None:
        """Drop the connection and its held request at once."""
        self._transport.abort()

    def _close_if_idle(self) -> None:
        """Close, or look again when the timeout since the last request or held answer would end."""
        node = self._listener.node
        idle_timeout = node.settings.idle_timeout
        left_s = idle_timeout if self._held else self._heard_at + idle_timeout - node.timer.time()
        if left_s > 0:
            self._idle = node.timer.call_later(left_s, self._close_if_idle)
        else:
            _LOG.info("connection of %s closed: idle for %g s", self._client.host, idle_timeout)
            self._transport.abort()

    def _close_stalled(self) -> None:
        _LOG.warning(
            "connection of %s closed: its request stands still, and others wait for memory", self._client.host
        )
        self._transport.abort()

    def _serve_ready(self) -> None:
        frames = self._frames
        while frames.ready and self._held is None and not self._paused:
            if self._transport.is_closing():
                frames.clear()
                return
            self._serve(frames.take())
        self._limit_reading()

    def _limit_reading(self) -> None:
        frames = self._frames
        ahead = _MAX_AHEAD_BYTES if self._listener.inbox.has_room else 0
        reading = frames.ready_bytes <= ahead and not frames.starved
        if reading != self._reading and not self._transport.is_closing():
            self._reading = reading
            (self._transport.resume_reading if reading else self._transport.pause_reading)()

    def _serve(self, frame: Frame) -> None:
        """Answer a request, or hold it; close the connection if it is not a request."""
        try:
            header = wire.read_header(frame)
        except MalformedRequestError as error:
            self._refuse(error)
        else:
            self._answer(header, frame)

    def _answer(self, header: wire.Header, frame: Frame) -> None:
        try:
            api = APIS.get(header.api_key) or UNLISTED.get(header.api_key)
            if api is None or not api.serves(header.version):
                self._refuse_version(header, api)
                return
            request, client_id = wire.read_body(header, frame)
            if client_id != self._client.id:
                self._client = Client(client_id, self._client.host)
            answer = self._listener.answer(api, request, self._client)
            if isinstance(answer, Awaitable):
                held = asyncio.get_running_loop().create_task(self._hold(header, answer))
                if not held.done():  # an eager task may have ended
                    self._held = held
            else:
                self._send(header, answer)
        except MalformedRequestError as error:
            self._refuse(error)
        except Exception:  # noqa: BLE001 - reported there
            self._fail(header)

    async def _hold(self, header: wire.Header, answer: Awaitable[Answer]) -> None:
        try:
            self._send(header, await answer)
        except Exception:  # noqa: BLE001 - reported there
            self._fail(header)
        finally:
            held, self._held = self._held, None
            self._heard_at = self._listener.node.timer.time()
        if held is not None:  # otherwise it is served from there
            self._serve_ready()

    def _released(self, _: asyncio.Task[None]) -> None:
        self._listener.lost(self)

    def _send(self, header: wire.Header, answer: Answer, version: int | None = None) -> None:
        if answer is None or self._transport.is_closing():
            return
        parts = wire.encode(header, answer, version=version)
        if sum(map(len, parts)) <= _JOINED_BYTES:
            self._transport.write(b"".join(parts))
        else:
            self._transport.writelines(parts)

    def _refuse_version(self, header: wire.Header, api: Api | None) -> None:
        """Answer a client that is newer than the broker with the versions there are; drop any other."""
        if header.api_key == wire.API_VERSIONS and api is not None:
            answer: Any = api.handle(self._listener.node, None, self._client)
            self._send(header, {**answer, "error_code": ErrorCode.unsupported_version}, version=0)
            return
        served = "none" if api is None else f"{api.first} to {api.most}"
        self._refuse(
            MalformedRequestError(
                f"api {header.api_key} must have a version in {served}, got {header.version}",
                None if api else Absence.of_api(header.api_key),
            )
        )

    def _refuse(self, error: MalformedRequestError) -> None:
        if error.absence is None:
            _LOG.warning("connection of %s closed: %s", self._client.host or "a client", error)
        else:
            self._listener.node.absences.log(error.absence, self._client)
        self._frames.clear()
        if self._paused:
            self._transport.abort()  # closing would wait for a client that does not take its answers
        else:
            self._transport.close()

    def _fail(self, header: wire.Header) -> None:
        _LOG.exception(
            "connection of %s closed: request of api %d version %d failed",
            *(self._client.host or "a client", header.api_key, header.version),
        )
        self._transport.abort()
