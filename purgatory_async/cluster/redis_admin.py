"""What a log in Redis offers beside its calls: whether it exists, and a lock for one process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import LockError, RedisError

from purgatory_async.cluster.redis_link import explained, translated
from purgatory_async.cluster.turns import CALL_S
from purgatory_async.cluster.url_options import redis_url

__all__ = ["exists", "sole"]

LOCK_S: Final = 30.0
"""How long the lock of a killed process stays; a living one extends it."""


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Any]:
    target, _ = redis_url(url)
    make: Any = Redis  # its settings have no types
    client = make.from_url(target, socket_timeout=CALL_S, socket_connect_timeout=CALL_S)
    try:
        yield client
    except (RedisError, OSError, ValueError) as error:
        raise await explained(translated(error), target) from error
    finally:
        await client.aclose()


async def exists(url: str, name: str) -> bool:
    """Return whether a log was created there. Raises `LogError`."""
    async with _connected(url) as client:
        return bool(await client.exists(f"{{{name}}}:head"))


@asynccontextmanager
async def sole(url: str, name: str) -> AsyncIterator[bool]:
    """Try to take the lock of a log's checkpoints; yields whether it was free. Raises `LogError`."""
    async with _connected(url) as client:
        lock = client.lock(f"{{{name}}}:checkpoint-lock", timeout=LOCK_S)
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
    while True:
        await asyncio.sleep(LOCK_S / 3)
        try:
            await lock.reacquire()
        except LockError:
            return
        except RedisError:
            continue  # away; if it is back in time, the lock is still there
