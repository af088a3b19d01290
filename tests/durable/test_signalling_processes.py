"""Signals from processes without a loop, beside services and other writers: none lost, none doubled, all in order."""

import asyncio
import os
import random
import signal as signals
import sqlite3
from collections import defaultdict
from contextlib import ExitStack, closing

import pytest
from msgspec import Raw

from purgatory_async.cluster.end_mark import EndMarkFile
from purgatory_async.durable import signal
from purgatory_async.durable.fold.codec import decode
from purgatory_async.durable.fold.entries import SetLevel, SignalKey, Tick
from purgatory_async.durable.urls import opened, parsed
from tests.cluster.reading import read
from tests.cluster.servers import by_engine
from tests.durable.checkpoints.conftest import append, url_on
from tests.forks import exit_code, fork, needs_fork
from tests.processes import WHOLE_S, Served, python

pytestmark = pytest.mark.slow

WRITERS = 4
EACH = 40
PLAIN = """
import sys
from purgatory_async.durable import signal
url, key, count = sys.argv[1:]
for number in range(int(count)):
    signal(url, key, number)
    print(number, flush=True)
"""
IN_TRANSACTIONS = """
import sqlite3, sys
from purgatory_async.durable import signal
url, key, count = sys.argv[1:]
connection = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=60)
for number in range(int(count)):
    with connection:
        signal(connection, key, number)
    signal(connection, key, -1)
    connection.rollback()
    print(number, flush=True)
"""


@pytest.fixture(params=by_engine(["sqlite", "postgres", "redis"]))
def url(request, tmp_path):
    """A store with a level."""
    url = url_on(request.param, tmp_path)
    asyncio.run(begin(url))
    return url


async def begin(url):
    async with opened(parsed(url)) as (log, _):
        await append(log, SetLevel(level=2))


async def followed(url, end):
    """The values of each key's signals in the order in which a follower has them, without holes."""
    async with opened(parsed(url)) as (log, _):
        entries = await read(log, end)
    assert [entry.position for entry in entries] == list(range(1, end + 1))
    assert sorted(entry.at_us for entry in entries) == [entry.at_us for entry in entries]
    found = defaultdict(list)
    for entry in entries:
        decoded = decode(entry.data)
        if isinstance(decoded, SignalKey):
            found[decoded.key].append(int(bytes(decoded.value)))
    return found


def told(url):
    """The same of all that is there."""

    async def values():
        async with opened(parsed(url)) as (log, _):
            end = await append(log, Tick())  # with which Postgres moves what was proposed
        return await followed(url, end)

    return asyncio.run(values())


def test_a_held_request_is_answered(url):
    with Served("--store", url) as served:
        served.ready()
        waiting = served.hold("GET", "/v1/wait?key=paid&since=0&wait=40s")
        made = served.request("PUT", "/v1/operations/order", {"keys": ["shipped"], "need": {"amount": 3}})
        assert made.status == 202
        held = served.hold("GET", "/v1/operations/order?wait=40s")
        signal(url, "paid", {"order": 42}, voter="bank")
        (found,) = waiting.join().json["signals"]
        assert (found["value"], found["voter"]) == ({"order": 42}, "bank")
        signal(url, "shipped", amount=3)
        assert held.join().json["state"] == "completed"
        served.stop()


def test_a_signal_in_a_transaction_answers_a_held_request(tmp_path):
    with Served("--store", f"sqlite:///{tmp_path}/log.db") as served:
        served.ready()
        waiting = served.hold("GET", "/v1/wait?key=paid&since=0&wait=40s")
        with closing(sqlite3.connect(tmp_path / "log.db")) as connection, connection:
            connection.execute("CREATE TABLE orders AS SELECT 42 AS number")
            signal(connection, "paid")
        assert waiting.join().json["signals"][0]["key"] == "paid"
        served.stop()


async def write(url, key):
    """Signal as a worker does."""
    async with opened(parsed(url)) as (log, _):
        for number in range(EACH):
            await append(log, SignalKey(key=key, value=Raw(b"%d" % number)))


def test_plain_and_async_writers_share_one_order(url):
    plain = [PLAIN] * WRITERS
    if url.startswith("sqlite"):
        plain[:2] = [IN_TRANSACTIONS] * 2

    async def write_all():
        async with asyncio.timeout(WHOLE_S):
            following = followed(url, 1 + 2 * WRITERS * EACH)
            return (await asyncio.gather(following, *(write(url, f"async{n}") for n in range(WRITERS))))[0]

    with ExitStack() as stack:
        running = [
            stack.enter_context(python("-c", code, url, f"plain{n}", EACH)) for n, code in enumerate(plain)
        ]
        found = asyncio.run(write_all())
        for process in running:
            _, errors = process.communicate()
            assert (process.returncode, errors) == (0, "")
    assert told(url) == found
    assert len(found) == 2 * WRITERS
    assert {key: values for key, values in found.items() if values != list(range(EACH))} == {}


def test_a_killed_process_neither_loses_nor_doubles_a_signal(url):
    printed = {}
    for round_ in range(6):
        key, draw = f"k{round_}", random.Random(round_)
        with python("-c", PLAIN, url, key, 10_000) as process:
            for _ in range(draw.randint(1, 12)):
                process.stdout.readline()
            process.send_signal(signals.SIGKILL)
            rest, _ = process.communicate()
        printed[key] = max(map(int, rest.split()), default=0)
    signal(url, "after", 0)
    found = told(url)
    assert found.pop("after") == [0]
    for key, values in found.items():
        assert values == list(range(len(values)))
        assert len(values) > printed[key]


@needs_fork
@pytest.mark.parametrize("within", [False, True])
def test_a_signal_of_a_killed_process_is_counted_by_the_next(tmp_path, within):
    url = f"sqlite:///{tmp_path}/log.db"
    asyncio.run(begin(url))
    child = fork()
    if not child:
        try:
            EndMarkFile.write = lambda *_, **__: os.kill(os.getpid(), signals.SIGKILL)
            if within:
                with sqlite3.connect(tmp_path / "log.db") as connection:
                    signal(connection, "a", 7)
                os.kill(os.getpid(), signals.SIGKILL)
            signal(url, "a", 7)
        finally:
            os._exit(1)
    assert exit_code(child) == -signals.SIGKILL
    signal(url, "a", 8)
    assert told(url)["a"] == [7, 8]
