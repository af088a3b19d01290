"""A log from the URL of ``--store``: made, opened, and what it offers beside its calls.

| URL | log |
|---|---|
| ``sqlite:///orders.db`` | a file, relative to the working directory |
| ``sqlite:////var/lib/purgatory/orders.db`` | a file |
| ``postgresql://user:password@host/database`` | tables; ``?name=orders`` for another log than ``purgatory`` |
| ``redis://user:password@host:6379/0`` | a stream, with ``?name=`` too; ``rediss://`` and ``unix://`` too |
"""

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from purgatory_async import cluster
from purgatory_async.cluster import Head, Log, SqliteLog, sqlite_lock
from purgatory_async.durable.store_url import StoreUrl

Sync = Literal["always", "os"]
Engine = Literal["sqlite", "postgresql", "redis"]

_ENGINES: Final[dict[str, Engine]] = {
    "sqlite": "sqlite",
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "redis": "redis",
    "rediss": "redis",
    "unix": "redis",
}
_MAX_NAME_BYTES: Final = 255 - len(".checkpoint")  # the longest name beside it
_DEFAULT_NAME: Final = "purgatory"


@dataclass(frozen=True, slots=True)
class Store:
    """Where a log is.

    Attributes:
        engine: What keeps it.
        target: A path for SQLite; otherwise the URL as the engine's client takes it.
        name: The name of the log; for SQLite, where each file is one log, the file's name without its ending.
        shown: The URL without its password.
        url: The URL as it was given.
    """

    engine: Engine
    target: str = field(repr=False)
    name: str
    shown: str
    url: str = field(repr=False)


def parsed(url: str) -> Store:
    """Read a URL.

    Raises:
        ValueError: It names no log, or its engine's client is not installed. The message shows it without its password,
            and the next step.

    >>> parsed("sqlite:///orders.db")
    Store(engine='sqlite', name='orders', shown='sqlite:///orders.db')
    """
    try:
        checked = StoreUrl(url)
    except ValueError as error:
        raise ValueError(f"the store {error}") from None
    if checked.in_memory:
        raise ValueError(f"the store must outlive its process, got {url}; give sqlite:///PATH")
    engine, shown = _ENGINES[url.partition(":")[0]], str(checked)
    if engine == "sqlite":
        path = _path(url)
        return Store(engine, str(path), path.stem, shown, url)
    _require_client(engine, shown)
    target, name = without(url, "name")
    store = Store(engine, target, _DEFAULT_NAME if name is None else name, shown, url)
    log_of(store)  # checks the options and the name
    return store


def without(url: str, member: str) -> tuple[str, str | None]:
    """Take a member out of a URL's query; returns the rest, and its value or None."""
    parts = urlsplit(url)
    members = parse_qsl(parts.query, keep_blank_values=True)
    rest = [pair for pair in members if pair[0] != member]
    if rest == members:
        return url, None
    return urlunsplit(parts._replace(query=urlencode(rest))), dict(members)[member]


def _require_client(engine: Engine, shown: str) -> None:
    try:
        getattr(cluster, "PostgresLog" if engine == "postgresql" else "RedisLog")
    except ModuleNotFoundError as error:  # its message names the extra and the command
        raise ValueError(f"the store {shown} cannot be used: {error}") from None


def _path(url: str) -> Path:
    path = Path(unquote(urlsplit(url).path[1:]))
    if path.name.startswith((":memory:", "file::memory:")):
        raise ValueError(f"the store must be a file, got {path}; for memory, leave --store out")
    if not str(path).isprintable() or len(os.fsencode(path.name)) > _MAX_NAME_BYTES:
        raise ValueError(
            f"the store's name must be printable, of at most {_MAX_NAME_BYTES} bytes, got {path}"
        )
    if path.exists() and not path.is_file():
        raise ValueError(f"the store must be a file, got a {'folder' if path.is_dir() else 'device'}: {path}")
    if path.parent.is_dir():
        return path
    hint = ""
    if not path.is_absolute() and Path("/", path).parent.is_dir():
        hint = f" in the working directory; an absolute path has four slashes: sqlite:////{path}"
    raise ValueError(f"the folder of the store must exist, got {path.parent}{hint}")


def log_of(store: Store, *, sync: Sync = "always") -> Log:
    """Make the log of a URL, not yet open.

    Args:
        store: Where it is.
        sync: ``"always"`` waits for the disk in each commit; with ``"os"`` a crash of the machine may take the last
            moments. Redis decides that itself, by its ``appendfsync``.

    Raises:
        ValueError: The engine refuses the name or the setting.
    """
    if store.engine == "sqlite":
        return SqliteLog(store.target, sync=sync)
    if store.engine == "postgresql":
        return cluster.PostgresLog(store.target, name=store.name, sync=sync)
    if sync != "always":
        raise ValueError(f"sync must be 'always' for {store.shown}, got {sync!r}; set Redis's appendfsync")
    return cluster.RedisLog(store.target, name=store.name)


@asynccontextmanager
async def opened(store: Store, *, sync: Sync = "always") -> AsyncIterator[tuple[Log, Head]]:
    """Open the log of a URL inside an ``async with`` block; yields it with its state.

    Raises what `log_of` and `Log.open` do.
    """
    log = log_of(store, sync=sync)
    try:
        yield log, await log.open()
    finally:
        await log.aclose()


async def exists(store: Store) -> bool:
    """Return whether a log was created there. One round trip; creates nothing.

    Raises:
        LogUnavailable: The engine is away.
    """
    if store.engine == "sqlite":
        return _is_file(store.target)
    if store.engine == "postgresql":
        from purgatory_async.cluster import postgres_admin  # noqa: PLC0415 - needs an extra, and the URL needed it first

        return await postgres_admin.exists(store.target, store.name)
    from purgatory_async.cluster import redis_admin  # noqa: PLC0415 - of an extra

    return await redis_admin.exists(store.target, store.name)


def _is_file(path: str) -> bool:
    return Path(path).exists()


def sole(store: Store) -> AbstractAsyncContextManager[bool]:
    """Try to become the one process that writes checkpoints; yields whether this one did. Does not wait.

    It ends with the block, or with the process: at once, in Redis within 30 s. The lock saves work and guards nothing:
    if a connection breaks, two processes may save a checkpoint at once, and the log makes one of them fail.

    Raises:
        LogUnavailable: The engine is away.
    """
    if store.engine == "sqlite":
        return sqlite_lock.sole(store.target)
    if store.engine == "postgresql":
        from purgatory_async.cluster import postgres_admin  # noqa: PLC0415 - of an extra

        return postgres_admin.sole(store.target, store.name)
    from purgatory_async.cluster import redis_admin  # noqa: PLC0415 - of an extra

    return redis_admin.sole(store.target, store.name)
