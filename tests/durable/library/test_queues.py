"""Queues: items put, taken, acknowledged, given back, extended, listed, dead, brought back and dropped."""

import asyncio
import datetime as dt

import pytest

from purgatory_async.client import Lease, Loan, Queue, QueuedItem
from tests.durable.library.calls import cancelled, every, later, refused, start

pytestmark = pytest.mark.asyncio

FORMS = [0.3, dt.timedelta(milliseconds=300), "300ms"]


@pytest.mark.parametrize("item", [None, 0, "", [1, {"a": None}], {"x": "\N{SNOWMAN}"}])
async def test_an_item_is_any_json(verbs, item):
    assert await verbs.put("q", item) is False
    lease = await verbs.take("q")
    assert isinstance(lease, Lease)
    assert (lease.item, lease.attempts, lease.expires_in) == (item, 1, 30.0)
    assert lease.item_id
    assert await verbs.acknowledge(lease) is None
    assert await verbs.take("q") is None


async def test_items_are_taken_in_their_order_up_to_so_many(verbs):
    items = [{"item": "a"}, {"item": "b", "delay": 60}, {"item": "c"}, {"item": "d"}]
    assert await verbs.put_batch("q", items) == [False] * 4
    leases = await verbs.take_batch("q", 2, lease="1m")
    assert [(lease.item, lease.expires_in) for lease in leases] == [("a", 60.0), ("c", 60.0)]
    assert [lease.item for lease in await verbs.take_batch("q", 100)] == ["d"]
    assert await verbs.take_batch("q", 1) == []
    assert [each.item for each in await every(verbs.items("q", delayed=True))] == ["b"]


async def test_a_taker_waits_for_an_item(verbs):
    taking = await start(verbs.take("q", lease=60, timeout=None))
    assert (await verbs.queue("q")).takers == 1
    assert await verbs.put("q", 1) is True
    lease = await taking
    assert (lease.item, lease.expires_in) == (1, 60.0)
    several = await start(verbs.take_batch("q", 3, timeout=60))
    assert await verbs.put_batch("q", [{"item": number} for number in range(4)]) == [True] * 3 + [False]
    assert [each.item for each in await several] == [0, 1, 2]
    assert (await verbs.take("q")).item == 3


@pytest.mark.parametrize("timeout", [0, *FORMS])
async def test_a_taker_whose_time_is_up_gets_nothing(verbs, timeout):
    assert await verbs.take("q", timeout=timeout) is None
    assert await verbs.take_batch("q", 5, timeout=timeout) == []
    await verbs.put("q", 1)
    assert (await verbs.take("q", timeout=timeout)).item == 1


async def test_a_cancelled_taker_takes_nothing(verbs):
    await cancelled(await start(verbs.take("q", timeout=None)))
    await later(0.2)
    assert await verbs.put("q", 1) is False
    assert (await verbs.take("q")).attempts == 1


async def test_takers_are_served_in_line(verbs):
    takers = [await start(verbs.take("q", timeout=60)) for _ in range(3)]
    assert await verbs.put_batch("q", [{"item": number} for number in range(3)]) == [True] * 3
    assert [(await each).item for each in takers] == [0, 1, 2]


@pytest.mark.parametrize("delay", FORMS)
async def test_an_item_is_hidden_for_its_delay(verbs, delay):
    await verbs.put("q", 1, delay=delay)
    assert await verbs.take("q") is None
    assert (await verbs.queue("q")).delayed == 1
    lease = await verbs.take("q", timeout=60)
    assert await verbs.give_back(lease, delay=delay) is None
    assert await verbs.take("q") is None
    again = await verbs.take("q", timeout=60)
    assert (again.attempts, again.item_id) == (2, lease.item_id)
    assert again.id != lease.id


async def test_an_item_given_back_is_first_again(verbs):
    await verbs.put_batch("q", [{"item": 1}, {"item": 2}])
    await verbs.give_back(await verbs.take("q"))
    assert [lease.item for lease in await verbs.take_batch("q", 2)] == [1, 2]


