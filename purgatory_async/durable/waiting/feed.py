"""The feed: numbered events of operations, of which the latest are kept for readers.

Most events are never read. So the feed keeps a signal's event as it is, and of an operation's a small tuple, which does
not hold the operation; it turns them into text for their first reader, and the others get the same text. The feed calls
no reader: readers wait for the next number on a watermark, which is only moved while one waits.

An event's id is ``HISTORY-POSITION.NUMBER``: see `history_at`; the position of the step that caused it; and its number
within the step.
"""

import datetime as dt
import re
from bisect import bisect_right
from typing import Any, Final

import msgspec
from msgspec import Struct

from purgatory_async import Timer
from purgatory_async.durable.documents import State
from purgatory_async.durable.documents.messages import GapEvent, OperationEvent, SignalEvent
from purgatory_async.durable.fold.kept_bytes import PIECE_BYTES
from purgatory_async.durable.fold.operations import Operation, OperationRescheduled
from purgatory_async.durable.history import PATTERN as HISTORY
from purgatory_async.durable.history import continues, history_at
from purgatory_async.durable.state import State as Source
from purgatory_async.events import Handlers, Handling, KeySignalled, OperationEnded, OperationSubmitted
from purgatory_async.patterns import Watermark

EVENT_ID: Final = rf"{HISTORY}-[0-9]{{1,18}}(\.[0-9]{{1,18}})?|[0-9]{{1,18}}"
KEPT: Final = 10_000
MAX_KEPT: Final = 16 << 20  # bytes: ten thousand events may have 64 long keys each
CHUNK: Final = 1 << 15  # bytes, and the rest of an event
NS_PER_SECOND: Final = 1_000_000_000
_UNKNOWN: Final = -1  # the number of an event of another history, or of one that is gone
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

# Of an operation: the id, the kind of the event, the state, when, and nanoseconds elapsed.
_Note = tuple[str | None, bytes, State, int, int]
# A position, and a number from 1 within its step.
_Place = tuple[int, int]


class _Kept(Struct, gc=False):
    """An event: its place, its keys and their bytes, and what its text is made from, or the text."""

    place: _Place
    keys: tuple[str, ...]
    size: int
    content: KeySignalled | _Note | bytes


