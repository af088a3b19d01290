"""One connection to Redis: made when it is needed, one call at a time, dropped when a call fails."""

import asyncio
import re
import ssl
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

import redis.exceptions
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from purgatory_async.cluster.causes import cause_of
from purgatory_async.cluster.log import LogDamaged, LogError, LogRefused, LogUnavailable
from purgatory_async.cluster.outage import BROKEN
from purgatory_async.cluster.server_log import EntriesLost
from purgatory_async.cluster.turns import CALL_S, Turns

__all__ = ["Link", "explained", "translated"]

PROBE_S: Final = 1.0

_OF_URL: Final = re.compile("DB index|SELECT|Client name")  # what no other attempt would change

# What the script raises, before which its errors say where; and an entry beyond the head.
_DAMAGE: Final = ("DAMAGED", "ID specified in XADD is equal or smaller")


class Link:
    """A connection.

    Args:
        url: As redis-py takes it.

    Attributes:
        losses: How many times it was dropped.
    """

    def __init__(self, url: str) -> None:
        self.losses = 0
        client: Any = Redis  # its settings have no types
        # It repeats nothing by itself. `Turns` limits the calls: a limit of the socket's could swallow that one.
        self._client = client.from_url(
            url,
            single_connection_client=True,
            socket_timeout=None,
            socket_connect_timeout=CALL_S,
            socket_keepalive=True,
            retry=Retry(NoBackoff(), 0),
        )
        self._turns = Turns()

    async def do(self, *words: object) -> Any:
        """Return the answer to a command.

        Raises:
            NoScriptError: The server does not know the script.
            LogError: Anything else went wrong.
        """
        try:
            async with self._turns.turn():
                return await self._answer(words)
        except redis.exceptions.NoScriptError:
            raise
        except (redis.exceptions.RedisError, OSError, TimeoutError, ValueError) as error:
            if self._turns.closed:
                raise LogUnavailable(
                    f"log is closed: the outcome of its last {words[0]} is unknown"
                ) from error
            raise translated(error) from error

    async def aclose(self) -> None:
        """Break the connection for good; a call under way fails."""
        await self._turns.aclose()
        await self._drop()  # at once: the client would wait for what a dead connection does not take
        await self._client.aclose()

    async def _answer(self, words: tuple[object, ...]) -> Any:
        try:
            return await self._client.execute_command(*words)
        except (redis.exceptions.NoScriptError, redis.exceptions.OutOfMemoryError):
            raise  # it is the same server as before
        except BaseException as error:
            if _meaning(error) in {LogUnavailable, LogRefused}:
                await self._drop()  # the address may lead to another server by now
            raise

    async def _drop(self) -> None:
        self.losses += 1
        if self._client.connection is not None:
            await self._client.connection.disconnect(nowait=True)


async def explained(error: LogError, url: str) -> LogError:
    """Return the error, or `LogRefused` if only one of URL and server uses TLS.

    Both look like a dead server, so it is tried the other way.
    """
    if not isinstance(error, LogUnavailable) or error.cause not in BROKEN or not await _speaks_otherwise(url):
        return error
    right = "redis:// URL, for it has no TLS" if url.startswith("rediss") else "rediss:// URL, for it has TLS"
    return LogRefused(f"the server must be given as a {right}", cause="tls")


async def _speaks_otherwise(url: str) -> bool:
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return False
    context = None
    if parts.scheme == "redis":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(PROBE_S):
            reader, writer = await asyncio.open_connection(
                parts.hostname or "localhost", parts.port or 6379, ssl=context
            )
            try:
                writer.write(b"PING\r\n")
                return (await reader.read(1))[:1] in {b"+", b"-"}
            finally:
                writer.transport.abort()
    return False


def translated(error: BaseException) -> LogError:
    """Return what an error means for the log."""
    meaning, text = _meaning(error), f"Redis: {str(error) or 'no answer'}"
    if isinstance(error, redis.exceptions.MovedError):
        moved: Any = error
        text = (
            f"this node of a Redis Cluster must have the log's keys, but {moved.host}:{moved.port} has them"
        )
    if issubclass(meaning, LogUnavailable | LogRefused):
        return meaning(text, cause=cause_of(error))
    return meaning(text)


def _meaning(error: BaseException) -> type[LogError]:
    if isinstance(error, ValueError) or cause_of(error) in {"password", "permission", "moved", "tls"}:
        return LogRefused
    if isinstance(error, redis.exceptions.ResponseError):
        if any(text in str(error) for text in _DAMAGE):
            return LogDamaged
        if _OF_URL.search(str(error)):
            return LogRefused
        meanings = {"LOST": EntriesLost, "OVERTAKEN": LogError, "WRONGTYPE": LogDamaged}
        return meanings.get(str(error).partition(" ")[0], LogUnavailable)
    return LogUnavailable
