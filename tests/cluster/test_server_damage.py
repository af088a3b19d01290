"""A log on a server as no worker wrote it: whatever is stored is reported as damage, in use and later."""

import asyncio
from contextlib import aclosing

import pytest

from purgatory_async.cluster import LogDamaged
from tests.cluster import server_engines
from tests.cluster.reading import read

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

ENTRIES = 3
PATIENCE_S = 20
ABSURD = 1 << 62

IN_POSTGRES = [
    "TRUNCATE purgatory_head, purgatory_log, purgatory_checkpoint",
    "DELETE FROM purgatory_head",
    "DELETE FROM purgatory_log WHERE position = 3",
    f"UPDATE purgatory_head SET at_us = {ABSURD}",
    "UPDATE purgatory_head SET at_us = -1",
    "UPDATE purgatory_head SET level = 99",
    "UPDATE purgatory_head SET checkpoint = 99",
    f"INSERT INTO purgatory_log VALUES (4, {ABSURD}, 'x')",
    "INSERT INTO purgatory_log VALUES (4, -1, 'x')",
]
IN_REDIS = [
    ("DEL", "log"),
    ("XDEL", "log", "3-0"),
    ("HSET", "head", "at_us", str(ABSURD)),
    ("HSET", "head", "at_us", "-1"),
    ("HSET", "head", "at_us", "soon"),
    ("HDEL", "head", "at_us"),
    ("HDEL", "head", "position"),
    ("HSET", "head", "position", "1.5"),
    ("HSET", "head", "level", "99"),
    ("HSET", "head", "checkpoint", "99"),
    ("XADD", "log", "4-0", "t", str(ABSURD), "e", "x"),
    ("XADD", "log", "4-0", "t", "soon", "e", "x"),
    ("XADD", "log", "4-0", "e", "x"),
    ("SET", "head", "x"),
]


@pytest.fixture(params=[*IN_POSTGRES, *IN_REDIS], ids=lambda wreck: str(wreck)[:50])
def wreck(request):
    return request.param


@pytest.fixture
def engine_of(tmp_path):
    """The context manager of the engine that a change is for."""
    return lambda wreck: getattr(server_engines, "postgres" if isinstance(wreck, str) else "redis")(tmp_path)


async def change(engine, wreck):
    if isinstance(wreck, str):
        await engine.sql(wreck)
    else:
        verb, key, *rest = wreck
        await engine.do(verb, f"{{{engine.name}}}:{key}", *rest)


async def use(log, after):
    """Read, ask and append; nothing but the sentence of a damage comes of that."""
    async with asyncio.timeout(PATIENCE_S):
        reading = asyncio.create_task(read(log, ENTRIES + 2, after=after))
        try:
            await log.end()
            await log.load()
            await log.append([b"another"])
            await reading
        finally:
            reading.cancel()


async def test_what_is_stored_is_damage(engine_of, wreck):
    async with engine_of(wreck) as engine:
        async with aclosing(engine.log()) as log:
            await log.open()
            await log.append([b"entry"] * ENTRIES)
            await read(log, ENTRIES)
            await change(engine, wreck)
            with pytest.raises(LogDamaged):
                await use(log, ENTRIES)
        async with aclosing(engine.log()) as log:
            with pytest.raises(LogDamaged):  # noqa: PT012 - opening may notice, or the first use
                await log.open()
                await use(log, 0)
