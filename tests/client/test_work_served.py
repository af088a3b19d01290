"""`work` of an `AsyncClient` with a service, both in virtual time: what the verbs do to real queues."""

import asyncio

import pytest
import pytest_asyncio

from purgatory_async import Timer
from purgatory_async.client import AsyncClient, Policy
from purgatory_async.service.app import create_app
from purgatory_async.service.settings.settings import Settings
from tests.client.test_clients import Wire

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])


class Served:
    """A service on the loop's virtual time, a client of it, and what was reported to the loop."""

    def __init__(self):
        loop = asyncio.get_running_loop()
        self.app = create_app(Settings(jitter=0), timer=Timer())
        self.wire = Wire(self.app)
        policy = Policy(poll=10.0, slack=5.0, patience=2.0, clock=loop.time)
        self.client = AsyncClient("http://localhost", policy=policy, transport=self.wire, sleep=asyncio.sleep)
        self.reported, self.runs = [], []
        loop.set_exception_handler(lambda _, context: self.reported.append(context["exception"]))

    async def sleeper(self, lease):
        """Handle an item, a number of seconds."""
        self.runs.append((lease.item, lease.attempts))
        await asyncio.sleep(lease.item)

    def start(self, queues, handler=None, **arguments):
        call = self.client.work(queues, handler or self.sleeper, **arguments)
        return asyncio.get_running_loop().create_task(call)

    async def left(self, *queues):
        """What queues hold: items, delayed, leased and takers."""
        found = [each async for each in self.client.queues() if each.queue in queues]
        return {each.queue: (each.items, each.delayed, each.leased, each.takers) for each in found}


@pytest_asyncio.fixture
async def served():
    made = Served()
    yield made
    await made.client.aclose()
    assert made.app.service.held.requests.count == 0
    made.app.service.close()


async def stopped(task):
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


async def test_items_longer_than_their_leases_are_handled_once(served):
    for item in range(20):
        await served.client.put("ab"[item % 2], 40 + item)
    working = served.start(["a", "b"], concurrency=3, lease="10s")
    await asyncio.sleep(605)  # not where it polls again
    assert sorted(served.runs) == [(40 + item, 1) for item in range(20)]
    assert await served.left("a", "b") == dict.fromkeys("ab", (0, 0, 0, 1))
    await stopped(working)
    assert await served.left("a", "b") == {}
    assert served.reported == []


async def test_an_item_that_comes_to_no_free_slot_counts_no_attempt(served):
    working = served.start(["a", "b"])
    await asyncio.sleep(3)
    assert await served.client.put("a", 50)
    await asyncio.sleep(1)
    assert not await served.client.put("b", 60), "none stands in line"
    await asyncio.sleep(100)
    assert sorted(served.runs) == [(50, 1), (60, 1)]
    await stopped(working)


async def test_an_item_whose_answer_is_on_its_way_goes_back_at_once(served):
    working = served.start(["a", "b"])
    await asyncio.sleep(3)
    await asyncio.gather(served.client.put("a", 1), served.client.put("b", 2))
    await asyncio.sleep(4)
    assert [item for item, _ in served.runs] == [1, 2], "without waiting for the end of a lease"
    await stopped(working)


async def test_a_poisonous_item_is_dead_after_its_attempts(served):
    async def fail(lease):
        served.runs.append(lease.attempts)
        raise LookupError(lease.item)

    await served.client.set_queue("q", max_attempts=3)
    await served.client.put("q", "poison")
    working = served.start("q", fail)
    await asyncio.sleep(10)
    assert served.runs == [1, 2, 3]
    assert [type(each) for each in served.reported] == [LookupError] * 3
    assert (await served.left("q.dead"))["q.dead"][0] == 1
    await stopped(working)


async def test_an_operator_who_returns_a_lease_stops_its_handler(served):
    await served.client.put("q", 100)
    working = served.start("q", lease="1m")
    await asyncio.sleep(1)
    [lease] = [each async for each in served.client.leases("q")]
    await served.client.give_back(lease.lease)
    await asyncio.sleep(30)
    assert served.runs == [(100, 1), (100, 2)]
    await asyncio.sleep(100)
    assert await served.left("q") == {"q": (0, 0, 0, 1)}
    await stopped(working)


@pytest.mark.parametrize("lost", [1, 3])
async def test_lost_answers_lose_no_item(served, lost):
    await served.client.put("q", 5)
    working = served.start("q")
    await asyncio.sleep(1)
    served.wire.lose = lost
    await asyncio.sleep(60)
    assert served.runs == [(5, 1)]
    await stopped(working)
    assert await served.left("q") == {}


async def test_a_service_that_drains_is_reported_once(served):
    await served.client.put("q", 100)
    working = served.start("q", concurrency=2, lease="1m")
    await asyncio.sleep(1)
    await served.client.drain()
    await asyncio.sleep(90)
    assert [each.slug for each in served.reported] == ["draining"]
    await asyncio.sleep(20)
    await stopped(working)
    assert served.runs == [(100, 1)]
    assert await served.left("q") == {}


async def test_a_cancelled_work_gives_back_what_it_has(served):
    for item in (10, 20, 30):
        await served.client.put("q", item)
    working = served.start("q", concurrency=3, grace="15s")
    await asyncio.sleep(1)
    await stopped(working)
    assert await served.left("q") == {"q": (2, 0, 0, 0)}
    assert [(each.item, each.attempts) async for each in served.client.items("q")] == [(20, 1), (30, 1)]
