"""What the logs on a server share: whether it lost entries, reconnecting, checkpoints.

A server can lose its newest entries, in a failover or with a restored backup, and others may then append past them. So
every read and every append names the newest entry that this log knows, and the server compares. If that entry is gone,
the log changes the epoch by compare-and-set, and every follower of every worker raises `LogGap`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, Protocol

from purgatory_async.cluster.connection import Backoff
from purgatory_async.cluster.engine_log import EngineLog
from purgatory_async.cluster.entries import LEVEL
from purgatory_async.cluster.log import (
    Appended,
    Checkpoint,
    Entry,
    Head,
    LogDamaged,
    LogGap,
    LogReconnected,
    LogUnavailable,
    check_empty,
    check_epoch,
    check_head,
    check_save,
    check_time,
    load_parts,
    loads,
    save_parts,
)

__all__ = ["GRACE_S", "PING_S", "End", "Engine", "EntriesLost", "Found", "Known", "ServerLog", "Told"]

Told = Callable[[bytes, Sequence[Entry]], None]
"""Called with entries that the server tells, in order and without holes, and the digest of the one before them."""

PING_S = 9.0
"""Seconds between reads on an idle connection; together with `CALL_S` below 20, by which a dead one is noticed."""

GRACE_S = 0.005
"""Seconds in which a server tells what others appended before this worker's last batch."""

DIGESTS = 64  # of the newest entries, with which news is compared


class EntriesLost(LogUnavailable):
    """The server has another epoch, or lost the newest entry known here; nothing was appended."""


class Known(NamedTuple):
    """The newest entry that is known to be in the log; position 0 if none is."""

    position: int
    digest: bytes


class Found(NamedTuple):
    """What a read found.

    Attributes:
        epoch: The epoch.
        position: The newest position.
        oldest: The oldest one that is there; ``position + 1`` if none is.
        digest: The digest of the entry at the position known; None if that entry is gone.
        entries: The next entries.
    """

    epoch: str
    position: int
    oldest: int
    digest: bytes | None
    entries: Sequence[Entry]


class End(NamedTuple):
    """The end of a log: its epoch, empty if the server lost the log; its newest position; the log time there."""

    epoch: str
    position: int
    at_us: int
    level: int


class Engine(Protocol):
    """The calls on one server. Each raises `LogUnavailable` while the server is away."""

    @property
    def poll_s(self) -> float:
        """Seconds between reads of an idle follower."""
        ...

    @property
    def grace_s(self) -> float:
        """Seconds for which what is missing before a batch may still be told; 0 if it is not."""
        ...

    def digest(self, at_us: int, data: bytes) -> bytes:
        """Return what tells an entry from another one at its position."""
        ...

    @property
    def losses(self) -> int:
        """How many times the connection for appends was lost."""
        ...

    async def open(self, *, create: bool) -> None:
        """Connect and check the server's settings; create the log if there is none, or raise `LogDamaged`."""
        ...

    async def head(self) -> Head:
        """Return the log's state."""
        ...

    async def append(self, entries: Sequence[bytes], epoch: str, known: Known) -> Appended:
        """Append a batch, or raise `EntriesLost`."""
        ...

    async def read(self, after: int, known: int) -> Found:
        """Read what comes after a position."""
        ...

    async def end(self) -> End:
        """Return the newest position, and what goes with it."""
        ...

    async def change_epoch(self, epoch: str) -> str:
        """Change the epoch unless it has changed already; return the present one."""
        ...

    async def attend(self, heard: Callable[[], None], told: Told, known: Callable[[], int]) -> None:
        """Keep the connections alive and report new entries, until the connection for that is lost.

        Args:
            heard: Called when there is news that has to be read.
            told: Called with the entries instead, if the server says them.
            known: Returns the position up to which entries are known here.
        """
        ...

    async def before(self) -> int:
        """Return the position of the checkpoint before the newest; 0 if none is kept."""
        ...

    async def begin_save(self, position: int) -> None:
        """Remove what an interrupted save has left, and the checkpoint before the newest."""
        ...

    async def save_part(self, position: int, number: int, data: bytes) -> None:
        """Store one part, still invisible; the last one is empty."""
        ...

    async def publish(self, position: int, count: int) -> None:
        """Make the saved parts the checkpoint, or raise `LogError` if they are not all there."""
        ...

    async def begin(self, entry: Entry, count: int) -> None:
        """Make the saved parts the checkpoint of an empty log, and an entry its only one; or raise `LogError`."""
        ...

    async def trim(self, last: int) -> bool:
        """Delete some entries up to a position, but never the newest; True if more are left to delete."""
        ...

    async def part(self, position: int, number: int) -> bytes | None:
        """Read one part of a checkpoint."""
        ...

    async def aclose(self) -> None:
        """Break the connections; calls under way have failed when it returns. Later ones fail, too."""
        ...


