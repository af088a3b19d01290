"""What every log promises: one order of entries, durable once appended, read from a position.

A **position** is an integer from 1 without holes; 0 stands for "before the first entry". **Log time** is the engine's
clock in microseconds since 1970. The engine stamps it in the append, and it never decreases. Workers' clocks are never
written.

    PurgatoryError
     +-- LogError                 the log is closed, not open, or cannot do this
          +-- LogUnavailable      the engine is away; an append may have happened
               +-- LogReconnected  the connection for appends is another one; nothing was appended
          +-- LogGap              the entries asked for are gone: oldest, epoch
          +-- LogDamaged          what is stored is not what was appended: position
          +-- LogRefused          the engine's settings rule it out

Data is in attributes, outside ``args``, so that the errors survive pickle and copy.
"""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable

from purgatory_async import PurgatoryError

__all__ = [
    "MAX_BATCH_BYTES",
    "MAX_BATCH_ENTRIES",
    "MAX_ENTRY_BYTES",
    "MAX_READ_BYTES",
    "MAX_READ_ENTRIES",
    "OLDER_STORE",
    "Appended",
    "Checkpoint",
    "Entry",
    "Head",
    "Log",
    "LogDamaged",
    "LogError",
    "LogGap",
    "LogReconnected",
    "LogRefused",
    "LogUnavailable",
    "check_batch",
    "check_empty",
    "check_epoch",
    "check_follow",
    "check_head",
    "check_save",
    "check_time",
    "load_parts",
    "loads",
    "new_epoch",
    "one_read",
    "save_parts",
]

MAX_ENTRY_BYTES: Final = 1_572_864  # 1.5 MiB
MAX_BATCH_ENTRIES: Final = 1_000
MAX_BATCH_BYTES: Final = 4_194_304  # 4 MiB
MAX_READ_ENTRIES: Final = 2_000
MAX_READ_BYTES: Final = 8_388_608  # 8 MiB
OLDER_STORE: Final = "a store of a commit before the first release does not open: begin with a new one"
"""Ends the message about what is intact, but not laid out as today."""
LAST_US: Final = 253_402_300_799_999_999  # the end of the year 9999, in microseconds since 1970


class LogError(PurgatoryError):
    """Base of a log's errors; raised as such for a log that is closed or not open."""


class LogUnavailable(LogError):
    """The engine is away. The entries of an append may be in the log or not: append the same ones again.

    ``cause`` is one word for the reason, a key of `CAUSES`.
    """

    def __init__(self, *args: object, cause: str = "unreachable") -> None:
        super().__init__(*args)
        self.cause = cause


class LogReconnected(LogUnavailable):
    """The connection was lost since the append before; nothing was appended.

    Others may have appended meanwhile, and the engine may have lost entries that were never read here. Introduce the
    writer anew, then append the same entries again.
    """


class LogGap(LogError):
    """The entries after a position are no longer in the log.

    Either they were trimmed, or the engine lost its newest entries, in which case ``epoch`` is another one. Continue
    from a checkpoint, or from ``oldest - 1``.
    """

    def __init__(self, *args: object, oldest: int = 1, epoch: str = "") -> None:
        super().__init__(*args)
        self.oldest = oldest
        self.epoch = epoch


class LogDamaged(LogError):
    """What is stored is not what was appended; ``position`` is where the first bad entry is, if known."""

    def __init__(self, *args: object, position: int | None = None) -> None:
        super().__init__(*args)
        self.position = position


class LogRefused(LogError):
    """The engine cannot keep a log's promises as it is set up; the message names the setting.

    ``cause`` is as for `LogUnavailable`.
    """

    def __init__(self, *args: object, cause: str = "other") -> None:
        super().__init__(*args)
        self.cause = cause

    def as_outage(self) -> LogUnavailable:
        """Return the same for a log that was open before: what was allowed once may be again."""
        return LogUnavailable(*self.args, cause=self.cause)


class Entry(NamedTuple):
    """One entry of the log.

    Attributes:
        position: Its place in the order, from 1.
        at_us: Its log time, in microseconds since 1970.
        data: What was appended.
    """

    position: int
    at_us: int
    data: bytes


class Head(NamedTuple):
    """The state of a log when it was opened.

    Attributes:
        epoch: Random text, made with the log. It changes when the engine lost entries.
        position: The newest entry's position; 0 if there has been none.
        at_us: The newest entry's log time; 0 if there has been none.
        oldest: The position of the oldest entry still there; ``position + 1`` if none is.
        checkpoint: The newest checkpoint's position; 0 if there is none.
    """

    epoch: str
    position: int
    at_us: int
    oldest: int
    checkpoint: int


class Appended(NamedTuple):
    """The position of a batch's first entry, and the log time of all its entries."""

    first: int
    at_us: int


