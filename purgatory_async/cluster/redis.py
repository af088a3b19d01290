"""A log in a Redis stream, for workers on any number of machines."""

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any, Final

import redis.exceptions

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
from purgatory_async.cluster.redis_link import Link, explained
from purgatory_async.cluster.server_log import GRACE_S, PING_S, End, Found, Known, ServerLog, Told
from purgatory_async.cluster.url_options import redis_url, warn_once

__all__ = ["RedisLog"]

POLL_S: Final = 0.5
TOLD_ENTRIES: Final = 16  # at a time; each may be large
TRIM_SLICE: Final = 5_000  # entries; trimming more at once would delay others
PROTOCOL_S: Final = 2.0
WAIT_MS: Final = 1_000
OLDEST_SERVER: Final = (6, 2)

SCRIPT: Final = (files("purgatory_async.cluster") / "redis.lua").read_text(encoding="utf-8")
_REPEATED: Final = {"read", "end", "open", "part", "epoch", "before"}  # once, if the server is away
_SCRIPT_SHA: Final = hashlib.sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()


class RedisLog(ServerLog):
    """A log in a Redis stream (6.2 or later): workers on many machines, as durable as the Redis is set up.

    ``maxmemory-policy`` must be ``noeviction``. For what was appended to survive a crash, ``appendonly`` must be on and
    ``appendfsync`` be ``always``; otherwise a warning says at the start what can be lost. Scripts must be allowed.

    Args:
        url: ``redis://user:password@host:port/0``, ``rediss://`` or ``unix://``, as redis-py takes it. With
            ``?wait=N``, each append waits up to 1 s for N replicas.
        name: What the keys begin with, in braces: ``{purgatory}:log``.

    Raises:
        ValueError: ``url``, one of its options, or ``name`` is invalid.
    """

    def __init__(self, url: str, *, name: str = "purgatory") -> None:
        if not name or not name.isprintable() or "{" in name or "}" in name:
            raise ValueError(f"name must be printable text without braces, got {name!r}")
        self._name = name
        super().__init__(_RedisEngine(url, name))

    def __repr__(self) -> str:
        return f"<RedisLog {self._name!r} {self._open.state}>"