class ServerLog(EngineLog):
    """A log on a server; see `Log`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        super().__init__(lambda: engine.poll_s, lambda: engine.grace_s)
        self._attending: asyncio.Task[None] | None = None
        self._appended = False
        self._losses = 0
        self._known = Known(0, b"")
        self._digests: dict[int, bytes] = {}  # of some of the newest entries known, by position

    async def open(self, *, epoch: str = "") -> Head:
        """Connect, and create the log if there is none; see `Log.open`."""
        self._open.open()
        try:
            await self._engine.open(create=not epoch)
            self._check_end(await self._engine.end())
            head = await self._head()
            check_epoch(head, epoch, self)
            self._open.require("open it")  # it may have been closed meanwhile
        except BaseException:
            await self.aclose()
            raise
        self._epoch = head.epoch
        self._attending = asyncio.create_task(self._attend())
        return head

    async def change_epoch(self) -> str:
        """Make another epoch, as after a backup was restored, unless another process does; return it."""
        self._open.require("change its epoch")
        return await self._engine.change_epoch(self._epoch)

    async def save(self, position: int, parts: AsyncIterator[bytes], keep: int) -> None:
        """Save a checkpoint and trim; see `Log.save`. Appends go on meanwhile."""
        self._open.require("save")
        check_save(position, keep, await self._head())
        await self._engine.publish(position, await self._saved(position, parts))
        while await self._engine.trim(position - keep):
            pass

    async def begin(self, entry: Entry, parts: AsyncIterator[bytes]) -> None:
        """Let an empty log begin with a checkpoint at an entry, which becomes its oldest; all of it in one step.

        Raises:
            LogError: The log is not empty, or another process saves a checkpoint; nothing has changed.
        """
        self._open.require("begin")
        check_empty(await self._head(), self)
        await self._engine.begin(entry, await self._saved(entry.position, parts))

    async def load(self, *, below: int | None = None) -> Checkpoint | None:
        """Return the newest checkpoint; see `Log.load`."""
        self._open.require("load")
        head = await self._head()
        before = 0 if below is None else await self._engine.before()
        position = loads(head, before, below)
        parts = load_parts(position, self._engine.part, self._head)
        return Checkpoint(position, parts, head.epoch) if position else None

    async def aclose(self) -> None:
        """Disconnect from the server; see `Log.aclose`."""
        if not self._open.close():
            return
        await self._engine.aclose()
        await self._queue.aclose()
        await self._trip.aclose()
        if self._attending is not None:
            self._attending.cancel()
            await asyncio.wait([self._attending])
        self._tail.hint()

    async def _append(self, entries: Sequence[bytes]) -> Appended:
        losses, self._losses = self._losses, self._engine.losses
        if self._appended and losses != self._losses:
            raise LogReconnected(
                f"the connection for appends was lost: append the {len(entries)} entries again, none is in the log"
            )
        epoch = self._epoch
        try:
            appended = await self._engine.append(entries, epoch, self._known)
        except EntriesLost:
            self._tail.hint()  # a follower changes the epoch and raises LogGap
            if not self._followed:
                await self._start_over()
            raise
        if epoch != self._epoch:  # a follower has met a loss since the batch was sent
            raise LogUnavailable(
                f"epoch must still be {epoch}, got {self._epoch}: the batch of {len(entries)} at position "
                f"{appended.first} may be lost; append it again"
            )
        self._appended = True
        self._know(Entry(appended.first + len(entries) - 1, appended.at_us, entries[-1]))
        self._tail.append(epoch, appended, entries)
        return appended

    async def _saved(self, position: int, parts: AsyncIterator[bytes]) -> int:
        """Save the parts of a checkpoint, still invisible; return their number."""
        await self._engine.begin_save(position)
        return await save_parts(parts, partial(self._engine.save_part, position))

    async def _head(self) -> Head:
        head = await self._engine.head()
        check_head(head, self)
        if head.position and head.oldest > head.position:  # it is never trimmed
            raise LogDamaged(f"entry {head.position} must be there, the newest one", position=head.position)
        return head

    async def _end(self) -> int:
        known = self._known.position  # before: appends go on
        end = await self._engine.end()
        self._check_end(end)
        if end.epoch != self._epoch or (self._followed and end.position < known):
            self._tail.hint()  # a follower raises LogGap
            raise LogUnavailable(
                f"the log must have epoch {self._epoch} and reach position {known}, got {end.epoch} and "
                f"{end.position}: it has lost entries"
            )
        return end.position

    def _check_end(self, end: End) -> None:
        check_time(end.at_us, end.position)
        if end.level > LEVEL:
            raise LogDamaged(
                f"{self} must be at level {LEVEL} or below, got {end.level}; upgrade this package"
            )

    async def _start_over(self) -> None:
        """Accept the log as it is, unless it was followed: what was read may be lost, so a follower must hear of it."""
        found = await self._engine.read(self._known.position, self._known.position)
        present = await self._present_epoch(found, self._known)
        if not self._followed:  # nor meanwhile
            self._begin(present)

    async def _read(self, epoch: str, after: int) -> Sequence[Entry]:
        known = self._known
        return await self._checked(await self._engine.read(after, known.position), after, epoch, known)

    async def _checked(self, found: Found, after: int, epoch: str, known: Known) -> Sequence[Entry]:
        """Return the entries of a read, or raise `LogGap`."""
        if found.epoch != epoch or _lacks(found, known) or not found.oldest - 1 <= after <= found.position:
            present = await self._present_epoch(found, known)
            if present != self._epoch:
                self._begin(present)
            raise LogGap(
                f"after must be from {found.oldest - 1} to {found.position} in epoch {epoch}, got {after} in "
                f"{present}; the entries between are gone",
                oldest=found.oldest,
                epoch=present,
            )
        if found.position == known.position > 0 and found.digest is None:
            raise LogDamaged(f"entry {known.position} must be there, the newest one", position=known.position)
        _check_order(found.entries, after + 1)
        if found.entries:
            self._know(found.entries[-1])
        return found.entries

    async def _present_epoch(self, found: Found, known: Known) -> str:
        """Return the log's epoch, after a change if it still is the epoch of the lost entries."""
        if not found.epoch:
            return (await self._head()).epoch  # the server was emptied: another log begins
        if found.epoch == self._epoch and _lacks(found, known):
            return await self._engine.change_epoch(found.epoch)
        return found.epoch

    def _begin(self, epoch: str) -> None:
        self._epoch, self._known = epoch, Known(0, b"")
        self._digests.clear()

    def _know(self, entry: Entry) -> None:
        digest = self._digests[entry.position] = self._engine.digest(entry.at_us, entry.data)
        if len(self._digests) > DIGESTS:
            del self._digests[next(iter(self._digests))]
        if entry.position > self._known.position:
            self._known = Known(entry.position, digest)

    def _told(self, before: bytes, entries: Sequence[Entry]) -> None:
        """Take what the server tells if it follows an entry that is known here; else the server may have lost that."""
        first = entries[0].position
        try:
            _check_order(entries, first)
        except LogDamaged:
            before = b""  # no digest: who reads it raises that
        if self._digests.get(first - 1) != before:
            self._tail.hint()
            return
        self._know(entries[-1])
        for at_us, batch in groupby(entries, key=attrgetter("at_us")):
            told = [entry.data for entry in batch]
            self._tail.append(self._epoch, Appended(first, at_us), told)
            first += len(told)

    async def _attend(self) -> None:
        backoff = Backoff()
        while self._open:
            try:
                await self._engine.attend(self._tail.hint, self._told, lambda: self._tail.end)
                backoff.reset()
            except LogUnavailable:
                pass  # reads fail too and report it; until then they poll
            await asyncio.sleep(backoff.next_delay())


def _check_order(entries: Sequence[Entry], first: int) -> None:
    """Raise `LogDamaged` at the first entry that is not the next one from a position on, or has no log time."""
    for place, entry in enumerate(entries, first):
        if entry.position != place:
            raise LogDamaged(f"entry {place} must come next, got {entry.position}", position=place)
        check_time(entry.at_us, place)


def _lacks(found: Found, known: Known) -> bool:
    """Whether the server has lost the newest entry known; one that was trimmed is not lost."""
    return known.position > found.position or (found.digest is not None and found.digest != known.digest)
