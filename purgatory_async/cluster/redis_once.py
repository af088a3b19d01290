"""Entries for a log in Redis from a program without a loop."""

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from purgatory_async.cluster.log import LogError, LogUnavailable
from purgatory_async.cluster.redis import SCRIPT, WAIT_MS
from purgatory_async.cluster.redis_link import translated
from purgatory_async.cluster.turns import CALL_S
from purgatory_async.cluster.url_options import redis_url

__all__ = ["append_once", "append_with"]

Entries = Callable[[int], Sequence[bytes]]
"""Returns the entries for a log, given its newest position."""

_MAKE: Final[Any] = redis.Redis  # its settings have no types


def append_once(url: str, name: str, entries: Entries) -> None:
    """Append to a log that exists, over a connection of its own. Raises as `append_with`."""
    target, replicas = redis_url(url)
    times = dict.fromkeys(("socket_timeout", "socket_connect_timeout"), CALL_S)
    with closing(_MAKE.from_url(target, **times, retry=Retry(NoBackoff(), 0))) as client:
        append_with(client, name, entries, replicas)


def append_with(client: Any, name: str, entries: Entries, replicas: int = 0) -> None:
    """Append to a log that exists, over a connection of a client.

    Not by its commands: those it repeats, and what is in the log already would be there twice.

    Args:
        client: A `redis.Redis`.
        name: The log's.
        entries: Makes the entries.
        replicas: For how many replicas to wait.

    Raises:
        LogError: There is no log.
        LogDamaged, LogRefused, LogUnavailable: As `Log.append`.
    """
    pool = client.connection_pool
    try:
        connection = pool.get_connection()
        try:
            _append(connection, name, entries, replicas)
        except BaseException:
            connection.disconnect()
            raise
        finally:
            pool.release(connection)
    except (redis.RedisError, OSError) as error:
        raise translated(error) from error


def _append(connection: Any, name: str, entries: Entries, replicas: int) -> None:
    script = ("EVAL", SCRIPT, 2, f"{{{name}}}:log", f"{{{name}}}:head")
    epoch, position, *_ = _answer(connection, *script, "end")
    if not epoch:
        raise LogError(
            f"there is no log {name} in this Redis; a worker creates it, or: purgatory store init URL"
        )
    _answer(connection, *script, "append", epoch, 0, "", *entries(position))
    if replicas and (reached := _answer(connection, "WAIT", replicas, WAIT_MS)) < replicas:
        raise LogUnavailable(f"{replicas} replicas must have the entry, got {reached}", cause="replicas")


def _answer(connection: Any, *words: object) -> Any:
    connection.send_command(*words)
    return connection.read_response()
