"""A log in a Postgres database, for workers on any number of machines."""

import asyncio
import hashlib
import logging
import re
import secrets
import struct
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any, Final, Literal

import asyncpg  # noqa: TC002 - what is missing should show here

from purgatory_async.cluster.log import (
    Appended,
    Entry,
    Head,
    LogDamaged,
    LogError,
    LogRefused,
    LogUnavailable,
    new_epoch,
)
from purgatory_async.cluster.postgres_link import Link
from purgatory_async.cluster.server_log import (
    GRACE_S,
    PING_S,
    End,
    EntriesLost,
    Found,
    Known,
    ServerLog,
    Told,
)
from purgatory_async.cluster.turns import CALL_S
from purgatory_async.cluster.url_options import postgres_url

__all__ = ["PostgresLog"]

POLL_S: Final = 0.5  # while notifications arrive
DEAF_POLL_S: Final = 0.05  # while they do not
HEARING_S: Final = 1.0
TRIM_SLICE: Final = 5_000  # entries; trimming more at once would delay others
OLDEST_SERVER: Final = 13

_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_LOGGER: Final = logging.getLogger(__name__)
_AT_US: Final = struct.Struct(">q")
_TAKEN: Final = "23505"  # SQLSTATE of a position that is there already
_SCHEMA: Final = (files("purgatory_async.cluster") / "postgres.sql").read_text(encoding="utf-8")
_LOCK: Final = 0x7075_7267  # "purg"; held while the tables are created

# Appends queue on the lock of the head's row; if another program has it, an append gives up before a client's 503.
LOCK_S: Final = 4.0
_SYNC: Final = """
SELECT set_config('synchronous_commit', 'on', {local}) WHERE current_setting('synchronous_commit') = 'off'
"""
_STATE: Final = """
SELECT to_regprocedure($1) IS NOT NULL AS created, current_setting('transaction_read_only') = 'on' AS read_only,
    current_setting('fsync') AS fsync, current_schema() IS NULL AS nowhere, current_setting('search_path') AS path
"""
_HEAD: Final = """
SELECT h.epoch, h.position, h.at_us,
    coalesce((SELECT min(l.position) FROM purgatory_log l), h.position + 1), h.checkpoint
FROM purgatory_head h
"""
# A log that was restored from a dump gets another epoch, or is reported.
_RESTORED: Final = """
WITH present AS (
    SELECT d.oid || '.' || 'purgatory_head'::regclass::oid AS place
    FROM pg_database d WHERE d.datname = current_database()
), changed AS (
    UPDATE purgatory_head h SET epoch = $1, place = p.place FROM present p WHERE h.place <> p.place AND $2 RETURNING 1
) SELECT NOT $2 AND EXISTS (SELECT FROM purgatory_head h, present p WHERE h.place <> p.place)
"""
_END: Final = "SELECT epoch, position, at_us, level FROM purgatory_head"
# Bytes and times travel as text[], whose elements asyncpg knows; for other arrays it asks the server on each new
# connection, which took 7 ms of 14.
_APPEND: Final = """
SELECT a.first, a.at_us FROM purgatory_append(ARRAY(
    SELECT decode(e.entry, 'base64') FROM unnest($1::text[]) WITH ORDINALITY e(entry, number) ORDER BY e.number
), $2, $3, $4) a
"""
_READ: Final = """
SELECT r.epoch, r.newest, r.oldest, r.digest, r.outbox, r.first, r.last, r.times::text[] AS times, ARRAY(
    SELECT encode(e.entry, 'base64') FROM unnest(r.entries) WITH ORDINALITY e(entry, number) ORDER BY e.number
) AS entries FROM purgatory_read($1, $2) r
"""
# A statement that waited for another's change sees it in the row itself, not in the snapshot that a second SELECT
# reads.
_CHANGE_EPOCH: Final = """
UPDATE purgatory_head SET epoch = CASE epoch WHEN $1 THEN $2 ELSE epoch END RETURNING epoch
"""
_TRIM: Final = """
WITH gone AS (
    DELETE FROM purgatory_log WHERE position <= least(
        $1, (SELECT position FROM purgatory_head) - 1, (SELECT min(position) FROM purgatory_log) + $2 - 1
    ) RETURNING 1
) SELECT count(*) FROM gone
"""
# The parts of a save that another one has overtaken are not all there.
_BEFORE: Final = """
SELECT coalesce(max(position), 0) FROM (
    SELECT position FROM purgatory_checkpoint WHERE position < (SELECT checkpoint FROM purgatory_head)
    GROUP BY position HAVING count(*) = max(part) + 1
) complete
"""
# Returns whether it has. The entry is the only one, and tells whether later ones were lost.
_BEGIN: Final = """
WITH begun AS (
    UPDATE purgatory_head SET position = $1, at_us = $2, checkpoint = $1
    WHERE position = 0 AND $4 = (SELECT count(*) FROM purgatory_checkpoint WHERE position = $1) RETURNING 1
), first AS (
    INSERT INTO purgatory_log SELECT $1, $2, $3 FROM begun RETURNING 1
) SELECT count(*) FROM first
"""
# A few megabytes at a time, so that it takes a moment.
_DELETE_PARTS: Final = """
WITH gone AS (
    DELETE FROM purgatory_checkpoint WHERE (position, part) IN (
        SELECT position, part FROM purgatory_checkpoint WHERE {condition} LIMIT 64
    ) RETURNING 1
) SELECT count(*) FROM gone
"""