class Feed(Handling):
    """The last 10 000 events, fewer beyond a budget of bytes; observes the purgatory of the operations.

    Args:
        timer: For readers that wait.
        state: Has the epoch, the position and the zero of the events' times.
    """

    def __init__(self, timer: Timer, state: Source) -> None:
        self.closed = False
        self._source: Final = state
        self._zero_us: Final = state.fold.zero_us
        self._position = self._number = 0  # of the newest event
        self.newest = 0
        """The number of the newest event, which counts all events so far."""
        self.size = 0
        """The bytes that the kept events count: their keys, and 128 for each."""
        self._reached: Final = Watermark(timer=timer)
        self._waiting = 0  # readers
        self._oldest = 1
        self._gone: _Place = (0, 0)  # of the event before the oldest
        self._ring: list[_Kept | None] = [None] * KEPT  # event n is at n modulo the size
        self._read: tuple[int, int, tuple[bytes, int]] = (-1, -1, (b"", 0))  # after, newest, the text

    def __repr__(self) -> str:
        return f"<Feed newest={self.newest} oldest={self._oldest} waiting={self._waiting}>"

    def handlers(self) -> Handlers:
        """Keep events. O(keys of the operation), and readers that wait."""
        return {
            OperationSubmitted: self._submitted,
            KeySignalled: self._signalled,
            OperationEnded: self._ended,
        }

    # Nothing but the service's own operations, on keys that are text, is ever watched there.

    def _signalled(self, event: KeySignalled) -> None:
        key: Any = event.key
        self._keep((key,), PIECE_BYTES + len(key), event)

    def _submitted(self, event: OperationSubmitted) -> None:
        self._keep_operation(event, b"submitted", "pending", 0)

    def _ended(self, event: OperationEnded) -> None:
        state: Any = event.outcome  # its word
        self._keep_operation(event, b"ended", state, event.at_ns - event.submitted_ns)

    def rescheduled(self, effect: OperationRescheduled) -> None:
        """Keep the event of another deadline. O(keys of the operation)."""
        operation, fold = effect.operation, self._source.fold
        keys = operation.watch_keys
        elapsed_ns = (fold.at_us - operation.submitted_us) * 1000
        note = (operation.id, b"rescheduled", operation.state, fold.step_ns, elapsed_ns)
        self._keep(keys, PIECE_BYTES + sum(map(len, keys)), note)

    def _keep_operation(
        self, event: OperationSubmitted | OperationEnded, name: bytes, state: State, elapsed_ns: int
    ) -> None:
        operation = event.operation
        keys: Any = event.keys
        known_as = operation.id if isinstance(operation, Operation) else None
        note = (known_as, name, state, event.at_ns, elapsed_ns)
        self._keep(keys, PIECE_BYTES + (len(keys[0]) if len(keys) == 1 else sum(map(len, keys))), note)

    async def reach(self, number: int, timeout: float | None = None) -> None:
        """Wait until there is an event of that number, or a later one.

        Raises:
            OperationExpired: There was none within ``timeout`` seconds, None for any number.
            PurgatoryClosed: The feed is closed.
        """
        self._reached.advance(self.newest)
        self._waiting += 1
        try:
            await self._reached.reach(number, timeout)
        finally:
            self._waiting -= 1

    def number_of(self, event_id: str) -> int:
        """Return how many events there were up to an id, to read on from; -1 if that is not known any more. O(log n).

        Raises:
            ValueError: The id does not follow `EVENT_ID`.
        """
        if re.fullmatch(EVENT_ID, event_id) is None:
            raise ValueError(f"id must be EPOCH-POSITION.NUMBER, got {event_id!r}")
        history, _, place = event_id.rpartition("-")
        position, _, number = place.partition(".")
        wanted = (int(position), int(number or 0))
        # An id beyond the newest event was never given out in this epoch.
        known = self._gone <= wanted <= (self._position, self._number)
        if not known or not continues(self._source, history, wanted[0]):
            return _UNKNOWN
        kept = range(self._oldest, self.newest + 1)
        return self._oldest - 1 + bisect_right(kept, wanted, key=self._place_of)

    def read(self, after: int, prefixes: tuple[str, ...] = ()) -> tuple[bytes, int]:
        """Read on, as server-sent events.

        Args:
            after: The number of the event read last; 0 for none, -1 for one of another history.
            prefixes: All keys of an event begin with one of these; none for all events.

        Returns:
            At most about 32 KiB of events, a ``gap`` before them where some are lost; and the number of the last
            of them, ``after`` if there are none. O(events); those that others have read before cost next to
            nothing.
        """
        newest = self.newest
        if prefixes:
            return self._text(after, newest, prefixes)
        if self._read[:2] != (after, newest):  # readers that wait are often at the same event
            self._read = (after, newest, self._text(after, newest))
        return self._read[2]

    def restart(self) -> None:
        """Drop all events, because the state was loaded again; readers get a ``gap``, unless there was none."""
        if self.newest:
            self.newest += 1
            self._reached.advance(self.newest)
            while self._oldest <= self.newest:
                self._drop_oldest()
        self._gone = (self._source.fold.position, 0)
        self._position = self._number = 0

    def close(self) -> None:
        """End the waits for the next event; events are still kept and can be read. Idempotent."""
        self.closed = True
        self._reached.close()

    def _keep(self, keys: tuple[str, ...], size: int, content: KeySignalled | _Note) -> None:
        fold = self._source.fold
        position = fold.position
        self._number = number = self._number + 1 if position == self._position else 1
        self._position = position
        self.newest = newest = self.newest + 1
        place = newest % KEPT
        if self._ring[place] is not None:
            self._drop_oldest()
        self._ring[place] = _Kept((position, number), keys, size, content)
        self.size = size = self.size + size
        # The feed is this process's own, so it takes what the state has left of the budget.
        shared = fold.shared
        room = shared.limits.max_kept - shared.kept.used
        if size > room or size > MAX_KEPT:
            while self.size > MAX_KEPT or (self.size > room and self._oldest < newest):
                self._drop_oldest()
        if self._waiting:
            self._reached.advance(newest)

    def _drop_oldest(self) -> None:
        place = self._oldest % KEPT
        kept = self._ring[place]
        if kept is not None:  # as the number that a restart took
            self._gone = kept.place
            self.size -= kept.size
            self._ring[place] = None
        self._oldest += 1

    def _kept(self, number: int) -> _Kept:
        kept = self._ring[number % KEPT]
        assert kept is not None, f"event {number} is gone, the oldest is {self._oldest}"
        return kept

    def _place_of(self, number: int) -> _Place:
        return self._kept(number).place

    def _text(self, after: int, newest: int, prefixes: tuple[str, ...] = ()) -> tuple[bytes, int]:
        pieces: list[bytes] = []
        last = after
        if after < self._oldest - 1:
            last = self._oldest - 1
            # How many of them had the prefixes is no longer known, nor which comes next.
            missed = None if after == _UNKNOWN or prefixes else last - after
            following = self._oldest <= newest and not prefixes
            gap = GapEvent(self._id(self._place_of(self._oldest)) if following else None, missed)
            pieces.append(self._sse(self._gone, b"gap", gap))
        size = 0
        while last < newest and size < CHUNK:
            last += 1
            kept = self._kept(last)
            if prefixes and not all(key.startswith(prefixes) for key in kept.keys):
                continue
            if not isinstance(kept.content, bytes):
                kept.content = self._encoded(kept.place, kept.keys, kept.content)
            pieces.append(kept.content)
            size += len(kept.content)
        return b"".join(pieces), last

    def _encoded(self, place: _Place, keys: tuple[str, ...], content: KeySignalled | _Note) -> bytes:
        if isinstance(content, KeySignalled):
            at = self._moment(content.at_ns)
            return self._sse(place, b"signalled", SignalEvent(None, keys, None, at, content.completed))
        known_as, name, state, at_ns, elapsed_ns = content
        elapsed = round(elapsed_ns / NS_PER_SECOND, 6)
        return self._sse(place, name, OperationEvent(known_as, keys, state, self._moment(at_ns), elapsed))

    def _moment(self, at_ns: int) -> dt.datetime:
        at_us = self._zero_us + at_ns // 1000
        return _EPOCH + dt.timedelta(milliseconds=at_us // 1000)

    def _id(self, place: _Place) -> str:
        return f"{history_at(self._source, place[0])}-{place[0]}.{place[1]}"

    def _sse(self, place: _Place, name: bytes, data: Struct) -> bytes:
        # JSON has no line break outside its strings, and escapes those inside.
        return b"id: %b\nevent: %b\ndata: %b\n\n" % (
            self._id(place).encode(),
            name,
            msgspec.json.encode(data),
        )
