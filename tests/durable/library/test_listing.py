"""Lists: by state, key and beginning of the id, over any number of pages, and as of their reading."""

import pytest

from tests.durable.library.calls import every, refused

pytestmark = pytest.mark.asyncio

MORE = 1_001  # than a page has


async def ids(verbs, *arguments, **options):
    return [each.id for each in await every(verbs.operations(*arguments, **options))]


@pytest.fixture
def ends():
    """How operations come to each of their ends."""
    return {
        "completed": lambda verbs, name: verbs.complete(name),
        "failed": lambda verbs, name: verbs.fail(name, "why"),
        "cancelled": lambda verbs, name: verbs.cancel(name),
        "expired": lambda verbs, name: verbs.reschedule(name, timeout=0),
    }


async def test_operations_are_listed_by_state_as_they_were_submitted(verbs, ends):
    names = ["z-pending", *(f"y-{state}" for state in ends)]
    for name in names:
        await verbs.submit(["k"], operation_id=name)
    for state, end in reversed(ends.items()):
        await end(verbs, f"y-{state}")
    assert await ids(verbs) == await ids(verbs, state="pending") == ["z-pending"]
    assert await ids(verbs, state="ended") == names[1:]
    assert await ids(verbs, state="all") == names
    for state in ends:
        [found] = await every(verbs.operations(state=state))
        assert (found.id, found.state) == (f"y-{state}", state)


async def test_operations_are_listed_by_key_and_beginning(verbs):
    for name, keys in (("a-1", ["k"]), ("a-2", ["m"]), ("b-1", ["k", "m"])):
        await verbs.submit(keys, operation_id=name)
    await verbs.complete("a-1")
    assert await ids(verbs, "k") == ["b-1"]
    assert await ids(verbs, key="k", state="all") == ["a-1", "b-1"]
    assert await ids(verbs, id_prefix="a-") == ["a-2"]
    assert await ids(verbs, "m", id_prefix="a-", state="all") == ["a-2"]
    assert await ids(verbs, id_prefix="", state="all") == ["a-1", "a-2", "b-1"]
    [found] = await every(verbs.operations(state="ended", id_prefix="a"))
    assert found.id == "a-1"
    assert await ids(verbs, "none") == await ids(verbs, id_prefix="none") == []


async def test_a_listed_operation_is_shown_whole(verbs):
    made = await verbs.submit(["k"], operation_id="o", data={"n": 1}, need={"amount": 3}, keep=60)
    [listed] = await every(verbs.operations())
    assert {**listed.document, "elapsed": 0} == {**made.document, "elapsed": 0}


async def test_a_list_may_be_longer_than_a_page(verbs):
    for number in range(MORE):
        await verbs.submit(["k"], operation_id=f"o{number}")
    await verbs.submit(["other"], operation_id="other")
    assert await ids(verbs, "k") == [f"o{number}" for number in range(MORE)]
    assert len(await ids(verbs, state="all")) == MORE + 1


async def test_items_leases_and_queues_may_be_more_than_a_page(verbs):
    for start in range(0, MORE, 100):
        await verbs.put_batch("q", [{"item": number} for number in range(start, min(start + 100, MORE))])
    assert [each.item for each in await every(verbs.items("q"))] == list(range(MORE))
    for _ in range(0, MORE, 100):
        await verbs.take_batch("q", 100)
    assert len({each.item_id for each in await every(verbs.leases("q"))}) == MORE


async def test_what_ends_meanwhile_is_listed_once_or_not(verbs):
    for name in "abc":
        await verbs.submit(["k"], operation_id=name)
    listed = verbs.operations(state="all")
    found = [await anext(listed)]
    await verbs.complete("a")
    await verbs.cancel("c")
    found += [each async for each in listed]
    assert [each.id for each in found] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("arguments", "status", "slug"),
    [
        ({"state": "gone"}, 400, "bad-parameter"),
        ({"state": ""}, 400, "bad-parameter"),
        ({"id_prefix": "a c"}, 400, "bad-parameter"),
        ({"key": ""}, 422, "bad-key"),
        ({"key": "x" * 513}, 422, "bad-key"),
    ],
)
async def test_a_list_of_what_cannot_be_is_refused(verbs, arguments, status, slug):
    await refused(every(verbs.operations(**arguments)), status, slug)


async def test_lists_of_queues_that_cannot_be_are_refused(verbs):
    for listed in (verbs.items(""), verbs.leases("."), verbs.queues("\x00")):
        await refused(every(listed), 422, "bad-key")
