"""`work`: what becomes of it when the store is away, refuses it, or the work itself ends."""

import asyncio
import itertools

import anyio
import pytest

from purgatory_async.client import AsyncVerbs, RequestRefused
from purgatory_async.testing import cancel_sweep, settle
from tests.cancelling import each_way
from tests.client.queues_in_memory import QueuesInMemory
from tests.client.working import Boom, Working, started, virtual

pytestmark = virtual


async def test_work_outlasts_an_outage_and_reports_it_once():
    working = Working("a")
    working.store.away = True
    working.start()
    await asyncio.sleep(3600)
    assert len(working.messages) == 1
    assert working.messages[0].startswith("the work goes on trying: 503 store-unavailable: it is away")
    working.store.comes_back()
    await asyncio.sleep(5)
    assert [*working.running] == ["a"]
    working.store.away = True
    await asyncio.sleep(20)
    assert len(working.messages) == 2
    working.store.comes_back()
    await working.stop()


async def test_an_answer_that_was_lost_is_asked_for_again():
    working = await started("a")
    working.store.lose_answers = 1
    await working.end("a")
    await asyncio.sleep(1)
    assert working.store.acknowledged == ["a"]
    assert len(working.messages) == 1
    assert "may or may not" in working.messages[0]
    await working.stop()


async def test_an_item_is_acknowledged_once_the_store_is_back():
    working = await started("a", lease=30)
    working.store.away = True
    await working.end("a")
    await asyncio.sleep(20)
    working.store.comes_back()
    await asyncio.sleep(5)
    assert working.store.acknowledged == ["a"]
    await working.stop()


@pytest.mark.parametrize("refusal", [(403, "forbidden"), (503, "upgrade-pending")])
async def test_a_take_that_cannot_succeed_ends_the_work(refusal):
    working = await started("a", concurrency=2, grace=10)
    status, slug = refusal
    working.store.refusal = RequestRefused(status, slug, "never", {})
    working.store.put("q", "b")
    await settle()
    assert "b" in working.running
    await working.end("a")
    assert not working.task.done(), "b runs on"
    await working.end("b")
    with pytest.raises(RequestRefused, match=slug):
        await working.task
    assert working.store.acknowledged == ["a", "b"]


@pytest.mark.asyncio
async def test_a_handler_that_fails_without_a_pause_ends_the_work():
    store = QueuesInMemory()
    store.trip = None
    store.put("q", "a")

    async def leave(lease):
        raise GeneratorExit

    with pytest.raises(GeneratorExit):
        await AsyncVerbs.work(store, "q", leave)
    assert [item.item for item, _ in store.given_back] == ["a"]


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_a_take_that_may_succeed_later_is_tried_again(status):
    working = Working("a")
    working.store.refusal = RequestRefused(status, "", "later", {})
    working.start()
    await asyncio.sleep(60)
    working.store.refusal = None
    await asyncio.sleep(5)
    assert [*working.running] == ["a"]
    await working.stop()


# The end.


async def test_what_runs_may_end_within_the_grace():
    working = await started("a", "b", "c", concurrency=2, grace="10s")
    working.task.cancel()
    await asyncio.sleep(9)
    assert [*working.running] == ["a", "b"]
    await working.end("a")
    assert [*working.running] == ["b"]
    await asyncio.sleep(0.9)
    assert [*working.running] == ["b"]
    await asyncio.sleep(0.2)
    assert working.task.cancelled()
    assert working.store.acknowledged == ["a"]
    assert [(item.item, delay) for item, delay in working.store.given_back] == [("b", None)]
    assert working.waiting == ["b", "c"]


async def test_without_a_grace_it_is_a_lease():
    working = await started("a", lease=7, grace=None)
    working.task.cancel()
    await asyncio.sleep(6.9)
    assert [*working.running] == ["a"]
    await asyncio.sleep(0.2)
    assert working.task.cancelled()
    assert working.waiting == ["a"]


async def test_leases_are_extended_during_a_long_grace():
    working = await started("a", lease=10, grace=100)
    working.task.cancel()
    await asyncio.sleep(95)
    await working.end("a")
    assert (working.store.acknowledged, working.task.cancelled()) == (["a"], True)


async def test_the_work_ends_after_a_handler_that_ignores_cancellation():
    done = asyncio.Event()

    async def stubborn(lease):
        while not done.is_set():
            try:
                await done.wait()
            except asyncio.CancelledError:
                continue

    working = await started("a", handler=stubborn, lease=10, grace=0)
    working.task.cancel()
    await asyncio.sleep(100)
    assert not working.task.done()
    assert working.store.leases, "it runs, so its lease lasts"
    done.set()
    await settle()
    assert working.task.cancelled()
    assert working.store.acknowledged == ["a"]


