"""`work` in three processes on one store, which are killed at random: each item, and once while its lease holds."""

import asyncio
import random
from collections import defaultdict
from itertools import pairwise

import pytest

from purgatory_async.durable import Durable
from tests.cluster.servers import by_engine
from tests.durable.checkpoints.conftest import url_on
from tests.processes import python

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_factories=["asyncio"])]

ITEMS = {"sqlite": 10_000, "postgres": 2_000, "redis": 2_000}
WORKERS = 3
CONCURRENCY = 20
LEASE_S = 3.0
EVERY_S = (0.5, 4.0)  # seconds between two kills
PATIENCE_S = 300.0
WORKER = """
import asyncio, os, sys, time
from purgatory_async.durable import Durable

url, path, concurrency, lease = sys.argv[1:]
file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def note(what, lease):
    os.write(file, f"{time.monotonic():.6f} {os.getpid()} {what} {lease.item} {lease.attempts}\\n".encode())

async def handle(lease):
    note("begins", lease)
    await asyncio.sleep(0.01 if lease.item % 500 else 5)  # longer than a lease
    note("returns", lease)

async def main():
    async with Durable(url, checkpoints=False) as durable:
        await durable.work("q", handle, concurrency=int(concurrency), lease=float(lease))

asyncio.run(main())
"""


@pytest.fixture(params=by_engine([*ITEMS]))
def engine(request):
    return request.param


async def worked_off(durable, notes, url):
    """Have the queue worked off by processes that are killed and replaced; the ids of those that were killed."""
    drawn, killed = random.Random(7), []

    def new():
        return python("-c", WORKER, url, notes, CONCURRENCY, LEASE_S, stdout=None, stderr=None)

    workers = [new() for _ in range(WORKERS)]
    try:
        while not await empty(durable):
            await asyncio.sleep(drawn.uniform(*EVERY_S))
            at = drawn.randrange(WORKERS)
            assert workers[at].poll() is None, "no worker ends by itself"
            workers[at].kill()
            workers[at].wait()
            killed.append(workers[at].pid)
            workers[at] = new()
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    return killed


async def empty(durable):
    return not [each async for each in durable.queues() if each.items or each.leased or each.delayed]


async def test_each_item_is_handled_by_processes_that_are_killed(engine, tmp_path):
    url, notes, items = url_on(engine, tmp_path), tmp_path / "notes", ITEMS[engine]
    async with Durable(url, checkpoints=False) as durable, asyncio.timeout(PATIENCE_S):
        for start in range(0, items, 100):
            await durable.put_batch("q", [{"item": item} for item in range(start, start + 100)])
        killed = await worked_off(durable, notes, url)
    runs = defaultdict(list)
    returned = set()
    for line in notes.read_text().splitlines():
        when, pid, what, item, attempts = line.split()
        if what == "begins":
            runs[int(item)].append((float(when), int(pid), int(attempts)))
        else:
            returned.add((int(item), int(attempts)))
    assert runs.keys() == set(range(items)), "each at least once"
    assert {item for item, _ in returned} == set(range(items))
    again = [pair for each in runs.values() for pair in pairwise(sorted(each))]
    for (begun, pid, attempts), (begun_again, _, more) in again:
        assert pid in killed, "only what a killed process had is handled again"
        assert more > attempts
        assert begun_again - begun > LEASE_S / 2, "once its lease, which was extended at half time, was over"
    assert len(again) <= len(killed) * CONCURRENCY
    assert killed
