"""The feed: numbered events of operations, of which the latest are kept for readers.

Most events are never read. So the feed keeps an event as a small tuple, which holds no operation, and turns it into
text for its first reader; the others get the same text. The feed calls no reader: readers wait for the next number on
a watermark, which costs nothing while none waits.
"""

import datetime as dt
import re
from collections.abc import Callable
from typing import Final, cast

import msgspec

from purgatory_async import Timer
from purgatory_async.events import Event, KeySignalled, OperationEnded
from purgatory_async.patterns import Watermark
from purgatory_async.service.messages import GapEvent, OperationEvent, SignalEvent, State
from purgatory_async.service.state.operations import Operation

__all__ = ["EVENT_ID", "Feed"]

EVENT_ID: Final = r"([0-9A-Za-z]{1,40}-)?[0-9]{1,18}"
KEPT: Final = 10_000
MAX_KEPT: Final = 16 << 20  # characters of keys: ten thousand events may have 64 long ones each
CHUNK: Final = 1 << 15  # bytes, and the rest of an event
NS_PER_SECOND: Final = 1_000_000_000
_UNKNOWN: Final = -1  # the number of an event of another epoch

# The id, the keys, the state (None: a signal), when, and nanoseconds elapsed or how many a signal completed.
_Note = tuple[str | None, tuple[str, ...], State | None, int, int]


class Feed:
    """The last 10 000 events, fewer if their keys are very long; observes the purgatory of the operations.

    Args:
        timer: For readers that wait.
        wall_clock: The time that events show.
        epoch: Begins each event's id; another start of the service has another one.
    """

    def __init__(self, timer: Timer, wall_clock: Callable[[], dt.datetime], epoch: str) -> None:
        self.closed = False
        self.epoch: Final = epoch
        self._prefix: Final = f"{epoch}-".encode()
        self._timer: Final = timer
        self._wall_clock: Final = wall_clock
        self._newest: Final = Watermark(timer=timer)
        self._oldest = 1
        # Event n is at n modulo the size.
        self._ring: list[_Note | bytes | None] = [None] * KEPT
        self._sizes = [0] * KEPT
        self._size = 0
        self._read = (-1, -1, (b"", 0))  # the last reading: after, newest, and what came of it

    def __repr__(self) -> str:
        return f"<Feed newest={self.newest} oldest={self._oldest} waiting={self._newest.waiting}>"

    @property
    def newest(self) -> int:
        """The number of the newest event, and so how many there have been. O(1)."""
        return self._newest.value

    def notify(self, event: Event) -> None:
        """Keep an event. O(keys of the operation), and readers that wait."""
        # Nothing but the service's own operations, on keys that are text, is ever watched there.
        if isinstance(event, KeySignalled):
            keys: tuple[str, ...] = (cast("str", event.key),)
            note: _Note = (None, keys, None, event.at_ns, event.completed)
        else:
            keys = cast("tuple[str, ...]", event.keys)
            operation = event.operation
            known_as = operation.id if isinstance(operation, Operation) else None
            if isinstance(event, OperationEnded):
                state = cast("State", event.outcome)  # its word
                note = (known_as, keys, state, event.at_ns, event.at_ns - event.submitted_ns)
            else:
                note = (known_as, keys, "pending", event.at_ns, 0)
        size = 0
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
        """Return an event's number, to read on from; less than any for an id that is not of this epoch. O(1).

        Raises:
            ValueError: The id does not follow `EVENT_ID`.
        """
        if re.fullmatch(EVENT_ID, event_id) is None:
            raise ValueError(f"id must be EPOCH-N, got {event_id!r}")
        epoch, _, number = event_id.rpartition("-")
        # A number beyond the newest was not given out by this start either, whatever its epoch says.
        return int(number) if epoch == self.epoch and int(number) <= self.newest else _UNKNOWN

    def read(self, after: int) -> tuple[bytes, int]:
        """Read on, as server-sent events.

        Args:
            after: The number of the event read last; 0 for none, -1 for one of another epoch.

        Returns:
            At most about 32 KiB of events, a ``gap`` before them where some are lost; and the number of the last
            of them, ``after`` if there are none. O(events); those that others have read before cost next to
            nothing.
        """
        newest = self.newest
        if self._read[:2] != (after, newest):  # several readers who wait are at the same place
            self._read = (after, newest, self._text(after, newest))
        return self._read[2]

    def close(self) -> None:
        """End the waits for the next event; events are still kept and can be read. Idempotent."""
        self.closed = True
        self._newest.close()

    def _keep(self, note: _Note, size: int) -> None:
        number = self._newest.value + 1
        place = number % KEPT
        self._size += size - self._sizes[place]
        self._sizes[place] = size
        self._ring[place] = note
        if number - self._oldest >= KEPT:
            self._oldest += 1
        while self._size > MAX_KEPT:
            place = self._oldest % KEPT
            self._size -= self._sizes[place]
            self._sizes[place] = 0
            self._ring[place] = None
            self._oldest += 1
        self._newest.advance(number)

    def _text(self, after: int, newest: int) -> tuple[bytes, int]:
        pieces: list[bytes] = []
        last = after
        if after < self._oldest - 1:
            last = self._oldest - 1
            known = after != _UNKNOWN
            gap = GapEvent(
                f"{self.epoch}-{after}" if known else None,
                f"{self.epoch}-{self._oldest}",
                last - after if known else None,
            )
            pieces.append(self._sse(last, b"gap", gap))
        size = 0
        while last < newest and size < CHUNK:
            last += 1
            piece = self._encoded(last)
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces), last

    def _encoded(self, number: int) -> bytes:
        place = number % KEPT
        kept = self._ring[place]
        if not isinstance(kept, bytes):
            assert kept is not None, f"event {number} is gone, the oldest is {self._oldest}"
            kept = self._ring[place] = self._encode(number, kept)
        return kept

    def _encode(self, number: int, note: _Note) -> bytes:
        known_as, keys, state, at_ns, further = note
        ago = dt.timedelta(microseconds=(self._timer.time_ns() - at_ns) // 1000)
        at = self._wall_clock() - ago
        at = at.replace(microsecond=at.microsecond // 1000 * 1000)
        if state is None:
            return self._sse(number, b"signalled", SignalEvent(None, keys, None, at, further))
        name = b"submitted" if state == "pending" else b"ended"
        elapsed = round(further / NS_PER_SECOND, 6)
        return self._sse(number, name, OperationEvent(known_as, keys, state, at, elapsed))

    def _sse(self, number: int, name: bytes, data: msgspec.Struct) -> bytes:
        # JSON has no line break outside its strings, and escapes those inside.
        return b"id: %b%d\nevent: %b\ndata: %b\n\n" % (self._prefix, number, name, msgspec.json.encode(data))