class _RedisEngine:
    """Four connections: for appends, for reads, for the rest, and one that blocks until there is news."""

    def __init__(self, url: str, name: str) -> None:
        self._url, self._replicas = redis_url(url)
        self._log, self._head = f"{{{name}}}:log", f"{{{name}}}:head"
        self._links = [Link(self._url) for _ in range(4)]
        self._writer, self._reader, self._asker, self._listener = self._links
        self._opened = False
        self._token = ""
        self._appended = asyncio.Event()  # cleared while an append is under way
        self._appended.set()

    @property
    def losses(self) -> int:
        """How many times the connection for appends was lost."""
        return self._writer.losses

    @property
    def poll_s(self) -> float:
        """Seconds between reads of an idle follower."""
        return POLL_S

    @property
    def grace_s(self) -> float:
        """Seconds for which what is missing before a batch may still be told."""
        return GRACE_S

    def digest(self, at_us: int, data: bytes) -> bytes:
        """Return the digest that the script's ``digest_at`` does."""
        return hashlib.sha1(b"%d%b" % (at_us, data), usedforsecurity=False).hexdigest().encode()

    async def open(self, *, create: bool) -> None:
        """Connect, check the settings, create what is missing."""
        await self._require_protocol()
        server, memory = (
            await self._do(self._asker, "INFO", "server"),
            await self._do(self._asker, "INFO", "memory"),
        )
        version = str(server["redis_version"])
        if tuple(map(int, version.split(".")[:2])) < OLDEST_SERVER:
            raise LogRefused(f"Redis must be version 6.2 or later, got {version}")
        if (policy := memory["maxmemory_policy"]) != "noeviction":
            raise LogRefused(f"maxmemory-policy must be noeviction, got {policy}: Redis could drop the log")
        await self._warn_of_losses()
        if create:
            await self.head()
        elif not (await self.end()).epoch:
            raise LogDamaged(f"the log {self._log} was removed while in use; put it back, and restart")
        self._opened = True

    async def head(self) -> Head:
        """Return the log's state; creates the log if there is none."""
        epoch, position, at_us, oldest, checkpoint = await self._run(self._asker, "open", new_epoch())
        return Head(epoch.decode(), position, _time(at_us, position), oldest, checkpoint)

    async def append(self, entries: Sequence[bytes], epoch: str, known: Known) -> Appended:
        """Append a batch, or raise `EntriesLost`."""
        self._appended.clear()
        try:
            first, at_us = await self._run(self._writer, "append", epoch, *known, *entries)
            if self._replicas:
                reached = await self._do(self._writer, "WAIT", self._replicas, WAIT_MS)
                if reached < self._replicas:
                    raise LogUnavailable(
                        f"{self._replicas} replicas must have the entries, got {reached}", cause="replicas"
                    )
        finally:
            self._appended.set()
        return Appended(first, int(at_us))

    async def read(self, after: int, known: int) -> Found:
        """Read what comes after a position."""
        row = await self._run(self._reader, "read", after, known)
        epoch, newest, oldest, digest = row[:4]
        entries = [
            Entry(at, _time(us, at), data)
            for at, us, data in zip(row[4::3], row[5::3], row[6::3], strict=True)
        ]
        return Found(epoch.decode(), newest, oldest, digest or None, entries)

    async def end(self) -> End:
        """Return the newest position, and what goes with it."""
        epoch, position, at_us, level = await self._run(self._asker, "end")
        return End(epoch.decode(), position, _time(at_us, position), level)

    async def change_epoch(self, epoch: str) -> str:
        """Change the epoch unless it has changed already; return the present one."""
        return str((await self._run(self._asker, "epoch", epoch, new_epoch())).decode())

    async def attend(self, heard: Callable[[], None], told: Told, known: Callable[[], int]) -> None:
        """Block until there is news, again and again; read on the other connections meanwhile."""
        pinging = asyncio.create_task(self._ping())
        block_ms = int(1000 * PING_S / 2)
        try:
            seen = (await self.end()).position
            heard()
            while not pinging.done():
                after = f"{max(known(), seen)}-0"
                words = ("XREAD", "COUNT", TOLD_ENTRIES, "BLOCK", block_ms, "STREAMS", self._log, after)
                found = await self._do(self._listener, *words)
                if not found:
                    seen = (await self.end()).position
                    continue
                await self._appended.wait()  # what this worker appends is its own once that is durable
                try:
                    before, entries = _news(found)
                except (KeyError, ValueError):
                    seen += 1
                    heard()  # who reads it finds the damage
                    continue
                seen = entries[-1].position
                if seen > known():
                    told(before, entries)
            await pinging
        finally:
            pinging.cancel()
            await asyncio.wait([pinging])

    async def before(self) -> int:
        """Return the position of the checkpoint before the newest; 0 if none is kept."""
        return int(await self._run(self._reader, "before"))

    async def begin_save(self, position: int) -> None:
        """Remove what an interrupted save has left, and the checkpoint before the newest."""
        self._token = secrets.token_hex(8)
        await self._run(self._asker, "begin_save", position, self._token)

    async def save_part(self, position: int, number: int, data: bytes) -> None:
        """Store one part, still invisible; the last one is empty."""
        await self._run(self._asker, "save_part", position, self._token, number, data)

    async def publish(self, position: int, count: int) -> None:
        """Make the saved parts the checkpoint."""
        await self._run(self._asker, "publish", position, self._token, count)

    async def begin(self, entry: Entry, count: int) -> None:
        """Make the saved parts the checkpoint of an empty log, and an entry its only one."""
        position, at_us, data = entry
        await self._run(self._asker, "begin", position, self._token, count, at_us, data)

    async def trim(self, last: int) -> bool:
        """Delete some entries up to a position, but never the newest; True if more are left to delete."""
        return bool(await self._run(self._asker, "trim", last, TRIM_SLICE))

    async def part(self, position: int, number: int) -> bytes | None:
        """Read one part of a checkpoint."""
        data: bytes | None = await self._run(self._reader, "part", position, number)
        return data

    async def aclose(self) -> None:
        """Break the connections."""
        await asyncio.gather(*(link.aclose() for link in self._links))

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(PING_S)
            for link in (self._writer, self._reader, self._asker):
                await self._do(link, "PING")

    async def _require_protocol(self) -> None:
        try:
            async with asyncio.timeout(PROTOCOL_S):
                await self._do(self._asker, "PING")
        except TimeoutError:
            late = LogUnavailable(f"Redis: no answer within {PROTOCOL_S} s", cause="timeout")
            raise await explained(late, self._url) from None
        except LogUnavailable as error:
            raise await explained(error, self._url) from error

    async def _warn_of_losses(self) -> None:
        """Warn of what a crash of the server can lose."""
        persistence = await self._do(self._asker, "INFO", "persistence")
        if not int(persistence["aof_enabled"]):
            warn_once("appendonly of Redis is off: a restart loses what came after its last snapshot")
            return
        try:
            found = await self._do(self._asker, "CONFIG", "GET", "appendfsync")
        except LogError:
            return  # hosted: its provider sets it
        if (present := found.get(b"appendfsync", b"").decode()) != "always":
            warn_once(
                f"appendfsync of Redis is {present}, not always: a crash of the machine loses the last moments"
            )

    async def _run(self, link: Link, verb: str, *arguments: object) -> Any:
        """Run a verb of the script."""
        tail = (2, self._log, self._head, verb, *arguments)
        try:
            return await self._do(link, "EVALSHA", _SCRIPT_SHA, *tail)
        except redis.exceptions.NoScriptError:
            return await self._do(link, "EVAL", SCRIPT, *tail)
        except LogUnavailable:
            if verb not in _REPEATED or not self._opened:
                raise
        return await self._do(link, "EVAL", SCRIPT, *tail)  # the connection may have been dead for long

    async def _do(self, link: Link, *words: object) -> Any:
        """Return the answer to a command; raises `LogError`."""
        try:
            return await link.do(*words)
        except LogRefused as error:
            if self._opened:
                raise error.as_outage() from error
            raise


def _news(found: Any) -> tuple[bytes, Sequence[Entry]]:
    """Return the digest of the entry before the first of some, if it says so, and these entries."""
    ((_, rows),) = found
    entries = [Entry(int(at.partition(b"-")[0]), int(row[b"t"]), row[b"e"]) for at, row in rows]
    return rows[0][1].get(b"d", b""), entries


def _time(text: bytes, position: int) -> int:
    """Return a log time, or raise `LogDamaged`."""
    try:
        return int(text)
    except ValueError:
        raise LogDamaged(
            f"entry {position} must have a log time, got {text[:40]!r}", position=position
        ) from None
