"""Where a stream's events come from: a broadcast, or any async iterable.

Both are read step by step. A step that is cancelled loses nothing: the next one returns the same events.
"""

import asyncio
from collections.abc import AsyncIterable, Callable
from typing import Any, Final, Protocol

from purgatory_async import OperationExpired, PurgatoryError, Timer
from purgatory_async.patterns import Broadcast, Lagged, Published
from purgatory_async.web._event_text import gap_text, id_of, index_of

CHUNK: Final = 1 << 15  # bytes of events that go in one write, and the rest of an event

# Returns the text of an item's event, with its id if it has one.
Pack = Callable[[Any, str | None], bytes]


class Events(Protocol):
    """Events to send, as text."""

    @property
    def timer(self) -> Timer:
        """The timer for the stream's delays."""
        ...

    @property
    def event_id(self) -> str | None:
        """The id behind which the events begin; None if the client has it, or they have none."""
        ...

    async def next(self) -> bytes:
        """Wait for events, at least one; return nothing once there are no more.

        Raises:
            BaseException: What the source raised.
        """
        ...

    def finish(self) -> None:
        """Let it end after the events that need no wait."""

    async def aclose(self) -> None:
        """Unsubscribe, and let the source clean up."""


Source = Broadcast[Any] | AsyncIterable[Any]


def events_of(source: Source, last_event_id: str | None, pack: Pack) -> Events:
    """Return the events of a source; a broadcast's begin at this moment, or behind ``last_event_id``.

    Raises:
        TypeError: ``source`` is neither a `Broadcast` nor an async iterable.
    """
    if isinstance(source, Broadcast):
        return BroadcastEvents(source, last_event_id, pack)
    if not hasattr(source, "__aiter__"):
        call = "; call it" if callable(source) else ""
        raise TypeError(f"source must be a Broadcast or an async iterable, got {source!r}{call}")
    return IteratedEvents(source, pack)


class BroadcastEvents:
    """The events of a broadcast, with ids, and ``gap`` where some are missing."""

    __slots__ = ("_broadcast", "_gap", "_last", "_pack", "_read", "_seen", "_subscription")

    def __init__(self, broadcast: Broadcast[Any], last_event_id: str | None, pack: Pack) -> None:
        self._broadcast = broadcast
        self._pack = pack
        self._read = bytearray()  # what has been read, also by a step that was cancelled
        self._last: int | None = None  # the index to end at
        after = index_of(last_event_id, broadcast.epoch) if last_event_id else broadcast.newest
        self._gap = after is None
        self._seen = broadcast.oldest - 1 if after is None else after
        self._subscription = broadcast.subscribe(after=self._seen)

    def __repr__(self) -> str:
        return f"<BroadcastEvents of {self._broadcast!r} after {self._seen}>"

    @property
    def event_id(self) -> str | None:
        """Its place, before the first event that is published after this moment."""
        return None if self._gap else id_of(self._broadcast.epoch, self._seen)

    @property
    def timer(self) -> Timer:
        """The broadcast's."""
        return self._broadcast.timer

    async def next(self) -> bytes:
        """Wait for the next event, and take along what else is kept, up to a chunk."""
        if self._gap:
            self._gap = False
            return self._text(Lagged(None, self._seen))
        while await self._reads_on():
            event = await anext(self._subscription, None)
            if event is None:
                break
            self._read += self._text(event)
        text = bytes(self._read)
        self._read.clear()
        return text

    async def _reads_on(self) -> bool:
        """Whether to read an event: the first one also if it takes a wait, until there is an index to end at."""
        if not self._read and self._last is None:
            return True
        newest = self._broadcast.newest if self._last is None else self._last
        if self._seen >= newest or len(self._read) >= CHUNK:
            return False
        try:
            await self._broadcast.next(self._seen, timeout=0)
        except OperationExpired:
            return False
        except PurgatoryError:
            pass  # it is closed, and the next step says what is left
        return True

    def _text(self, event: Published[Any] | Lagged) -> bytes:
        self._seen = event.index
        event_id = id_of(self._broadcast.epoch, event.index)
        return (
            gap_text(event.missed, event_id)
            if isinstance(event, Lagged)
            else self._pack(event.item, event_id)
        )

    def finish(self) -> None:
        """Let it end after the newest event."""
        self._last = self._broadcast.newest

    async def aclose(self) -> None:
        """Unsubscribe."""
        del self._subscription


class IteratedEvents:
    """The items of an async iterable, which is read, and closed, in a task of its own.

    A step of an async generator cannot be cancelled and tried again, and some generators must be closed by the task
    that began them.
    """

    __slots__ = ("_closing", "_finishing", "_items", "_pack", "_source", "_task", "timer")

    timer: Timer
    event_id: None = None

    def __init__(self, source: AsyncIterable[Any], pack: Pack) -> None:
        self.timer = Timer()
        self._source = source
        self._pack = pack
        # An item in a tuple; or the end, with the exception if there was one.
        self._items: asyncio.Queue[tuple[Any] | BaseException | None] = asyncio.Queue(1)
        self._task: asyncio.Task[None] | None = None
        self._finishing = self._closing = False

    def __repr__(self) -> str:
        return f"<IteratedEvents of {self._source!r}>"

    async def next(self) -> bytes:
        """Wait for the next item."""
        if self._finishing and self._items.empty():
            return b""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(
                self._read(), name="server-sent events: source"
            )
        item = await self._items.get()
        if isinstance(item, BaseException):
            raise item
        return b"" if item is None else self._pack(item[0], None)

    async def _read(self) -> None:
        end: BaseException | None = None
        iterator = aiter(self._source)
        try:
            async for item in iterator:
                await self._items.put((item,))
        except BaseException as error:
            if self._closing:
                raise
            end = error  # for the stream to raise
        finally:
            close = getattr(iterator, "aclose", None)
            if close is not None:
                await close()
        await self._items.put(end)

    def finish(self) -> None:
        """Let it end after an item that was read already."""
        self._finishing = True

    async def aclose(self) -> None:
        """Cancel the task that reads the source, and wait for it."""
        self.timer.close()
        if self._task is not None:
            self._closing = True
            self._task.cancel()
            await asyncio.wait((self._task,))