async def test_a_lease_that_is_over_gives_its_item_to_the_next(verbs):
    await verbs.put("q", 1)
    lease = await verbs.take("q", lease=0.3)
    again = await verbs.take("q", timeout=60)
    assert (again.item_id, again.attempts) == (lease.item_id, 2)
    detail = f"the lease '{lease.id}' has ended; take the next item"
    for call in (verbs.acknowledge(lease), verbs.give_back(lease.id), verbs.extend(lease, 5)):
        assert (await refused(call, 410, "lease-expired")).detail == detail
    await verbs.acknowledge(again.id)


async def test_a_lease_that_never_was_is_unknown(verbs):
    for call in (verbs.acknowledge("none"), verbs.give_back("none"), verbs.extend("none")):
        refusal = await refused(call, 404, "unknown-lease")
        assert refusal.detail == "no lease has the id 'none'"


@pytest.mark.parametrize("seconds", [90, dt.timedelta(seconds=90), "90s"])
async def test_a_lease_counts_again_from_now_on(verbs, seconds):
    await verbs.put("q", 1)
    lease = await verbs.take("q", lease=60)
    assert await verbs.extend(lease, seconds) == 90.0
    assert await verbs.extend(lease.id) == 60.0
    assert await verbs.extend(lease, "999d") == 43_200.0  # the longest that a state allows


async def test_an_extended_lease_outlasts_its_first_end(verbs):
    await verbs.put("q", 1)
    lease = await verbs.take("q", lease=0.3)
    await verbs.extend(lease, 60)
    await later(0.5)
    assert await verbs.take("q") is None
    await verbs.acknowledge(lease)


async def test_several_leases_end_each_for_itself(verbs):
    await verbs.put_batch("q", [{"item": number} for number in range(4)])
    leases = await verbs.take_batch("q", 4)
    assert await verbs.acknowledge_batch([leases[0], "none", leases[1].id]) == ["none"]
    assert await verbs.give_back_batch([leases[0], leases[2]]) == [leases[0].id]
    assert [lease.item for lease in await verbs.take_batch("q", 4)] == [2]
    for call in (verbs.acknowledge_batch([]), verbs.give_back_batch(["x"] * 101)):
        await refused(call, 422, "invalid")


async def test_leases_are_listed_the_first_to_end_first(verbs):
    for queue, lease in (("p", 90), ("q", 60), ("q", 30)):
        await verbs.put(queue, 1)
        await verbs.take(queue, lease=lease)
    leased = await every(verbs.leases())
    assert all(isinstance(each, Loan) for each in leased)
    assert [(each.queue, each.attempts, each.owner) for each in leased] == [
        ("q", 1, None),
        ("q", 1, None),
        ("p", 1, None),
    ]
    assert [round(each.expires_in / 30) for each in leased] == [1, 2, 3]
    assert await every(verbs.leases("none")) == []
    assert {each.queue for each in await every(verbs.leases("q"))} == {"q"}
    await verbs.acknowledge(leased[0].lease)
    assert [each.item_id for each in await every(verbs.leases())] == [each.item_id for each in leased[1:]]


async def test_a_queue_shows_what_it_holds_and_its_settings(verbs):
    assert await verbs.set_queue("q", lease="1m", max_attempts=2, max_items=10, max_bytes=None) == Queue(
        queue="q",
        items=0,
        delayed=0,
        leased=0,
        takers=0,
        oldest=None,
        bytes=0,
        lease=60.0,
        max_attempts=2,
        max_items=10,
        max_bytes=None,
        dead="q.dead",
    )
    await verbs.put_batch("q", [{"item": "a"}, {"item": "b"}, {"item": "c", "delay": 60}])
    assert (await verbs.take("q")).expires_in == 60.0
    shown = await verbs.queue("q")
    assert (shown.items, shown.delayed, shown.leased) == (1, 1, 1)
    assert shown.bytes == 3 * len('"a"') + 4 * 128  # of three items and a lease
    assert 0 <= shown.oldest < 60


