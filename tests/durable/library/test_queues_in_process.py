"""Takes of a process's own: cancelled anywhere, while the store is away, and over loads of the state."""

import asyncio
from itertools import count

import pytest

from purgatory_async import PurgatoryClosed
from purgatory_async.durable import Durable
from purgatory_async.testing import cancel_sweep, settle
from tests.cancelling import each_way
from tests.durable.library.calls import cancelled, later, refused, start

ANY_LOOP = pytest.mark.asyncio(loop_factories=["asyncio", "uvloop"])
pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])


def queue_of(verbs, name="q"):
    return verbs._open.keeper.fold.queues.by_name.get(name)


def traces(verbs):
    """What waits leave in a process: tasks, timers, places in lines, waiters."""
    opened = verbs._open
    return (
        len(asyncio.all_tasks()),
        opened.keeper.timer.pending,
        len(opened.keeper.fold.queues.takers),
        opened.waits.count,
        opened.waits.followers.waiting,
    )


def whereabouts(verbs, taken):
    """The items of a queue that can be taken, and those that a caller has got."""
    queue = queue_of(verbs)
    assert queue.leased == len(taken), "a lease must have its caller"
    return sorted([int(bytes(item.text)) for item in queue.ready] + taken)


@ANY_LOOP
@pytest.mark.parametrize("several", [False, True])
async def test_a_take_cancelled_anywhere_loses_no_item(several):
    numbers, taken = count(1), []
    async with Durable("memory:") as verbs:

        async def scenario():
            asyncio.get_running_loop().create_task(verbs.put("q", next(numbers)))
            if several:
                leases = await verbs.take_batch("q", 5, timeout=None)
            else:
                leases = [await verbs.take("q", timeout=None)]
            taken.extend(lease.item for lease in leases)

        assert await cancel_sweep(scenario) >= 1
        await settle()
        last = next(numbers) - 1
        assert last >= 3
        assert whereabouts(verbs, taken) == list(range(1, last + 1))
        assert queue_of(verbs).takers == 0


async def test_a_take_cancelled_anywhere_on_a_store_loses_no_item(members):
    here, other = await members.open(), await members.open()
    numbers, taken = count(1), []

    async def scenario():
        putting = asyncio.ensure_future(later_put())
        taken.append((await here.take("q", lease="1d", timeout=None)).item)
        await putting

    async def later_put():
        await asyncio.sleep(0.1)
        await other.put("q", next(numbers))

    assert await cancel_sweep(scenario) > 1
    await later(1)
    await here.caught_up()
    last = next(numbers) - 1
    assert last >= 5
    assert whereabouts(here, taken) == list(range(1, last + 1))
    assert queue_of(here).takers == 0


@ANY_LOOP
@each_way
async def test_a_cancelled_take_leaves_no_trace(cancel):
    async with Durable("memory:") as verbs:
        await cancel(verbs.take("q", timeout=60))  # the state has one timer for all
        before = traces(verbs)
        await cancel(verbs.take("q", timeout=None))
        await cancel(verbs.take_batch("q", 3, timeout=60))
        await settle()
        assert traces(verbs) == before
        assert await verbs.put("q", 1) is False


async def test_an_item_wakes_its_taker_without_a_timer(members):
    here, other = await members.open(), await members.open()
    taking = await start(here.take("q", timeout=None))
    await later(3600)
    began = asyncio.get_running_loop().time()
    await other.put("q", 1)
    assert (await taking).item == 1
    assert asyncio.get_running_loop().time() == began


@pytest.mark.parametrize("timeout", [900, None])
async def test_a_take_waits_while_the_store_is_away(members, timeout):
    here, other = await members.open(), await members.open()
    taking = await start(here.take("q", timeout=timeout))
    here.link.away = other.link.away = True
    here.link.cut()
    await later(60)
    assert not taking.done()
    here.link.away = other.link.away = False
    await later(10)
    assert await other.put("q", 1) is True
    assert (await asyncio.wait_for(taking, 5)).item == 1


async def test_a_take_whose_time_ends_without_its_store_is_refused(members):
    here = await members.open()
    taking = await start(here.take("q", timeout=10))
    here.link.away = True
    here.link.cut()
    await refused(asyncio.wait_for(taking, 30), 503, "store-unavailable")


async def test_changes_are_refused_while_the_store_is_away(members):
    here = await members.open()
    await here.put("q", 1)
    lease = await here.take("q", lease=900)
    here.link.away = True
    for call in (
        here.put("q", 1),
        here.put_batch("q", [{"item": 1}]),
        here.take("q"),
        here.take("q", timeout=900),
        here.acknowledge(lease),
        here.give_back(lease),
        here.extend(lease),
        here.set_queue("q", max_items=5),
        here.forget_queue("q"),
        here.purge("q"),
        here.redrive("q"),
        here.queue("q"),
    ):
        await refused(asyncio.wait_for(call, 10), 503, "store-unavailable")


async def test_a_take_cancelled_without_its_store_leaves_its_line(members):
    here, other = await members.open(), await members.open()
    taking = await start(here.take("q", timeout=None))
    here.link.away = True
    here.link.cut()
    await cancelled(taking)
    here.link.away = False
    await later(2)
    assert await other.put("q", 1) is False
    assert (await here.take("q")).attempts == 1


async def test_a_take_goes_on_after_a_reload(members):
    here = await members.open()
    taking = await start(here.take("q", timeout=900))
    await members.fall_behind(here, lambda other: other.submit(["k"]))
    await later(1)
    assert not taking.done()
    other = await members.open()
    assert await other.put("q", 1) is True
    assert (await asyncio.wait_for(taking, 1)).item == 1


async def test_a_take_gets_what_it_was_leased_in_a_reload(members):
    here = await members.open()
    taking = await start(here.take_batch("q", 5, timeout=900))
    items = [{"item": number} for number in range(3)]
    await members.fall_behind(here, lambda other: other.put_batch("q", items))
    leases = await asyncio.wait_for(taking, 1)
    assert [lease.item for lease in leases] == [0, 1, 2]
    assert await here.acknowledge_batch(leases) == []


async def test_a_take_stands_in_line_again_after_a_loss(members):
    here = await members.open()
    taking = await start(here.take("q", timeout=900))
    await members.lose(1)
    assert not taking.done()
    other = await members.open()
    assert await other.put("q", 1) is True
    assert (await asyncio.wait_for(taking, 1)).item == 1


async def test_leaving_ends_a_take_and_its_place_in_the_line(members):
    here, other = await members.open(), await members.open()
    taking = await start(here.take("q", timeout=None))
    await here.__aexit__()
    with pytest.raises(PurgatoryClosed):
        await taking
    await later(0.5)
    assert await other.put("q", 1) is False