class Checkpoint(NamedTuple):
    """A saved state.

    Iterating over the parts reads them one at a time. It raises `LogDamaged` if one is not what was saved, and
    `LogUnavailable` if a newer checkpoint replaced this one meanwhile: load again.

    Attributes:
        position: The last position that is in it.
        parts: What was saved, in order.
        epoch: The log's epoch when this was loaded, in which the position has its meaning. It can be newer than the
            epoch that a follower knows.
    """

    position: int
    parts: AsyncIterator[bytes]
    epoch: str


@runtime_checkable
class Log(Protocol):
    """One worker's connection to a log. It belongs to the loop in which it was opened.

    Every method but `open` and `aclose` raises `LogError` unless the log is open, and `LogUnavailable` while the
    engine is away.
    """

    async def open(self, *, epoch: str = "") -> Head:
        """Connect, create an empty log if there is none, and return its state; once.

        Args:
            epoch: Open only the log with this epoch, and create nothing. If not given, any log will do.

        Raises:
            LogUnavailable: The engine is away.
            LogRefused: The engine's settings rule it out.
            LogDamaged: What is stored is not a log, or no log has that epoch.
        """
        ...

    async def append(self, entries: Sequence[bytes]) -> Appended:
        """Append a batch of 1 to 1 000 entries, 4 MiB at most, at consecutive positions: all of them or none.

        Returns once they are durable. A call that is cancelled may still append. Takes one round trip.

        Raises:
            TypeError, ValueError: The batch is empty or too large, or an entry is no bytes or too large.
            LogUnavailable: The outcome is unknown; the batch may be in the log, whole, now or later. After a loss each
                append to a log that was followed raises this, until `follow` has raised its `LogGap`.
            LogReconnected: It would be the first append over a new connection to a server; the next call appends.
        """
        ...

    def follow(self, after: int) -> AsyncIterator[Sequence[Entry]]:
        """Yield the entries after a position, in order, as they come; at most 2 000 or 8 MiB at a time.

        It reconnects by itself for as long as it takes, and ends when the log is closed. After a reconnect it compares
        the epoch and the entry at its position. If the engine has lost that entry, the first follower to see it changes
        the epoch, by compare-and-set.

        Raises:
            ValueError: ``after`` is negative.
            LogGap: Entries after ``after`` were trimmed before they came here, or the engine lost entries that were
                handed out.
            LogDamaged: An entry is not what was appended.
        """
        ...

    async def end(self) -> int:
        """Return the newest durable position, no older than this call; concurrent calls share one round trip.

        Raises:
            LogUnavailable: The engine is away, or has lost what was read here; `follow` raises its `LogGap` then.
            LogDamaged: What is stored is no longer a log.
        """
        ...

    def end_now(self) -> int | None:
        """Return what `end` would, without asking the engine; None if only the engine knows it.

        No worker has shown more than it, in the epoch in which this log is followed. O(1).
        """
        ...

    async def save(self, position: int, parts: AsyncIterator[bytes], keep: int) -> None:
        """Save a checkpoint, then trim the entries at or before ``position - keep``.

        It becomes visible whole, in one step. An interrupted one stays invisible and is removed by the next. The newest
        entry may stay in any case.

        Args:
            position: The last position that is in it, from 1 to the newest; above the present checkpoint's.
            parts: Its bytes, in parts of about 1 MiB, and 1.5 MiB at most.
            keep: How many entries up to ``position`` stay in the log.

        Raises:
            ValueError: ``position`` or ``keep`` is out of bounds; an older checkpoint is not saved over a newer one.
        """
        ...

    async def load(self, *, below: int | None = None) -> Checkpoint | None:
        """Return the newest checkpoint, or None if there is none.

        Args:
            below: Return one of a lower position, if it is kept and the log has every entry after it. A log keeps the
                checkpoint before the newest until the next one is saved, for the case that the newest is damaged.
        """
        ...

    async def aclose(self) -> None:
        """Disconnect; followers end, waiting calls raise `LogError`. Does nothing if closed already."""
        ...


def new_epoch() -> str:
    """Return a random epoch: 96 bits as hexadecimal digits."""
    return secrets.token_hex(12)


def check_batch(entries: Sequence[bytes]) -> None:
    """Raise `TypeError` or `ValueError` unless `Log.append` takes these entries."""
    if isinstance(entries, bytes | bytearray | memoryview | str):
        raise TypeError(
            f"entries must be a sequence of bytes, got {type(entries).__name__}; put it in a list"
        )
    if not 1 <= len(entries) <= MAX_BATCH_ENTRIES:
        raise ValueError(f"a batch must have 1 to {MAX_BATCH_ENTRIES} entries, got {len(entries)}")
    total = 0
    for entry in entries:
        if not isinstance(entry, bytes):
            raise TypeError(f"an entry must be bytes, got {type(entry).__name__}")
        if len(entry) > MAX_ENTRY_BYTES:
            raise ValueError(f"an entry must be at most {MAX_ENTRY_BYTES} bytes, got {len(entry)}")
        total += len(entry)
    if total > MAX_BATCH_BYTES:
        raise ValueError(f"a batch must be at most {MAX_BATCH_BYTES} bytes, got {total}")


