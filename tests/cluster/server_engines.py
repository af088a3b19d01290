"""The engines on a server: each is a name of its own on the server that the tests share."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.cluster.engine import Engine
from tests.cluster.servers import Postgres, RedisServer, need_postgres, need_redis, shared
from tests.ports import free_port

PATIENCE_S = 60
LOSE = """
local log, head, after = KEYS[1], KEYS[2], ARGV[1]
for _, entry in ipairs(redis.call('XRANGE', log, '(' .. after .. '-0', '+')) do
    redis.call('XDEL', log, entry[1])
end
redis.call('XSETID', log, after .. '-0')
redis.call('HSET', head, 'position', after)
"""


class PostgresEngine(Engine):
    def __init__(self, server, **settings):
        from purgatory_async.cluster import PostgresLog  # noqa: PLC0415 - needs an extra

        self.server = server
        self.name = f"log_{secrets.token_hex(6)}"
        self.settings = settings
        super().__init__(lambda: PostgresLog(server.url, name=self.name, **settings))

    async def sql(self, query, *arguments):
        """The first value of a query's first row; ``purgatory`` stands for the log's name."""
        import asyncpg  # noqa: PLC0415 - needs an extra

        writable = {"default_transaction_read_only": "off"}
        connection = await asyncpg.connect(self.server.url, server_settings=writable)
        try:
            return await connection.fetchval(query.replace("purgatory", self.name), *arguments)
        finally:
            await connection.close()

    async def cut(self):
        await self.sql(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )

    async def stored_parts(self):
        return await self.sql("SELECT count(*) - count(DISTINCT position) FROM purgatory_checkpoint")

    async def lose(self, after):
        """Lose the entries after a position at once, as a failover to a standby that lags."""
        await self.sql(
            "WITH lost AS (DELETE FROM purgatory_log WHERE position > $1) UPDATE purgatory_head SET position = $1",
            after,
        )

    async def take_writes(self, taken):
        """Make the server's transactions read-only, or writable again."""
        before = await self.sql("SELECT pg_conf_load_time()")
        await self.sql(f"ALTER SYSTEM SET default_transaction_read_only = {'off' if taken else 'on'}")
        await self.sql("SELECT pg_reload_conf()")
        # That only asks the server, which tells its sessions once it has read the file itself.
        async with asyncio.timeout(PATIENCE_S):
            while await self.sql("SELECT pg_conf_load_time()") == before:
                pass

    async def remove(self):
        await self.sql(
            "DROP TABLE IF EXISTS purgatory_head, purgatory_log, purgatory_checkpoint, purgatory_outbox CASCADE"
        )


class RedisEngine(Engine):
    def __init__(self, server, query=""):
        from purgatory_async.cluster import RedisLog  # noqa: PLC0415 - needs an extra

        self.server = server
        self.name = f"log_{secrets.token_hex(6)}"
        super().__init__(lambda: RedisLog(server.url + query, name=self.name))

    async def do(self, *words):
        """The answer to a command."""
        from redis.asyncio import Redis  # noqa: PLC0415 - needs an extra

        async with Redis.from_url(self.server.url) as client:
            return await client.execute_command(*words)

    async def cut(self):
        await self.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    async def stored_parts(self):
        keys = await self.do("KEYS", f"{{{self.name}}}:checkpoint:*")
        # Each checkpoint ends with an empty part.
        return sum([await self.do("LLEN", key) for key in keys]) - len(keys)

    async def lose(self, after):
        """Lose the entries after a position at once, as a failover to a replica that lags."""
        await self.do("EVAL", LOSE, 2, f"{{{self.name}}}:log", f"{{{self.name}}}:head", after)

    async def take_writes(self, taken):
        """Demote the server to a replica, of a primary that is away, or promote it again."""
        await self.do("REPLICAOF", *(("NO", "ONE") if taken else ("127.0.0.1", str(free_port()))))


@asynccontextmanager
async def postgres(folder: Path) -> AsyncIterator[Engine]:
    """Tables."""
    need_postgres()
    yield PostgresEngine(shared(Postgres))


@asynccontextmanager
async def redis(folder: Path) -> AsyncIterator[Engine]:
    """A stream."""
    need_redis()
    yield RedisEngine(shared(RedisServer))