class PostgresLog(ServerLog):
    """A log in a Postgres database (13 or later): workers on many machines, as durable as the database.

    The first one to open it creates its tables and functions in the first schema of the search path, which needs CREATE
    there. Afterwards ``SELECT purgatory_signal('order-42', '{"paid": true}')`` in a transaction of the application
    signals with its commit, and not at all after a rollback. (Such a transaction cannot be prepared for a two-phase
    commit: the function also notifies the workers.)

    Args:
        dsn: ``postgresql://user:password@host/database``, with options as libpq has them.
        name: What the names of the tables and functions begin with: lower-case letters, digits and underscores.
        sync: ``"always"`` waits for the disk in each commit; with ``"os"`` a crash of the server may take the last
            moments.

    Raises:
        ValueError: ``name``, ``sync`` or an option of ``dsn`` is invalid.
    """

    def __init__(
        self, dsn: str, *, name: str = "purgatory", sync: Literal["always", "os"] = "always"
    ) -> None:
        if _NAME.fullmatch(name) is None:
            raise ValueError(
                f"name must be 1 to 40 of a-z, 0-9 and _, not beginning with a digit, got {name!r}"
            )
        if sync not in {"always", "os"}:
            raise ValueError(f"sync must be one of 'always', 'os', got {sync!r}")
        self._name = name
        super().__init__(_PostgresEngine(dsn, name, sync))

    def __repr__(self) -> str:
        return f"<PostgresLog {self._name!r} {self._open.state}>"