async def test_another_cancellation_does_not_shorten_the_grace():
    working = await started("a", grace=10)
    for _ in range(3):
        working.task.cancel()
        await asyncio.sleep(3)
    await working.end("a")
    assert (working.store.acknowledged, working.task.cancelled()) == (["a"], True)


@pytest.mark.asyncio
async def test_a_cancelled_anyio_scope_lets_what_runs_end():
    working = Working("a")
    loop = asyncio.get_running_loop()

    async def scoped():
        with anyio.CancelScope() as scope:
            loop.call_soon(scope.cancel)
            await AsyncVerbs.work(working.store, "q", handle)
        assert scope.cancelled_caught

    async def handle(lease):
        for _ in range(20):
            await asyncio.sleep(0)

    await scoped()
    assert (working.store.acknowledged + working.waiting, working.store.leases) == (["a"], {})


async def test_an_outage_at_the_end_lasts_no_longer_than_the_leases():
    working = await started("a", lease=10, grace=2)
    working.store.away = True
    working.task.cancel()
    await asyncio.sleep(11)
    assert working.task.cancelled()


class Scene:
    """Items of two queues, one of which fails at first and one of which comes later, until they are all done."""

    def __init__(self):
        self.store, self.returned = QueuesInMemory(), []
        for queue, item, delay in (("q", "a", 0), ("q", "b", 0), ("r", "c", 1)):
            self.store.put(queue, item, delay)

    async def handle(self, lease):
        await asyncio.sleep(0.5)
        if lease.item == "b" and lease.attempts == 1:
            raise Boom
        self.returned.append(lease.item)

    async def run(self):
        arguments = {"concurrency": 2, "lease": 0.6, "grace": 0.2, "on_error": lambda *_: None}
        try:
            async with asyncio.timeout(10):
                await AsyncVerbs.work(self.store, ("q", "r"), self.handle, **arguments)
        except TimeoutError:
            assert sorted(self.returned) == ["a", "b", "c"]
        finally:
            self.check()

    def check(self):
        """What returned is acknowledged, once; all else is back, or still to come; nothing goes on."""
        store = self.store
        assert sorted(store.acknowledged) == sorted(self.returned)
        assert not store.leases
        assert not any(store.lines.values())
        left = [*itertools.chain(*store.ready.values()), *store.hidden]
        assert sorted(each.item for each in left) == sorted({"a", "b", "c"} - {*self.returned})
        assert len(asyncio.all_tasks()) == 2, "this one and the test's"


async def test_the_work_can_be_cancelled_where_it_waits():
    assert await cancel_sweep(lambda: Scene().run()) >= 2


async def test_the_work_can_be_cancelled_during_any_request():
    for planned in itertools.count():
        scene = Scene()
        task = asyncio.get_running_loop().create_task(scene.run())
        scene.store.at_trip(planned, task.cancel)
        await asyncio.wait({task})
        if not task.cancelled():
            task.result()
            break
    assert planned >= 30


@each_way
@pytest.mark.asyncio
async def test_every_way_of_cancelling_ends_the_work(cancel):
    store = QueuesInMemory()
    await cancel(AsyncVerbs.work(store, ("q", "r"), Working.handle))
    assert not any(store.lines.values())


# Arguments.


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"queues": ()}, "queues must be at least one, got none"),
        ({"handler": "h"}, "handler must be an async function, got 'h'"),
        ({"concurrency": 0}, "concurrency must be at least 1, got 0"),
        ({"concurrency": 1.5}, "concurrency must be an integer, got float"),
        ({"lease": 0}, "lease must be above 0 seconds, got 0"),
        ({"lease": "soon"}, "lease must follow"),
        ({"grace": -1}, "grace must be finite and not negative, got -1"),
        ({"retry": (1, 0.5, 60)}, "the factor of retry must be finite and at least 1, got 0.5"),
        ({"retry": (-1, 2, 60)}, "the first delay of retry must be finite and not negative, got -1"),
        ({"retry": (1, 2, float("inf"))}, "the longest delay of retry must be finite"),
        ({"retry": 5}, r"retry must be \(first delay, factor, longest delay\), got 5"),
    ],
)
@pytest.mark.asyncio
async def test_an_argument_out_of_its_bounds_is_refused(wrong, message):
    arguments = {"queues": "q", "handler": Working.handle, **wrong}
    with pytest.raises((TypeError, ValueError), match=message):
        await AsyncVerbs.work(QueuesInMemory(), **arguments)
