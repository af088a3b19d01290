"""The clients' methods for queues and leases, against the application itself in virtual time."""

import pytest

from purgatory_async.client import RequestRefused
from tests.client.test_clients import served


@served
async def test_a_queue_is_set_filled_shown_and_emptied(each):
    client = each.client
    assert (await client.set_queue("q", max_attempts=1, max_items=None)).dead == "q.dead"
    assert (
        await client.put_batch("q", [{"item": "a"}, {"item": "b", "delay": 9}, {"item": "c"}]) == [False] * 3
    )
    assert [item.item async for item in client.items("q", delayed=True)] == ["b"]
    first, second = await client.take_batch("q", 5, lease=20.0)
    assert (first.item, first.attempts, second.item) == ("a", 1, "c")
    assert await client.extend(first, 60.0) == 60.0
    assert [lease.item_id async for lease in client.leases("q")] == [second.item_id, first.item_id]
    assert await client.acknowledge_batch([first, "none"]) == ["none"]
    assert await client.give_back_batch([second]) == []
    assert [(queue.queue, queue.items, queue.delayed) async for queue in client.queues()] == [
        ("q", 0, 1),
        ("q.dead", 1, 0),
    ]
    assert await client.redrive("q") == 1
    assert [(item.item, item.attempts) async for item in client.items("q")] == [("c", 0)]
    assert await client.purge("q") == 2
    await client.forget_queue("q")
    with pytest.raises(RequestRefused, match="no queue has the name 'q'"):
        await client.queue("q")


@served
async def test_a_take_whose_answer_was_lost_loses_no_lease(each):
    client = each.client
    await client.put_batch("q", [{"item": 1}, {"item": 2}])
    each.wire.lose = 1
    taking = await each.start(client.take("q", timeout=5))
    await each.advance(1)
    lease = await taking
    assert (lease.item, lease.attempts) == (1, 1)
    assert (await client.queue("q")).leased == 1
    await client.acknowledge(lease)


@served
async def test_a_returned_item_is_hidden_for_its_delay(each):
    client = each.client
    await client.put("q", 1, delay=2.0)
    assert await client.take("q") is None
    await each.advance(2)
    await client.give_back(await client.take("q"), delay=3.0)
    assert (await client.queue("q")).delayed == 1
    await each.advance(3)
    assert (await client.take("q")).attempts == 2
