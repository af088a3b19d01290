"""The engines that `test_log_contract` runs on; a new one is one entry in `ENGINES`.

An engine is one empty store. Its factory takes a folder of its own and skips the test, with a sentence, where the
engine is not installed.
"""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path

from purgatory_async.cluster import MemoryLog, MemoryStore, SqliteLog
from tests.cluster import server_engines
from tests.cluster.engine import Engine
from tests.cluster.faulty import FaultyLog


class _MemoryEngine(Engine):
    def __init__(self) -> None:
        self.store = MemoryStore()
        super().__init__(lambda: MemoryLog(self.store))

    async def stored_parts(self) -> int:
        return sum(map(len, self.store.parts.values()))


class _FaultyEngine(_MemoryEngine):
    def __init__(self) -> None:
        super().__init__()
        self.logs: list[FaultyLog] = []
        self.log = self._make

    def _make(self) -> FaultyLog:
        self.logs.append(FaultyLog(MemoryLog(self.store)))
        return self.logs[-1]

    async def cut(self) -> None:
        for log in self.logs:
            log.cut()


@asynccontextmanager
async def memory(folder: Path) -> AsyncIterator[Engine]:
    """A list."""
    yield _MemoryEngine()


@asynccontextmanager
async def faulty(folder: Path) -> AsyncIterator[Engine]:
    """A list behind connections that break."""
    yield _FaultyEngine()


class _SqliteEngine(Engine):
    def __init__(self, path: Path) -> None:
        super().__init__(lambda: SqliteLog(path))
        self.path = path

    async def stored_parts(self) -> int:
        # Each checkpoint ends with an empty part.
        query = "SELECT count(*) - count(DISTINCT position) FROM purgatory_checkpoint"
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(query).fetchone()[0]


@asynccontextmanager
async def sqlite(folder: Path) -> AsyncIterator[Engine]:
    """A file."""
    yield _SqliteEngine(folder / "log.db")


ENGINES: dict[str, Callable[[Path], AbstractAsyncContextManager[Engine]]] = {
    "memory": memory,
    "faulty": faulty,
    "sqlite": sqlite,
    "postgres": server_engines.postgres,
    "redis": server_engines.redis,
}
