"""Readers of signals and events in a process of their own: cancelled anywhere, without a store, over loads of it."""

import asyncio
from itertools import count

import pytest

from purgatory_async import PurgatoryClosed
from purgatory_async.client import RequestRefused, SignalGap
from purgatory_async.durable import Durable
from purgatory_async.testing import cancel_sweep, settle
from tests.cancelling import each_way
from tests.durable.library.calls import cancelled, later, refused, start
from tests.durable.library.test_queues_in_process import traces

ANY_LOOP = pytest.mark.asyncio(loop_factories=["asyncio", "uvloop"])
pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])


async def some(iterator, count):
    """The next elements of an iterator without end, however long they take."""
    return [await anext(iterator) for _ in range(count)]


def values(signals):
    return [each.value for each in signals]


@ANY_LOOP
async def test_a_watch_cancelled_anywhere_leaves_no_trace():
    async with Durable("memory:") as verbs:
        before, index = traces(verbs), 0

        async def scenario():
            nonlocal index
            signalling = asyncio.ensure_future(verbs.signal("k"))
            index = (await verbs.watch("k", index)).index
            await signalling

        assert await cancel_sweep(scenario) >= 1
        await settle()
        assert traces(verbs) == before


@ANY_LOOP
async def test_signals_cancelled_anywhere_come_once_each():
    numbers, found = count(1), []
    async with Durable("memory:") as verbs:
        before, signals = traces(verbs), verbs.signals("k", since=0)

        async def scenario():
            signalling = asyncio.ensure_future(verbs.signal("k", next(numbers)))
            found.append(await anext(signals))
            await signalling

        assert await cancel_sweep(scenario) >= 1
        last = next(numbers) - 1
        found += await some(signals, last - len(found))
        assert values(found) == list(range(1, last + 1))
        await settle()
        assert traces(verbs) == before


async def test_signals_from_elsewhere_cancelled_anywhere_come_once(members):
    here, other = await members.open(), await members.open()
    numbers, found, signals = count(1), [], here.signals("k", prefixes=["p/"], since=0)

    async def scenario():
        signalling = asyncio.ensure_future(later_signal())
        found.append(await anext(signals))
        await signalling

    async def later_signal():
        await asyncio.sleep(0.1)
        await other.signal("k", next(numbers))

    assert await cancel_sweep(scenario) > 1
    await later(1)
    last = next(numbers) - 1
    found += await some(signals, last - len(found))
    assert values(found) == list(range(1, last + 1))


@ANY_LOOP
@each_way
async def test_cancelled_readers_leave_no_trace(cancel):
    async with Durable("memory:") as verbs:
        before = traces(verbs)
        events = verbs.events()
        for call in (
            verbs.watch("k", 0),
            verbs.watch("k", 0, timeout=60),
            anext(verbs.signals("k", prefixes=["a/"])),
            anext(events),
        ):
            await cancel(call)
        await events.aclose()
        await settle()
        assert traces(verbs) == before


@ANY_LOOP
async def test_readers_that_wait_without_end_have_no_timer():
    async with Durable("memory:") as verbs:
        before = verbs._open.keeper.timer.pending
        calls = verbs.watch("k", 0), anext(verbs.signals("k")), anext(verbs.events())
        readers = [asyncio.ensure_future(call) for call in calls]
        await settle()
        assert verbs._open.keeper.timer.pending == before
        await verbs.signal("k")
        await asyncio.gather(*readers)


async def test_readers_are_woken_by_the_signal_itself(members):
    here, other = await members.open(), await members.open()
    readers = [
        await start(here.watch("k", 0)),
        await start(some(here.signals("k", since=0), 1)),
        await start(some(here.events(), 1)),
    ]
    await later(3600)
    began = asyncio.get_running_loop().time()
    await other.signal("k", 1)
    await asyncio.gather(*readers)
    assert asyncio.get_running_loop().time() == began


async def test_readers_wait_while_the_store_is_away(members):
    here, other = await members.open(), await members.open()
    here.link.away = other.link.away = True
    here.link.cut()
    readers = [
        await start(here.watch("k", 0)),
        await start(here.watch("k", 0, timeout=900)),
        await start(some(here.signals("k", since=0), 1)),
    ]
    await later(60)
    assert not any(reader.done() for reader in readers)
    await refused(here.read("k"), 503, "store-unavailable")
    await refused(here.signal("k"), 503, "store-unavailable")
    await refused(here.signal_batch([{"key": "k"}]), 503, "store-unavailable")
    here.link.away = other.link.away = False
    await later(10)
    await other.signal("k", 1)
    await asyncio.wait_for(asyncio.gather(*readers), 5)


