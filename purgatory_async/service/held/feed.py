"""The feed: numbered events of operations, of which the latest are kept for readers.

Most events are never read. So the feed keeps an event as a small tuple, which holds no operation, and turns it into
text for its first reader; the others get the same text. The feed calls no reader: readers wait for the next number on
a watermark, which costs nothing while none waits.

An event's id is ``HISTORY-POSITION.NUMBER``: see `history_at`; the position of the step that caused it; and its number
within the step.
"""

import datetime as dt
import re
from bisect import bisect_right
from typing import Any, Final

import msgspec

from purgatory_async import Timer
from purgatory_async.durable.documents import State
from purgatory_async.durable.fold.kept_bytes import PIECE_BYTES
from purgatory_async.durable.fold.operations import Operation
from purgatory_async.durable.history import PATTERN as HISTORY
from purgatory_async.durable.history import continues, history_at
from purgatory_async.durable.state import State as Source
from purgatory_async.events import Event, KeySignalled, OperationEnded
from purgatory_async.patterns import Watermark
from purgatory_async.service.contract.messages import GapEvent, OperationEvent, SignalEvent

EVENT_ID: Final = rf"{HISTORY}-[0-9]{{1,18}}(\.[0-9]{{1,18}})?|[0-9]{{1,18}}"
KEPT: Final = 10_000
MAX_KEPT: Final = 16 << 20  # bytes: ten thousand events may have 64 long keys each
CHUNK: Final = 1 << 15  # bytes, and the rest of an event
NS_PER_SECOND: Final = 1_000_000_000
_UNKNOWN: Final = -1  # the number of an event of another history, or of one that is gone
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

# The id, the keys, the state (None: a signal), when, and nanoseconds elapsed or how many a signal completed.
_Note = tuple[str | None, tuple[str, ...], State | None, int, int]
# A position, and a number from 1 within its step.
_Place = tuple[int, int]


class Feed:
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
        self._newest: Final = Watermark(timer=timer)
        self._oldest = 1
        self._gone: _Place = (0, 0)  # of the event before the oldest
        # Event n is at n modulo the size.
        self._ring: list[_Note | bytes | None] = [None] * KEPT
        self._keys: list[tuple[str, ...]] = [()] * KEPT
        self._places: list[_Place] = [(0, 0)] * KEPT
        self._sizes = [0] * KEPT
        self._size = 0  # of their keys, and 128 bytes for each
        self._read: tuple[int, int, tuple[bytes, int]] = (-1, -1, (b"", 0))  # after, newest, the text

    def __repr__(self) -> str:
        return f"<Feed newest={self.newest} oldest={self._oldest} waiting={self._newest.waiting}>"

    @property
    def size(self) -> int:
        """The bytes that the kept events count. O(1)."""
        return self._size

    @property
    def newest(self) -> int:
        """The number of the newest event, which counts all events so far. O(1)."""
        return self._newest.value

    def notify(self, event: Event) -> None:
        """Keep an event. O(keys of the operation), and readers that wait."""
        # Nothing but the service's own operations, on keys that are text, is ever watched there.
        if isinstance(event, KeySignalled):
            keys: Any = (event.key,)
            note: _Note = (None, keys, None, event.at_ns, event.completed)
        else:
            keys = event.keys
            operation = event.operation
            known_as = operation.id if isinstance(operation, Operation) else None
            if isinstance(event, OperationEnded):
                state: Any = event.outcome  # its word
                note = (known_as, keys, state, event.at_ns, event.at_ns - event.submitted_ns)
            else:
                note = (known_as, keys, "pending", event.at_ns, 0)
        size = PIECE_BYTES
        for key in keys:
            size += len(key)
        self._keep(note, size)

    async def reach(self, number: int, timeout: float) -> None:
        """Wait until there is an event of that number, or a later one.

        Raises:
            OperationExpired: There was none within ``timeout`` seconds.
            PurgatoryClosed: The feed is closed.
        """
        await self._newest.reach(number, timeout)

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
        return self._oldest - 1 + bisect_right(kept, wanted, key=lambda event: self._places[event % KEPT])

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
            self._newest.advance(self.newest + 1)
            while self._oldest <= self.newest:
                self._drop_oldest()
        self._gone = (self._source.fold.position, 0)
        self._position = self._number = 0

    def close(self) -> None:
        """End the waits for the next event; events are still kept and can be read. Idempotent."""
        self.closed = True
        self._newest.close()

    def _keep(self, note: _Note, size: int) -> None:
        position = self._source.fold.position
        self._number = self._number + 1 if position == self._position else 1
        self._position = position
        number = self._newest.value + 1
        if number - self._oldest >= KEPT:
            self._drop_oldest()
        place = number % KEPT
        self._places[place] = (position, self._number)
        self._size += size
        self._sizes[place] = size
        self._ring[place] = note
        self._keys[place] = note[1]
        # The feed is this process's own, so it takes what the state has left of the budget.
        room = self._source.fold.shared.bytes_left
        while self._size > MAX_KEPT or (self._size > room and self._oldest < number):
            self._drop_oldest()
        self._newest.advance(number)

    def _drop_oldest(self) -> None:
        place = self._oldest % KEPT
        self._gone = self._places[place]
        self._size -= self._sizes[place]
        self._ring[place] = None
        self._keys[place] = ()
        self._oldest += 1

    def _text(self, after: int, newest: int, prefixes: tuple[str, ...] = ()) -> tuple[bytes, int]:
        pieces: list[bytes] = []
        last = after
        if after < self._oldest - 1:
            last = self._oldest - 1
            # How many of them had the prefixes is no longer known, nor which comes next.
            missed = None if after == _UNKNOWN or prefixes else last - after
            following = self._oldest <= newest and not prefixes
            gap = GapEvent(self._id(self._places[self._oldest % KEPT]) if following else None, missed)
            pieces.append(self._sse(self._gone, b"gap", gap))
        size = 0
        while last < newest and size < CHUNK:
            last += 1
            if prefixes and not all(key.startswith(prefixes) for key in self._keys[last % KEPT]):
                continue
            piece = self._encoded(last)
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces), last

    def _encoded(self, number: int) -> bytes:
        place = number % KEPT
        kept = self._ring[place]
        if not isinstance(kept, bytes):
            assert kept is not None, f"event {number} is gone, the oldest is {self._oldest}"
            kept = self._ring[place] = self._encode(self._places[place], kept)
        return kept

    def _encode(self, place: _Place, note: _Note) -> bytes:
        known_as, keys, state, at_ns, further = note
        at_us = self._zero_us + at_ns // 1000
        at = _EPOCH + dt.timedelta(milliseconds=at_us // 1000)
        if state is None:
            return self._sse(place, b"signalled", SignalEvent(None, keys, None, at, further))
        name = b"submitted" if state == "pending" else b"ended"
        elapsed = round(further / NS_PER_SECOND, 6)
        return self._sse(place, name, OperationEvent(known_as, keys, state, at, elapsed))

    def _id(self, place: _Place) -> str:
        return f"{history_at(self._source, place[0])}-{place[0]}.{place[1]}"

    def _sse(self, place: _Place, name: bytes, data: msgspec.Struct) -> bytes:
        # JSON has no line break outside its strings, and escapes those inside.
        return b"id: %b\nevent: %b\ndata: %b\n\n" % (
            self._id(place).encode(),
            name,
            msgspec.json.encode(data),
        )
