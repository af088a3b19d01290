"""`signal`: a report to a store from a program without an event loop."""

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import msgspec

from purgatory_async.client.values import UNSET
from purgatory_async.cluster import LogError, entries
from purgatory_async.cluster.entries import WireEntry
from purgatory_async.cluster.sqlite_once import append_once, append_within
from purgatory_async.durable.fold.codec import encode
from purgatory_async.durable.fold.entries import SetLevel
from purgatory_async.durable.fold.fold import LEVEL
from purgatory_async.durable.store_url import IN_MEMORY, MEMORY
from purgatory_async.durable.urls import Store, parsed

__all__ = ["signal"]


def signal(
    store: Any,
    key: str,
    value: object = UNSET,
    *,
    amount: int = 1,
    voter: str | None = None,
    name: str = "purgatory",
) -> None:
    """Signal a key, and return once that is durable: for a Celery task, a cron job, a view of Django.

    Every process on the store sees it, and its held requests and waits wake as for a signal of a worker. The store must
    exist; nothing is created.

    | ``store`` | when it counts |
    |---|---|
    | a URL as of ``--store`` | when this returns; over a connection of its own |
    | a `sqlite3.Connection` to the store's file | with the commit of its transaction, and up to 50 ms later |
    | a connection to Postgres by DB-API, as psycopg's or Django's | with its commit: ``SELECT purgatory_signal(...)`` |
    | a ``redis.Redis`` | when this returns |

    A connection that has begun no transaction does what it does for an INSERT. It is never committed here unless it
    commits each statement by itself.

    Args:
        store: Where to signal.
        key: The key, 1 to 512 bytes.
        value: What watchers get, as JSON of at most 1 MiB; nothing if not given, null for None.
        amount: What it adds to amounts, 1 to 2**53 - 1.
        voter: Whose vote it is.
        name: The name of the log behind a connection to Postgres or Redis; a URL has ``?name=``.

    Raises:
        TypeError: The store is none of these, or the value is no JSON.
        ValueError: An argument is out of bounds; nothing has happened.
        RuntimeError: A URL of Postgres in a running event loop, which its driver needs: ``await asyncio.to_thread``.
        LogError: There is no store.
        LogUnavailable: It is away; the signal may have happened, or not.
        LogDamaged, LogRefused: As `Log.append`.

    What the driver of Postgres raises is not translated: it belongs to the caller's transaction. A store without room
    drops a signal, as it does one from SQL.

    >>> import asyncio, tempfile
    >>> from purgatory_async.durable.urls import opened
    >>> async def create(url):
    ...     async with opened(parsed(url)):
    ...         pass
    >>> async def newest(url):
    ...     async with opened(parsed(url)) as (log, head):
    ...         return head.position
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     url = f"sqlite:///{folder}/orders.db"
    ...     asyncio.run(create(url))
    ...     signal(url, "order-42", {"paid": True})
    ...     asyncio.run(newest(url))  # the level of a new store, and the signal
    2
    """
    entry = entries.signal(key, None if value is UNSET else value, amount, voter)
    if value is None:
        entry.value = msgspec.Raw(b"null")
    if isinstance(store, str):
        # A `Durable` in memory is written so, too.
        _to_url(parsed(MEMORY if store in IN_MEMORY else store), entry)
    elif isinstance(store, sqlite3.Connection):
        append_within(store, partial(_batch, entry))
    elif _blocks(store, "cursor", "commit"):
        quoted = name.replace('"', '""')
        with closing(store.cursor()) as cursor:
            cursor.execute(f'SELECT "{quoted}_signal"(%s, %s::jsonb, %s, %s)', _arguments(entry))
    elif _blocks(store, "execute_command"):
        from purgatory_async.cluster import redis_once  # noqa: PLC0415 - needs an extra, and the client needed it first

        redis_once.append_with(store, name, partial(_batch, entry))
    else:
        raise TypeError(
            "store must be a URL, a sqlite3.Connection, a blocking connection to Postgres or a redis.Redis, got "
            f"{type(store).__name__}"
        )


def _blocks(store: Any, *methods: str) -> bool:
    """Whether an object has some methods, of which the last is none to be awaited."""
    return all(hasattr(store, method) for method in methods) and not iscoroutinefunction(
        getattr(store, methods[-1])
    )


def _to_url(store: Store, entry: WireEntry) -> None:
    if store.engine == "sqlite":
        append_once(Path(store.target).absolute(), partial(_batch, entry))
    elif store.engine == "redis":
        from purgatory_async.cluster import redis_once  # noqa: PLC0415 - of an extra, which `parsed` looks for

        redis_once.append_once(store.target, store.name, partial(_batch, entry))
    elif _in_a_loop():
        raise RuntimeError(
            f"signal({store.shown!r}, ...) must be called outside an event loop, got a running one: "
            "await asyncio.to_thread(signal, ...)"
        )
    else:
        from purgatory_async.cluster import postgres_admin  # noqa: PLC0415 - of an extra

        if not asyncio.run(postgres_admin.signal(store.target, store.name, *_arguments(entry))):
            raise LogError(
                f"there is no log at {store.shown}; a worker creates it, or: purgatory store init {store.shown}"
            )


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _batch(entry: WireEntry, position: int) -> Sequence[bytes]:
    """Return the entries with which a signal comes to a log at a position; a new one gets its level, as of a worker."""
    text = msgspec.json.encode(entry)
    return [text] if position else [encode(SetLevel(level=LEVEL)), text]


def _arguments(entry: WireEntry) -> tuple[str, str | None, int, str | None]:
    """Return what the function in SQL takes."""
    value = None if isinstance(entry.value, msgspec.UnsetType) else bytes(entry.value).decode()
    return entry.key, value, entry.amount, entry.voter
