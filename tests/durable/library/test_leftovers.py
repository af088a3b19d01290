"""Calls that were cancelled, ended or left behind leave nothing; each collection of a `Durable` has a bound."""

import asyncio
import gc
import weakref

import pytest
import pytest_asyncio

from purgatory_async import PurgatoryClosed
from purgatory_async.durable import Durable
from tests.durable.library.calls import later
from tests.service.on_store.containers import containers, sizes
from tests.service.on_store.test_containers import BOUNDS

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])

AT_ONCE = 500
OF_CALLS = {
    name
    for bound, names in BOUNDS.items()
    for name in names.split()
    if bound.startswith(("bytes", "held", "requests", "one-shot", "one step"))
}
"""Collections that calls fill and empty; the others have a bound in themselves."""
STEADY = {"durable.waiting.feed:Feed._ring", "durable.fold.kept_signals:Superseded._turns"}
"""As long as ever; swept when it has many."""


@pytest_asyncio.fixture(params=["memory", "store"])
async def here(request, members):
    """A process without a store, and one on it, which forget at once what has ended."""
    if request.param == "store":
        yield await members.open(retention=0)
    else:
        async with Durable("memory:", retention=0) as durable:
            durable.keeper = durable._open.keeper
            yield durable


async def one_of_each(here, number):
    """Calls that wait, each of another sort; half of them not for ever."""
    name = f"o{number}"
    await here.attach(name, ["k"])
    return [
        *(here.follow(name), here.follow(name, timeout=900)),
        *(here.wait("k"), here.wait("k", timeout=900)),
        *(here.watch("w", 0), here.watch("w", 0, timeout=900)),
        *(here.take("q", timeout=None), here.take("q", timeout=900), here.take_batch("q", 3, timeout=900)),
        *(anext(here.signals("w", prefixes=["v/"])), here.ask(f"{name}-", "Go?", keep=None)),
        *(here.caught_up(10**9), here.caught_up(10**9, timeout=900)),
    ]


async def waits_of(here, count):
    """Tasks of waits of all sorts, about ``count`` together."""
    tasks = []
    while len(tasks) < count:
        tasks += [asyncio.create_task(call) for call in await one_of_each(here, len(tasks))]
    await later(1)
    return tasks


def kept(here):
    """How much there is in each collection that calls fill, and how many wait."""
    keeper, waits = here._open.keeper, here._open.waits
    found = {name: size for name, size in sizes(here._open).items() if name in OF_CALLS - STEADY}
    return found | {
        "waits": waits.count,
        "followers": waits.followers.waiting,
        "positions": waits.positions.waiting,
        "operations": keeper.pending,
        "bytes": keeper.fold.shared.kept.used,
        "timer": keeper.timer.pending,
        "tasks": len(asyncio.all_tasks()),
    }


async def settled(here):
    """Let what has ended be forgotten."""
    await later(2000)
    await here.caught_up()
    return kept(here)


async def end(here, how, tasks):
    """End waits, those that nothing else ends by cancelling them."""
    if how == "over":
        await later(1000)
    if how == "ended":
        await here.signal("w", 1)
        for operation in [*here.keeper.fold.operations.pending()]:
            await here.complete(operation.id)
        for _ in range(len(tasks)):
            await here.put("q", 1)
        await later(60)  # the leases are over
        while taken := await here.take_batch("q", 100):
            await here.acknowledge_batch(taken)
    assert (how == "cancelled") == (not any(each.done() for each in tasks))
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await later(1)
    for operation in [*here.keeper.fold.operations.pending()]:
        await here.cancel(operation.id)


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("how", ["cancelled", "ended", "over"])
async def test_thousands_of_waits_leave_nothing(here, how, count):
    await end(here, how, await waits_of(here, 20))  # what stays, as the queue
    before = await settled(here)
    for _ in range(count // AT_ONCE):
        tasks = await waits_of(here, AT_ONCE)
        assert kept(here)["waits"] > AT_ONCE / 2
        await end(here, how, tasks)
    after = await settled(here)
    assert {
        name: (before.get(name), size) for name, size in after.items() if size != before.get(name, 0)
    } == {}


async def test_calls_that_are_left_behind_keep_nothing_alive(members):
    here = await members.open()
    tasks = await waits_of(here, AT_ONCE)
    await here.__aexit__(None, None, None)
    assert {type(each) for each in await asyncio.gather(*tasks, return_exceptions=True)} == {PurgatoryClosed}
    assert asyncio.all_tasks() == {asyncio.current_task()}
    keeper = weakref.ref(here._open.keeper)
    here._open = None
    tasks.clear()
    await later(0)  # until then the loop has what they raised
    gc.collect()
    assert keeper() is None


async def test_each_collection_has_a_bound(here):
    tasks = await waits_of(here, 20)
    await here.submit(["a"], operation_id="v", need={"voters": 3})
    await here.signal("a", voter="v")
    await here.set_queue("set", max_items=9)
    for delay in (0, 0, 60):
        await here.put("p", 1, delay=delay)
    await here.take("p")
    found = containers(here, here._open)
    assert len(found) > 30
    assert sorted(found - {name for names in BOUNDS.values() for name in names.split()}) == []
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
