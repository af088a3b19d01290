"""One connection to Postgres: made when it is needed, one call at a time, dropped when a call fails."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import asyncpg

from purgatory_async.cluster.causes import cause_of
from purgatory_async.cluster.log import OLDER_STORE, LogDamaged, LogError, LogRefused, LogUnavailable
from purgatory_async.cluster.server_log import EntriesLost
from purgatory_async.cluster.turns import CALL_S, Turns
from purgatory_async.cluster.url_options import PostgresUrl

__all__ = ["Link", "connect", "translated"]

T = TypeVar("T")

# SQLSTATEs, or classes of them, and what they mean for the log; what is not here means that the server is away.
_MEANINGS: Final[dict[str, type[LogError]]] = {
    "22023": LogError,
    "23505": LogError,  # two saves of one checkpoint
    "28": LogRefused,  # a wrong password
    "3D": LogRefused,  # no such database
    "3F": LogRefused,  # no schema to create in
    "42": LogRefused,  # a missing grant, a schema that is none
    "42703": LogDamaged,  # our tables or functions are gone
    "42883": LogDamaged,
    "42P01": LogDamaged,
    "42P05": LogUnavailable,  # a pooler's session has a statement of this name
    "XX001": LogDamaged,
    "XX002": LogDamaged,
}
_OF_SETTINGS: Final = {
    "0A",
    "22",
    "28",
    "3D",
    "3F",
    "42",
}  # classes of errors of a connection that comes no further
STATEMENTS: Final = 100  # prepared ones that a connection keeps
_SAME_PROCESS: Final = (
    "DO $$ BEGIN IF pg_backend_pid() <> {process} THEN RAISE EXCEPTION 'pooled'; END IF; END $$"
)
_HARMLESS: Final = {"22023", "23505", "55000"}  # the connection is as good as before


class Link:
    """A connection.

    Args:
        url: From `postgres_url`.
        settings: Returns the statements that set what a session needs, for its next transaction only if so asked.
        greet: Called with each new connection.
        lost: Called when the connection was lost.
        repeats: Whether a call is made again, once, if a connection made earlier turns out to be dead.

    Attributes:
        pooled: Whether a pooler is between, which may give each transaction another session.
    """

    def __init__(
        self,
        url: PostgresUrl,
        settings: Callable[[bool], str],
        greet: Callable[["asyncpg.Connection[Any]"], Awaitable[None]],
        lost: Callable[[], None] = lambda: None,
        *,
        repeats: bool = True,
    ) -> None:
        self._url = url
        self._settings = settings
        self._greet = greet
        self._lost = lost
        self._repeats = repeats
        self._turns = Turns()
        self._dropped = 0
        self.pooled = False
        self._connection: asyncpg.Connection[Any] | None = None

    @property
    def idle(self) -> bool:
        """Whether it is connected, and no call is under way."""
        return self._connection is not None and not self._turns.taken

    @property
    def server_process(self) -> int | None:
        """The server's process at the other end, if it is connected."""
        connection = self._connection
        return None if connection is None or connection.is_closed() else connection.get_server_pid()

    @property
    def losses(self) -> int:
        """How many times it was lost, the present one included."""
        return self._dropped + (self._connection is not None and self._connection.is_closed())

    async def row(self, query: str, *arguments: object) -> "asyncpg.Record":
        """Return the first row of a query, which must have one; raises `LogError`."""
        row: asyncpg.Record | None = await self._call(
            lambda connection: connection.fetchrow(query, *arguments)
        )
        if row is None:
            raise LogDamaged(f"the log must have a head, but none is found by {query[:80]!r}")
        return row

    async def run(self, script: str) -> None:
        """Run statements in one transaction; raises `LogError`."""
        await self._call(lambda connection: connection.execute(script))

    async def _call(self, call: "Callable[[asyncpg.Connection[Any]], Awaitable[T]]") -> T:
        used = self._connection is not None
        try:
            return await self._attempt(call)
        except LogUnavailable:
            if not (used and self._repeats) or self._turns.closed:
                raise
        return await self._attempt(call)  # the connection may have been dead for long

    async def _attempt(self, call: "Callable[[asyncpg.Connection[Any]], Awaitable[T]]") -> T:
        try:
            async with self._turns.turn():
                return await self._answer(call)
        except asyncpg.PostgresError as error:
            raise translated(error) from error
        except (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError) as error:
            raise LogUnavailable(
                f"Postgres is away: {str(error) or 'no answer'}", cause=cause_of(error)
            ) from error

    async def _answer(self, call: "Callable[[asyncpg.Connection[Any]], Awaitable[T]]") -> T:
        healthy = False
        try:
            result = await self._in_session(await self._connected(), call)
            healthy = True
        except asyncpg.PostgresError as error:
            healthy = error.sqlstate in _HARMLESS
            raise
        finally:
            if not healthy:
                self.drop()
        return result

    async def _in_session(
        self,
        connection: "asyncpg.Connection[Any]",
        call: "Callable[[asyncpg.Connection[Any]], Awaitable[T]]",
    ) -> T:
        """Make a call; behind a pooler in a transaction, so that its parts and its settings are of one session."""
        if not self.pooled:
            return await call(connection)
        await connection.execute(f"BEGIN ISOLATION LEVEL READ COMMITTED; {self._settings(True)}")
        try:
            result = await call(connection)
        except asyncpg.PostgresError as error:
            if error.sqlstate in _HARMLESS:
                await connection.execute("ROLLBACK")
            raise
        await connection.execute("COMMIT")
        return result

    def drop(self) -> None:
        """Break the connection, which no call may be using; the next call makes another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._dropped += 1
            connection.terminate()

    async def aclose(self) -> None:
        """Break the connection for good; a call under way fails."""
        await self._turns.aclose()
        self.drop()

    async def _connected(self) -> "asyncpg.Connection[Any]":
        if self._connection is None or self._connection.is_closed():
            self.drop()
            connection = self._connection = await connect(self._url, named=not self.pooled)
            if not self.pooled and await _is_pooled(connection):
                self.pooled = True
                connection.terminate()
                connection = self._connection = await connect(self._url, named=False)
            connection.add_termination_listener(lambda _: self._lost())
            if not self.pooled:
                await connection.execute(self._settings(False))
            await self._in_session(connection, self._greet)
        return self._connection


async def _is_pooled(connection: "asyncpg.Connection[Any]") -> bool:
    """Whether the process that answers is another one than a pooler said; without a prepared statement."""
    try:
        await connection.execute(_SAME_PROCESS.format(process=connection.get_server_pid()))
    except asyncpg.RaiseError:
        return True
    return False


async def connect(url: PostgresUrl, *, named: bool) -> "asyncpg.Connection[Any]":
    """Connect to the server of a URL; raises `LogRefused` for what no waiting can mend, otherwise as asyncpg does.

    Args:
        url: From `postgres_url`.
        named: Whether to keep prepared statements by name, which takes one round trip a call and not two. Behind a
            pooler another client's session may have that name.
    """
    size = STATEMENTS if named else 0
    try:
        return await asyncpg.connect(url.dsn, timeout=url.connect_s or CALL_S, statement_cache_size=size)
    except asyncpg.PostgresError as error:
        if error.sqlstate[:2] in _OF_SETTINGS or "unsupported startup parameter" in str(error):
            raise LogRefused(_sentence(error), cause=cause_of(error)) from error
        raise
    except (ValueError, OSError) as error:
        if isinstance(error, ValueError) or cause_of(error) == "tls":
            raise LogRefused(f"Postgres: {' '.join(str(error).split())}", cause=cause_of(error)) from error
        raise


def translated(error: asyncpg.PostgresError) -> LogError:
    """Return what an error of the server means for the log."""
    state = str(error.sqlstate)
    if state == "55000":
        return EntriesLost(str(error))
    meaning = _MEANINGS.get(state) or _MEANINGS.get(state[:2]) or LogUnavailable
    if issubclass(meaning, LogUnavailable | LogRefused):
        return meaning(_sentence(error), cause=cause_of(error))
    return meaning(f"{_sentence(error)}; {OLDER_STORE}" if state == "42703" else _sentence(error))


def _sentence(error: asyncpg.PostgresError) -> str:
    return f"Postgres: {error} (SQLSTATE {error.sqlstate})"
