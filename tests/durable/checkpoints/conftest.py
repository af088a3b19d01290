"""A store on each engine, and what the tests put into it."""

import secrets
from contextlib import closing

import pytest
import pytest_asyncio

from purgatory_async.durable.fold.checkpoint import digest
from purgatory_async.durable.fold.codec import encode
from purgatory_async.durable.fold.entries import SignalKey, SubmitOperation
from purgatory_async.durable.urls import opened, parsed
from tests.cluster.servers import Postgres, RedisServer, by_engine, need_postgres, need_redis, shared


def url_on(engine, folder):
    """The URL of an empty store, or a skipped test."""
    if engine == "sqlite":
        return f"sqlite:///{folder}/log.db"
    (need_postgres if engine == "postgres" else need_redis)()
    server = shared(Postgres if engine == "postgres" else RedisServer)
    return f"{server.url}?name=log_{secrets.token_hex(6)}"


@pytest.fixture(params=by_engine(["sqlite", "postgres", "redis"]))
def url(request, tmp_path):
    return url_on(request.param, tmp_path)


@pytest.fixture
def store(url):
    return parsed(url)


@pytest_asyncio.fixture
async def log(store):
    """An open log."""
    async with opened(store) as (log, _):
        yield log


@pytest_asyncio.fixture
async def sqlite_store(tmp_path):
    return parsed(url_on("sqlite", tmp_path))


def some_entries(count=20):
    """Operations on keys, of which each second one is signalled."""
    submits = [SubmitOperation(id=f"o{n}", keys=(f"k{n}",), timeout_us=10**12) for n in range(count)]
    return [encode(entry) for entry in (*submits, *(SignalKey(key=f"k{n}") for n in range(0, count, 2)))]


async def state(making):
    """The awaited fold's position, digest, number of pending operations and floor; it is closed."""
    with closing(await making) as fold:
        return fold.position, digest(fold), fold.operations.purgatory.pending, fold.signals.floor


async def append(log, *entries):
    """Append entries, as objects or as bytes; returns the position of the first."""
    data = [entry if isinstance(entry, bytes) else encode(entry) for entry in entries]
    return (await log.append(data)).first
