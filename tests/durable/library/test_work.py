"""`work` on every carrier: items handled once while their leases hold; its stories in full are in `tests/client`."""

import asyncio

import pytest

from tests.durable.library.calls import cancelled, every, later, start

pytestmark = pytest.mark.asyncio


async def drained(verbs, *queues):
    """Wait until queues are empty."""
    while any(
        each.items or each.leased or each.delayed
        for each in await every(verbs.queues())
        if each.queue in queues
    ):
        await later(0.05)


async def test_items_of_several_queues_are_handled_once_each(verbs):
    handled, busy, most = [], 0, 0

    async def handle(lease):
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await later(0.01)
        handled.append((lease.item, lease.attempts))
        busy -= 1

    working = await start(verbs.work(["p", "q"], handle, concurrency=3, lease=60))
    await verbs.put_batch("p", [{"item": number} for number in range(20)])
    await verbs.put_batch("q", [{"item": number} for number in range(20, 40)])
    await drained(verbs, "p", "q")
    await cancelled(working)
    assert sorted(handled) == [(number, 1) for number in range(40)]
    assert most == 3


async def test_a_failed_item_is_handled_again_until_it_is_dead(verbs):
    reported = []

    async def handle(lease):
        raise ValueError(lease.attempts)

    await verbs.set_queue("q", max_attempts=3)
    working = await start(
        verbs.work(
            "q", handle, retry=(0.01, 2.0, 0.1), on_error=lambda lease, error: reported.append(error.args[0])
        )
    )
    await verbs.put("q", "bad")
    await drained(verbs, "q")
    await cancelled(working)
    assert reported == [1, 2, 3]
    assert [each.item for each in await every(verbs.items("q.dead"))] == ["bad"]


async def test_a_lease_is_extended_while_its_handler_runs(verbs):
    handled = []

    async def handle(lease):
        await later(1.2)
        handled.append(lease.attempts)

    working = await start(verbs.work("q", handle, lease=0.5))
    await verbs.put("q", 1)
    await drained(verbs, "q")
    await cancelled(working)
    assert handled == [1]


async def test_what_is_cancelled_gives_its_items_back(verbs):
    begun = asyncio.Event()

    async def handle(_):
        begun.set()
        await asyncio.Event().wait()

    working = await start(verbs.work("q", handle, grace=0.1))
    await verbs.put_batch("q", [{"item": 1}, {"item": 2}])
    await begun.wait()
    await cancelled(working)
    assert [lease.item for lease in await verbs.take_batch("q", 5)] == [1, 2]