def check_time(at_us: int, position: int) -> None:
    """Raise `LogDamaged` unless an entry's log time is in the years that a date can have. O(1)."""
    if not 0 <= at_us <= LAST_US:
        raise LogDamaged(
            f"entry {position} must have a log time from 1970 to 9999, got {at_us} us", position=position
        )


def check_head(head: Head, where: object) -> None:
    """Raise `LogDamaged` unless this can be the state of a log; ``where`` names the log."""
    values = [str, int, int, int, int]
    if [type(value) for value in head] != values or not head.epoch:
        raise LogDamaged(f"{where} must have a head, got {tuple(head)}")
    check_time(head.at_us, head.position)
    if not 0 <= head.checkpoint <= head.position:
        raise LogDamaged(f"{where} must reach its checkpoint at {head.checkpoint}, ends at {head.position}")


def check_epoch(head: Head, epoch: str, where: object) -> None:
    """Raise `LogDamaged` unless a log has an epoch; an empty one stands for any."""
    if epoch and head.epoch != epoch:
        raise LogDamaged(
            f"{where} must have epoch {epoch}, got {head.epoch}: it was replaced while in use; put the right one back, "
            "or restart all to go on with this one"
        )


def check_empty(head: Head, where: object) -> None:
    """Raise `LogError` unless a log has had no entry; ``where`` names it."""
    if head.position:
        raise LogError(f"{where} must be empty, got position {head.position}")


def check_follow(after: int) -> None:
    """Raise `ValueError` unless `Log.follow` can start there."""
    if after < 0:
        raise ValueError(f"after must be 0 or a position, got {after}")


def check_save(position: int, keep: int, head: Head) -> None:
    """Raise `ValueError` unless `Log.save` takes these, given the log's present state."""
    if not 1 <= position <= head.position:
        raise ValueError(f"position must be from 1 to the newest, {head.position}, got {position}")
    if position <= head.checkpoint:
        raise ValueError(
            f"position must be above the present checkpoint's, {head.checkpoint}, got {position}"
        )
    if keep < 0:
        raise ValueError(f"keep must be at least 0, got {keep}")


def loads(head: Head, before: int, below: int | None) -> int:
    """Return the position of the checkpoint that `Log.load` returns; 0 for none.

    Args:
        head: The log's present state.
        before: The position of the checkpoint before the newest; 0 if none is kept.
        below: As for `Log.load`.
    """
    if below is None or head.checkpoint < below:
        return head.checkpoint
    return before if before < below and head.oldest <= before + 1 else 0


async def save_parts(parts: AsyncIterator[bytes], save: Callable[[int, bytes], Awaitable[None]]) -> int:
    """Store the parts of a checkpoint and an empty one that ends them; return their number.

    Args:
        parts: Its bytes.
        save: Stores a part by its number, from 0.

    Raises:
        ValueError: A part is too large.
    """
    number = 0
    async for part in parts:
        if len(part) > MAX_ENTRY_BYTES:
            raise ValueError(f"a part must be at most {MAX_ENTRY_BYTES} bytes, got {len(part)}")
        if part:
            await save(number, part)
            number += 1
    await save(number, b"")
    return number + 1


async def load_parts(
    position: int, load: Callable[[int, int], Awaitable[bytes | None]], head: Callable[[], Awaitable[Head]]
) -> AsyncIterator[bytes]:
    """Yield the parts of a checkpoint; see `Checkpoint`.

    Args:
        position: The checkpoint's.
        load: Returns a part by position and number; None if it is not there.
        head: Returns the log's present state.
    """
    number = 0
    while part := await load(position, number):
        yield part
        number += 1
    if part is None:
        present = (await head()).checkpoint
        if present != position:
            raise LogUnavailable(
                f"checkpoint {position} was replaced by that at {present} meanwhile: load again"
            )
        raise LogDamaged(f"checkpoint {position} must have a part {number}, but has none", position=position)


def one_read(entries: Iterable[Entry]) -> list[Entry]:
    """Take as many entries as one read of `Log.follow` may hand out: at least one, if any is there."""
    taken: list[Entry] = []
    total = 0
    for entry in entries:
        total += len(entry.data)
        if taken and total > MAX_READ_BYTES:
            break
        taken.append(entry)
        if len(taken) == MAX_READ_ENTRIES:
            break
    return taken