async def test_a_watch_whose_time_ends_without_its_store_is_refused(members):
    here = await members.open()
    watching = await start(here.watch("k", 0, timeout=10))
    here.link.away = True
    await refused(asyncio.wait_for(watching, 30), 503, "store-unavailable")


async def test_a_watch_cancelled_without_its_store_leaves_no_trace(members):
    here = await members.open()
    before = traces(here)[2:]  # without those of the state itself
    here.link.away = True
    for call in (here.watch("k", 0), anext(here.signals("k"))):
        await cancelled(await start(call))
    here.link.away = False
    await later(10)
    assert traces(here)[2:] == before


async def test_readers_get_what_a_reload_brought(members):
    here = await members.open()
    signals = here.signals("k", since="now")
    readers = [await start(here.watch("k", 0)), await start(some(signals, 3))]
    batch = [{"key": "k", "value": number} for number in range(3)]
    await members.fall_behind(here, lambda other: other.signal_batch(batch))
    state, found = await asyncio.wait_for(asyncio.gather(*readers), 1)
    assert state.value == 2
    assert values(found) == [0, 1, 2]


async def test_readers_go_on_after_a_reload(members):
    here = await members.open()
    await here.signal("k", "old")
    index = (await here.read("k")).index
    signals = here.signals("k", prefixes=["p/"])
    readers = [await start(here.watch("k", index)), await start(some(signals, 1))]
    await members.fall_behind(here, lambda other: other.signal("else"))
    await later(1)
    assert not any(reader.done() for reader in readers)
    other = await members.open()
    await other.signal("k", "new")
    state, found = await asyncio.wait_for(asyncio.gather(*readers), 1)
    assert (state.value, values(found)) == ("new", ["new"])


async def test_a_loss_is_a_gap_to_signals_and_none_to_a_watch(members):
    here = await members.open()
    await here.signal("k", "kept")
    index = (await here.read("k")).index
    signals = here.signals("k", since=index)
    watching, following = await start(here.watch("k", index)), await start(some(signals, 1))
    await here.signal("else")
    await members.lose(1)
    with pytest.raises(SignalGap):
        await following
    assert not watching.done()
    other = await members.open()
    await other.signal("k", "new")
    assert (await asyncio.wait_for(watching, 1)).value == "new"
    assert (await some(signals, 1))[-1].key == "k"


async def test_events_over_a_reload_begin_again_with_a_gap(members):
    here = await members.open()
    events = here.events()
    reading = await start(some(events, 3))
    await here.submit(operation_id="o")
    await members.fall_behind(here, lambda other: other.submit(operation_id="p"))
    await here.submit(operation_id="q")
    before, gap, after = await asyncio.wait_for(reading, 1)
    assert (before.data["id"], gap.kind, after.data["id"]) == ("o", "gap", "q")
    await events.aclose()


@ANY_LOOP
async def test_leaving_ends_all_readers():
    async with Durable("memory:") as verbs:
        readers = [
            asyncio.ensure_future(call)
            for call in (verbs.watch("k", 0), anext(verbs.signals("k")), anext(verbs.events()))
        ]
        await settle()
    for reader in readers:
        with pytest.raises(PurgatoryClosed, match="was left"):
            await reader


@pytest.mark.parametrize("lost", [False, True])
async def test_waits_outlast_a_store_that_goes_in_a_reload(members, monkeypatch, lost):
    here = await members.open()
    await here.signal("k")
    index, waits = (await here.read("k")).index, here._open.waits
    waiting = [
        await start(here.watch("k", index)),
        await start(some(here.signals("k"), 1)),
        await start(here.take("q", timeout=900)),
        await start(here.take_batch("q", 1, timeout=None)),
    ]

    def look_again(lost, look_again=waits.look_again):
        here.link.away = True
        look_again(lost=lost)

    monkeypatch.setattr(waits, "look_again", look_again)
    if lost:
        await members.lose(0)
    else:
        with pytest.raises(RequestRefused, match="store-unavailable"):
            await members.fall_behind(here, lambda other: other.signal("else"))
    await later(60)
    assert [each for each in waiting if each.done()] == []
    here.link.away = False
    await later(10)
    await here.signal("k", "new")
    await here.put_batch("q", [{"item": 1}, {"item": 2}])
    state, signals, *taken = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 1)
    assert state.value == "new"
    assert isinstance(signals, SignalGap) if lost else values(signals) == ["new"]
    assert sorted(lease.item for lease in (taken[0], *taken[1])) == [1, 2]
