"""``GET /v1/operations``: what a page costs, and where a cursor leads to."""

import random
from secrets import token_hex

import pytest

from purgatory_async.durable import listing
from purgatory_async.durable.fold.entries import EndOperation, SubmitOperation
from purgatory_async.durable.listing import BLOCK, Order
from tests.calls import noted_calls

pytestmark = pytest.mark.asyncio


def fill(client, number, *keys):
    """Submit this many operations, without HTTP."""
    for _ in range(number):
        client.post(SubmitOperation(id=token_hex(8), keys=keys))


async def page(client, query):
    """The ids of a page, and the cursor of the next one."""
    reply = await client.request("GET", f"/v1/operations?{query}")
    assert reply.status == 200
    return [operation["id"] for operation in reply.json["operations"]], reply.json.get("next")


async def calls(client, query):
    """How many calls, of C functions too, a page takes."""
    with noted_calls(built_in=True) as called:
        await page(client, query)
    return len(called)


@pytest.mark.parametrize(
    "query", ["limit=1", "limit=1&key=a", "limit=1&cursor={}", "limit=1&key=a&cursor={}"]
)
async def test_a_page_costs_as_much_as_it_shows(make_client, query):
    costs = []
    for pending in (1500, 6000):
        client = make_client(max_pending=10_000)
        fill(client, pending, "a", "b")
        wanted = query.format(pending // 2)
        await page(client, wanted)  # a key's order is made when it is asked for first
        costs.append(await calls(client, wanted))
    assert abs(costs[1] - costs[0]) < 20


async def test_waits_in_front_do_not_make_a_page_dear(make_client):
    costs = []
    for waits in (1500, 6000):
        client = make_client(max_pending=10_000)
        for _ in range(waits):
            client.service.wait_once(("a",), "any", 9.0)
        fill(client, 1, "a")
        for query in ("limit=1", "limit=1&key=a"):
            assert len((await page(client, query))[0]) == 1
            costs.append(await calls(client, query))
    assert all(abs(many - few) < 40 for few, many in zip(costs[:2], costs[2:], strict=True))


@pytest.mark.parametrize("key", ["", "&key=a"])
async def test_pages_show_all_that_stays_whatever_ends(make_client, monkeypatch, key):
    monkeypatch.setattr(listing, "BUSY", 50)
    client = make_client(max_pending=10_000)
    dice = random.Random(5)
    fill(client, 2 * BLOCK, "a", "b")
    stays = [operation.id for operation in client.service.listed(None)]
    seen, cursor = [], "0"
    while cursor is not None:
        ids, cursor = await page(client, f"limit=100{key}&cursor={cursor}")
        seen += ids
        # Behind the cursor, ahead of it, and at it.
        for ended in {ids[-1], *dice.sample(stays, 40)}:
            client.post(EndOperation(id=ended, how="cancelled"))
        stays = [name for name in stays if client.service.find(name).outcome is None]
        fill(client, 3, "a")
    assert set(stays) <= set(seen)
    assert len(seen) == len(set(seen))


async def test_the_orders_of_busy_keys_are_bounded(make_client, monkeypatch):
    monkeypatch.setattr(listing, "BUSY", 2)
    monkeypatch.setattr(listing, "MAX_BUSY", 3)
    client = make_client()
    for number in range(6):
        fill(client, 2, f"k{number}", "a")
        assert len((await page(client, f"key=k{number}"))[0]) == 2
    assert len((await page(client, "key=a"))[0]) == 12
    assert len(client.service._listing._order_of) == 3
    assert len((await page(client, "key=k0"))[0]) == 2


async def test_an_order_is_that_of_a_sorted_list(client):
    dice = random.Random(7)
    fill(client, 5 * BLOCK, "a")
    operations = list(client.service.listed(None))
    order, left = Order(operations[:BLOCK]), operations[:BLOCK]
    for operation in operations[BLOCK:]:
        order.append(operation)
        left.append(operation)
        while len(left) > 1 and dice.random() < 0.48:
            order.remove(left.pop(dice.randrange(len(left))))
        after = dice.randrange(5 * BLOCK)
        assert next(order.after(after), None) == next((each for each in left if each.position > after), None)
    assert list(order.after(0)) == left