async def test_settings_are_given_in_full(verbs):
    await verbs.set_queue("q", max_attempts=2, lease=5)
    again = await verbs.set_queue("q", max_items=None)
    assert (again.max_attempts, again.lease, again.max_items, again.dead) == (None, 30.0, None, None)
    assert await verbs.forget_queue("q") is None
    refusal = await refused(verbs.queue("q"), 404, "unknown-queue")
    assert refusal.detail == "no queue has the name 'q'"
    await verbs.forget_queue("q")


async def test_an_item_that_was_leased_too_often_is_dead(verbs):
    await verbs.set_queue("q", max_attempts=2)
    await verbs.put_batch("q", [{"item": 1}, {"item": 2}])
    for _ in range(2):
        await verbs.give_back_batch(await verbs.take_batch("q", 2))
    assert await verbs.take("q") is None
    dead = await every(verbs.items("q.dead"))
    assert [(each.item, each.attempts) for each in dead] == [(1, 2), (2, 2)]
    assert (await verbs.queue("q")).dead == "q.dead"
    assert await verbs.redrive("q", 1) == 1
    assert await verbs.redrive("q") == 1
    assert await verbs.redrive("q") == 0
    again = await every(verbs.items("q"))
    assert [(each.id, each.attempts) for each in again] == [(each.id, 0) for each in dead]


async def test_items_are_shown_in_the_order_of_their_taking(verbs):
    for number, delay in enumerate((None, 60, None, 30)):
        await verbs.put("q", number, delay=delay)
    found = await every(verbs.items("q"))
    assert all(isinstance(each, QueuedItem) for each in found)
    assert [(each.item, each.attempts, each.due_at) for each in found] == [(0, 0, None), (2, 0, None)]
    hidden = await every(verbs.items("q", delayed=True))
    assert [each.item for each in hidden] == [3, 1]
    due = [dt.datetime.fromisoformat(each.due_at) for each in hidden]
    put = [dt.datetime.fromisoformat(each.put_at) for each in hidden]
    assert [(after - before).total_seconds() for before, after in zip(put, due, strict=True)] == [30, 60]
    assert await every(verbs.items("none")) == []


async def test_a_purge_drops_all_but_what_is_leased(verbs):
    await verbs.put_batch("q", [{"item": 1}, {"item": 2}, {"item": 3, "delay": 60}])
    lease = await verbs.take("q")
    assert await verbs.purge("q") == 2
    assert await verbs.purge("q") == 0
    await verbs.give_back(lease)
    assert (await verbs.take("q")).item == 1


async def test_queues_are_listed_by_name(verbs):
    for name in ("b/1", "a", "b/2", "c"):
        await verbs.put(name, 1)
    assert [(queue.queue, queue.items) for queue in await every(verbs.queues())] == [
        (name, 1) for name in ("a", "b/1", "b/2", "c")
    ]
    assert [queue.queue for queue in await every(verbs.queues("b/"))] == ["b/1", "b/2"]


@pytest.mark.parametrize(
    ("settings", "detail"),
    [
        (
            {"max_items": 2},
            "queue 'q' must have at most 2 items; acknowledge what is leased, or raise max_items",
        ),
        (
            {"max_bytes": 300},
            "queue 'q' must have at most 300 bytes; acknowledge what is leased, or raise max_bytes",
        ),
    ],
)
async def test_a_full_queue_refuses_puts_and_submissions(verbs, settings, detail):
    await verbs.set_queue("q", **settings)
    for number in range(2):
        await verbs.put("q", number)
    calls = [
        verbs.put("q", 3),
        verbs.put_batch("q", [{"item": 4}]),
        verbs.submit(announce="q"),
        verbs.attach("o", deliver="q"),
    ]
    for call in calls:
        refusal = await refused(call, 503, "overloaded")
        assert (refusal.detail, refusal.document["queue"]) == (detail, "q")
    assert (await verbs.queue("q")).items == 2


async def test_takers_of_several_queues_get_each_its_own(verbs):
    takers = [await start(verbs.take(queue, timeout=60)) for queue in ("p", "q")]
    await asyncio.gather(verbs.put("q", "q"), verbs.put("p", "p"))
    assert [(await each).item for each in takers] == ["p", "q"]
