"""One connection to Redis: made when it is needed, one call at a time, dropped when a call fails."""

from typing import Any, Final

import redis.exceptions
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from purgatory_async.cluster.causes import cause_of
from purgatory_async.cluster.log import LogDamaged, LogError, LogRefused, LogUnavailable
from purgatory_async.cluster.server_log import EntriesLost
from purgatory_async.cluster.turns import CALL_S, Turns

__all__ = ["Link"]

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
        except (redis.exceptions.RedisError, OSError, TimeoutError) as error:
            if self._turns.closed:
                raise LogUnavailable("log is closed: the outcome of its last call is unknown") from error
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
            raise  # the server is the one that it was
        except BaseException as error:
            if _meaning(error) in {LogUnavailable, LogRefused}:
                await self._drop()  # the address may lead to another server by now
            raise

    async def _drop(self) -> None:
        self.losses += 1
        if self._client.connection is not None:
            await self._client.connection.disconnect(nowait=True)


def translated(error: BaseException) -> LogError:
    """Return what an error means for the log."""
    meaning, text = _meaning(error), f"Redis: {str(error) or 'no answer'}"
    if issubclass(meaning, LogUnavailable | LogRefused):
        return meaning(text, cause=cause_of(error))
    return meaning(text)


def _meaning(error: BaseException) -> type[LogError]:
    refused = (redis.exceptions.AuthenticationError, redis.exceptions.NoPermissionError)
    if isinstance(error, refused):
        return LogRefused
    if isinstance(error, redis.exceptions.ResponseError):
        if any(text in str(error) for text in _DAMAGE):
            return LogDamaged
        meanings = {"LOST": EntriesLost, "OVERTAKEN": LogError, "WRONGTYPE": LogDamaged}
        return meanings.get(str(error).partition(" ")[0], LogUnavailable)
    return LogUnavailable
