"""What a log in Postgres offers beside its calls: whether it exists, a lock for one process, grants for other roles.

Creating the log needs CREATE on its schema, once. Its workers need no more than the grants here, and an application
that only signals in its own transactions needs even less.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import asyncpg

from purgatory_async.cluster.causes import cause_of
from purgatory_async.cluster.log import LogUnavailable
from purgatory_async.cluster.postgres_link import connect
from purgatory_async.cluster.turns import CALL_S
from purgatory_async.cluster.url_options import postgres_url

__all__ = ["connected", "exists", "grant", "signal", "sole", "worker_grants"]

_EXISTS: Final = "SELECT to_regclass($1) IS NOT NULL"
# Of a transaction, not of a session: behind a pooler, a session is not ours alone.
_TRY_LOCK: Final = "SELECT pg_try_advisory_xact_lock(hashtextextended(current_schema() || '.' || $1, 0))"
_READ_AND_TRIM: Final = ("log", "checkpoint")
_FUNCTIONS: Final = ("append", "checked", "digest", "propose", "publish", "put", "read", "signal")


@asynccontextmanager
async def connected(url: str) -> "AsyncIterator[asyncpg.Connection[Any]]":
    """Connect to Postgres inside the block. Raises `LogUnavailable` if a call in it fails."""
    try:
        connection = await connect(postgres_url(url), named=False)
        try:
            yield connection
        finally:
            connection.terminate()
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
        raise LogUnavailable(f"Postgres: {str(error) or 'no answer'}", cause=cause_of(error)) from error


async def exists(url: str, name: str) -> bool:
    """Return whether a log was created there. Raises `LogUnavailable`."""
    async with connected(url) as connection, connection.transaction():
        return bool(await connection.fetchval(_EXISTS, f"{name}_head"))


async def signal(url: str, name: str, *arguments: object) -> bool:
    """Signal a key by the log's function in a transaction of its own; False if there is no log.

    Raises:
        ValueError: The server refuses an argument.
        LogUnavailable: The engine is away; the signal may happen.
    """
    async with connected(url) as connection:
        try:
            if not await connection.fetchval(_EXISTS, f"{name}_head"):
                return False
            await connection.execute(f"SELECT {name}_signal($1, $2, $3, $4)", *arguments)
        except asyncpg.DataError as error:
            raise ValueError(str(error)) from error
    return True


@asynccontextmanager
async def sole(url: str, name: str) -> AsyncIterator[bool]:
    """Try to take the lock of a log's checkpoints; yields whether it was free. Raises `LogUnavailable`."""
    async with connected(url) as connection:
        await connection.execute("BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0")
        try:
            yield bool(await connection.fetchval(_TRY_LOCK, f"{name}_checkpoint"))
        finally:
            # Not by closing alone: until the server sees that, it keeps the lock.
            with suppress(
                asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError
            ):  # it was lost
                await connection.execute("ROLLBACK", timeout=CALL_S)


def worker_grants(name: str, schema: str, role: str) -> list[str]:
    """Return the statements that let a role run workers on a log.

    >>> worker_grants("purgatory", "public", "web")[0]
    'GRANT USAGE ON SCHEMA "public" TO "web"'
    """
    place, to = _quoted(schema), _quoted(role)
    functions = ", ".join(f"{place}.{name}_{function}" for function in _FUNCTIONS)
    return [
        f"GRANT USAGE ON SCHEMA {place} TO {to}",
        f"GRANT SELECT, UPDATE ON {place}.{name}_head TO {to}",
        *(f"GRANT SELECT, INSERT, DELETE ON {place}.{name}_{table} TO {to}" for table in _READ_AND_TRIM),
        # Rows of the outbox are locked before they are moved, which needs UPDATE.
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {place}.{name}_outbox TO {to}",
        f"GRANT EXECUTE ON FUNCTION {functions} TO {to}",
    ]


async def grant(url: str, name: str, role: str) -> list[str]:
    """Let a role run workers on a log that exists, all or nothing; returns the statements. Safe to repeat.

    Raises:
        LogUnavailable: The engine is away, or refuses; the message says why.
    """
    async with connected(url) as connection, connection.transaction():
        schema = await connection.fetchval("SELECT current_schema()")
        statements = worker_grants(name, schema, role)
        await connection.execute(";\n".join(statements))
    return statements


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
