"""What roles other than the owner of a log in Postgres need.

Creating the log needs CREATE on its schema, once. Its workers need no more than these, and an application that only
signals in its own transactions needs even less.
"""

from typing import Final

from purgatory_async.durable.checkpoints.engines import postgres
from purgatory_async.durable.urls import Store

__all__ = ["grant", "worker_grants"]

_READ_AND_TRIM: Final = ("log", "checkpoint")
_FUNCTIONS: Final = ("append", "checked", "digest", "propose", "publish", "put", "read", "signal")


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


async def grant(store: Store, role: str) -> list[str]:
    """Let a role run workers on a log that exists, all or nothing; returns the statements. Safe to repeat.

    Raises:
        LogUnavailable: The engine is away, or refuses; the message says why.
    """
    async with postgres(store) as connection, connection.transaction():
        schema = await connection.fetchval("SELECT current_schema()")
        statements = worker_grants(store.name, schema, role)
        await connection.execute(";\n".join(statements))
    return statements


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
