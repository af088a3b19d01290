"""What a log's own methods do not offer: whether a log exists, and a lock that one process of all workers gets.

The lock saves work and guards nothing: if a connection breaks, two processes may save a checkpoint at once, and the log
makes one of them fail.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from purgatory_async.cluster import LogUnavailable
from purgatory_async.cluster.causes import cause_of
from purgatory_async.cluster.url_options import postgres_url, redis_url
from purgatory_async.durable.urls import Store

if TYPE_CHECKING:
    import asyncpg

__all__ = ["exists", "postgres", "sole"]

CONNECT_S: Final = 10.0
REDIS_LOCK_S: Final = 30.0
"""How long the lock of a killed process stays in Redis; a living one extends it."""

_EXISTS: Final = "SELECT to_regclass($1) IS NOT NULL"
# Of a transaction, not of a session: behind a pooler, a session is not ours alone.
_TRY_LOCK: Final = "SELECT pg_try_advisory_xact_lock(hashtextextended(current_schema() || '.' || $1, 0))"


async def exists(store: Store) -> bool:
    """Return whether a log was created there. One round trip; creates nothing.

    Raises:
        LogUnavailable: The engine is away.
    """
    if store.engine == "sqlite":
        return _is_file(store.target)
    if store.engine == "postgresql":
        async with postgres(store) as connection, connection.transaction():
            return bool(await connection.fetchval(_EXISTS, f"{store.name}_head"))
    async with _redis(store) as client:
        return bool(await client.exists(f"{{{store.name}}}:head"))


def _is_file(path: str) -> bool:
    return Path(path).exists()


def sole(store: Store) -> AbstractAsyncContextManager[bool]:
    """Try to become the one process that writes checkpoints; yields whether this one did. Does not wait.

    It ends with the block, or with the process: at once, in Redis within 30 s.

    Raises:
        LogUnavailable: The engine is away.
    """
    return _LOCKS[store.engine](store)


@asynccontextmanager
async def postgres(store: Store) -> "AsyncIterator[asyncpg.Connection[Any]]":
    """Connect to Postgres inside the block. Raises `LogUnavailable` if a call in it fails."""
    import asyncpg  # noqa: PLC0415 - needs an extra, and the URL needed it first

    from purgatory_async.cluster.postgres_link import connect  # noqa: PLC0415 - as above

    try:
        connection = await connect(postgres_url(store.target), named=False)
        try:
            yield connection
        finally:
            connection.terminate()
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
        raise LogUnavailable(f"Postgres: {str(error) or 'no answer'}", cause=cause_of(error)) from error


@asynccontextmanager
async def _redis(store: Store) -> AsyncIterator[Any]:
    from redis.asyncio import Redis  # noqa: PLC0415 - needs an extra, and the URL needed it first
    from redis.exceptions import RedisError  # noqa: PLC0415 - as above

    from purgatory_async.cluster.redis_link import explained, translated  # noqa: PLC0415 - as above

    target, _ = redis_url(store.target)
    make: Any = Redis  # its settings have no types
    client = make.from_url(target, socket_timeout=CONNECT_S, socket_connect_timeout=CONNECT_S)
    try:
        yield client
    except (RedisError, OSError, ValueError) as error:
        raise await explained(translated(error), target) from error
    finally:
        await client.aclose()


@asynccontextmanager
async def _sqlite_lock(store: Store) -> AsyncIterator[bool]:
    # Beside the file; its own lock file is what appends wait for.
    path = f"{store.target}.checkpoint"
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LogUnavailable(f"{path} is not usable: {error.strerror}", cause=cause_of(error)) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(lock)


@asynccontextmanager
async def _postgres_lock(store: Store) -> AsyncIterator[bool]:
    from asyncpg import InterfaceError, PostgresError  # noqa: PLC0415 - as above

    async with postgres(store) as connection:
        await connection.execute("BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0")
        try:
            yield bool(await connection.fetchval(_TRY_LOCK, f"{store.name}_checkpoint"))
        finally:
            # Not by closing alone: until the server sees that, it keeps the lock.
            with suppress(PostgresError, InterfaceError, OSError, TimeoutError):  # it was lost
                await connection.execute("ROLLBACK", timeout=CONNECT_S)


@asynccontextmanager
async def _redis_lock(store: Store) -> AsyncIterator[bool]:
    from redis.exceptions import LockError  # noqa: PLC0415 - needs an extra, and the URL needed it first

    async with _redis(store) as client:
        lock = client.lock(f"{{{store.name}}}:checkpoint-lock", timeout=REDIS_LOCK_S)
        if not await lock.acquire(blocking=False):
            yield False
            return
        extending = asyncio.create_task(_extend(lock))
        try:
            yield True
        finally:
            extending.cancel()
            await asyncio.wait([extending])
            with suppress(LockError):  # it was lost
                await lock.release()


async def _extend(lock: Any) -> None:
    from redis.exceptions import LockError, RedisError  # noqa: PLC0415 - as above

    while True:
        await asyncio.sleep(REDIS_LOCK_S / 3)
        try:
            await lock.reacquire()
        except LockError:
            return
        except RedisError:
            continue  # away; if it is back in time, the lock is still there


_LOCKS: Final[dict[str, Callable[[Store], AbstractAsyncContextManager[bool]]]] = {
    "sqlite": _sqlite_lock,
    "postgresql": _postgres_lock,
    "redis": _redis_lock,
}