class _PostgresEngine:
    """Four connections: for appends, for reads, for the rest with LISTEN, and for a checkpoint while it is saved."""

    def __init__(self, dsn: str, name: str, sync: str) -> None:
        self._name = name
        self._sync = sync
        url = postgres_url(dsn)
        self._writer = Link(url, self._settings, self._prepare, repeats=False)
        self._reader = Link(url, self._settings, self._prepare)
        self._saver = Link(url, self._settings, self._prepare, repeats=False)
        self._listener = Link(url, self._settings, self._listen, self._deafen)
        self._links = (self._writer, self._reader, self._saver, self._listener)
        self._opened = False
        self._heard: Callable[[], None] = lambda: None
        self._told: Told = lambda _before, _entries: None
        self._known: Callable[[], int] = lambda: 0
        self._token = f"?{secrets.token_hex(8)}"  # sent to itself, to learn whether notifications arrive
        self._hearing, self._deaf = asyncio.Event(), asyncio.Event()
        self._warned = False

    @property
    def losses(self) -> int:
        """How many times the connection for appends was lost."""
        return self._writer.losses

    @property
    def poll_s(self) -> float:
        """Seconds between reads of an idle follower."""
        return POLL_S if self._hearing.is_set() else DEAF_POLL_S

    @property
    def grace_s(self) -> float:
        """Seconds for which what is missing before a batch may still be told."""
        return GRACE_S if self._hearing.is_set() else 0.0

    def digest(self, at_us: int, data: bytes) -> bytes:
        """Return the digest that ``purgatory_digest`` does."""
        return hashlib.sha256(_AT_US.pack(at_us) + data).digest()

    async def open(self, *, create: bool) -> None:
        """Connect, check the settings, create what is missing."""
        row = await self._row(self._writer, _STATE, f"{self._name}_append(bytea[],text,bigint,bytea)")
        if row["read_only"]:
            raise LogUnavailable(
                "Postgres must take writes, got a read-only session; connect to the primary",
                cause="read-only",
            )
        if self._sync == "always" and row["fsync"] == "off":
            raise LogRefused(
                f"fsync must be on, got {row['fsync']}: a crash of the machine would damage the log"
            )
        if not row["created"] and not create:
            raise LogDamaged(f"the log {self._name} was removed while in use; put it back, and restart")
        if row["nowhere"]:
            raise LogRefused(f"search_path must name a schema that exists, got {row['path']!r}")
        if not row["created"]:
            await self._writer.run(f"SELECT pg_advisory_xact_lock({_LOCK}); {self._named(_SCHEMA)}")
        elif (await self._row(self._writer, _RESTORED, new_epoch(), create))[0]:
            raise LogDamaged(f"the log {self._name} was replaced while in use; put it back, and restart")
        self._opened = True

    async def head(self) -> Head:
        """Return the log's state."""
        return Head(*await self._row(self._reader, _HEAD))

    async def append(self, entries: Sequence[bytes], epoch: str, known: Known) -> Appended:
        """Append a batch, or raise `EntriesLost`."""
        texts = [b2a_base64(entry, newline=False).decode() for entry in entries]
        try:
            return Appended(*await self._row(self._writer, _APPEND, texts, epoch, *known))
        except LogError as error:
            if getattr(error.__cause__, "sqlstate", "") == _TAKEN:
                raise LogDamaged(f"the log must end at its head, got an entry beyond it: {error}") from error
            raise

    async def read(self, after: int, known: int) -> Found:
        """Read what comes after a position. If nothing does, move what is in the outbox."""
        row = await self._row(self._reader, _READ, after, known)
        if row["epoch"] is None:
            raise LogDamaged(f"the log {self._name} must have a head, but has none; restore a backup")
        if row["outbox"] and row["first"] is None:
            await self._row(self._writer, "SELECT purgatory_append('{}')")
            row = await self._row(self._reader, _READ, after, known)
        entries: list[Entry] = []
        if row["first"] is not None:
            places = range(row["first"], row["last"] + 1)
            if len(places) != len(row["entries"]):
                raise LogDamaged(
                    f"entries {places[0]} to {places[-1]} must have no holes", position=places[0]
                )
            entries = list(map(Entry, places, map(int, row["times"]), map(a2b_base64, row["entries"])))
        return Found(row["epoch"], row["newest"], row["oldest"], row["digest"], entries)

    async def end(self) -> End:
        """Return the newest position, and what goes with it."""
        return End(*await self._row(self._listener, _END))

    async def change_epoch(self, epoch: str) -> str:
        """Change the epoch unless it has changed already; return the present one."""
        return str((await self._row(self._writer, _CHANGE_EPOCH, epoch, new_epoch()))[0])

    async def attend(self, heard: Callable[[], None], told: Told, known: Callable[[], int]) -> None:
        """Listen, and read on each idle connection, until the listening one is lost."""
        self._heard, self._told, self._known = heard, told, known
        self._deaf.clear()
        await self._row(self._listener, "SELECT 1")
        await self._learn_whether_it_hears()
        heard()
        while not await _within(PING_S, self._deaf):
            await asyncio.gather(*(self._row(link, "SELECT 1") for link in self._links if link.idle))

    async def before(self) -> int:
        """Return the position of the checkpoint before the newest; 0 if none is kept."""
        return int((await self._row(self._reader, _BEFORE))[0])

    async def begin_save(self, position: int) -> None:
        """Remove what an interrupted save has left, and the checkpoint before the newest."""
        await self._delete_parts("position <> (SELECT checkpoint FROM purgatory_head) AND $1 > 0", position)

    async def save_part(self, position: int, number: int, data: bytes) -> None:
        """Store one part, still invisible; the last one is empty."""
        query = "INSERT INTO purgatory_checkpoint VALUES ($1, $2, $3) RETURNING part"
        await self._row(self._saver, query, position, number, data)

    async def publish(self, position: int, count: int) -> None:
        """Make the saved parts the checkpoint."""
        try:
            await self._row(self._saver, "SELECT purgatory_publish($1, $2)", position, count)
        except EntriesLost as error:
            raise LogError(f"checkpoint {position} is not published: {error}") from error

    async def begin(self, entry: Entry, count: int) -> None:
        """Make the saved parts the checkpoint of an empty log, and an entry its only one."""
        if not (await self._row(self._saver, _BEGIN, *entry, count))[0]:
            raise LogError(f"the log {self._name} was begun by another process, or its {count} parts removed")

    async def trim(self, last: int) -> bool:
        """Delete some entries up to a position, but never the newest; True if more are left to delete."""
        if int((await self._row(self._saver, _TRIM, last, TRIM_SLICE))[0]) == TRIM_SLICE:
            return True
        if self._saver.idle:  # another save may be under way
            self._saver.drop()
        return False

    async def part(self, position: int, number: int) -> bytes | None:
        """Read one part of a checkpoint."""
        query = """SELECT (SELECT data FROM purgatory_checkpoint WHERE position = $1 AND part = $2)"""
        data: bytes | None = (await self._row(self._reader, query, position, number))[0]
        return data

    async def aclose(self) -> None:
        """Break the connections."""
        await asyncio.gather(*(link.aclose() for link in self._links))

    def _named(self, sql: str) -> str:
        return sql.replace("purgatory", self._name)

    async def _row(self, link: Link, query: str, *arguments: object) -> "asyncpg.Record":
        try:
            return await link.row(self._named(query), *arguments)
        except LogRefused as error:
            if self._opened:
                raise error.as_outage() from error
            raise

    async def _delete_parts(self, condition: str, position: int) -> None:
        query = _DELETE_PARTS.format(condition=condition)
        while (await self._row(self._saver, query, position))[0]:
            pass

    def _settings(self, local: bool) -> str:
        """Return what a session needs: each statement sees what was committed before it, and none waits for ever."""
        word = "LOCAL" if local else "SESSION"
        durable = f"SET {word} synchronous_commit = off" if self._sync == "os" else _SYNC.format(local=local)
        level = "" if local else "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED;"
        return (
            f"{level} SET {word} statement_timeout = {int(1000 * CALL_S)};"
            f" SET {word} lock_timeout = {int(1000 * LOCK_S)}; {durable}"
        )

    async def _prepare(self, connection: "asyncpg.Connection[Any]") -> None:
        """Prepare a new connection."""
        version = connection.get_server_version()
        if version.major < OLDEST_SERVER:
            raise LogRefused(f"Postgres must be version {OLDEST_SERVER} or later, got {version.major}")
        standby = await connection.fetchval(
            "SELECT coalesce(host(inet_server_addr()), 'its socket') WHERE pg_is_in_recovery()"
        )
        if standby:
            raise LogUnavailable(
                f"Postgres must be the primary, got the standby at {standby}", cause="read-only"
            )

    async def _listen(self, connection: "asyncpg.Connection[Any]") -> None:
        await self._prepare(connection)
        if not self._listener.pooled:  # it would hear some by chance, on a session that others use next
            await connection.add_listener(self._name, self._notified)
            channel = await connection.fetchval(self._named("SELECT channel FROM purgatory_head"))
            if channel is not None:  # else the log is damaged, as its readers will see
                await connection.add_listener(channel, self._tell)

    def _notified(self, _connection: object, sender: int, _channel: str, payload: object) -> None:
        if payload == self._token:
            self._hearing.set()
        elif not str(payload).startswith("?") and sender != self._writer.server_process:
            self._heard()

    def _tell(self, _connection: object, _sender: int, _channel: str, payload: object) -> None:
        try:
            first, count, at_us, before, *texts = str(payload).split(" ")
            places = range(int(first), int(first) + int(count))
            if places[-1] <= self._known():
                return  # as what this worker has appended itself
            entries = [
                Entry(at, int(at_us), a2b_base64(text)) for at, text in zip(places, texts, strict=True)
            ]
            self._told(bytes.fromhex(before), entries)
        except ValueError:
            self._heard()

    def _deafen(self) -> None:
        self._hearing.clear()
        self._deaf.set()

    async def _learn_whether_it_hears(self) -> None:
        self._hearing.clear()
        heard = False
        if not self._listener.pooled:
            # From another connection: an unknown pooler may give each call of this one to another session.
            await self._row(self._reader, "SELECT pg_notify($1, $2)", self._name, self._token)
            heard = await _within(HEARING_S, self._hearing)
        if not heard and not self._deaf.is_set() and not self._warned:
            self._warned = True
            _LOGGER.warning(
                "notifications of Postgres do not arrive, as behind a pooler: reading each %d ms instead",
                1000 * DEAF_POLL_S,
            )


async def _within(seconds: float, event: asyncio.Event) -> bool:
    """Wait for an event; False if it did not happen in time."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
