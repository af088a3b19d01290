"""Several verbs on one state, as of several processes or owners: what one of them does wakes the others."""

import asyncio

import pytest
import pytest_asyncio

from tests.durable.library.calls import every, first, refused, start

pytestmark = pytest.mark.asyncio

ASK = {"title": "Deploy?", "choices": ["yes", "no"]}


@pytest_asyncio.fixture
async def other(carrier, verbs):
    """Other verbs on the same state; the same ones, where there can be no others."""
    return await carrier.open() if carrier.shared else verbs


@pytest_asyncio.fixture
async def owners(carrier):
    """Verbs of two owners on one state."""
    if not carrier.shared:
        pytest.skip("its state has one owner")
    return [await carrier.open(owner=name) for name in ("ann", "bob")]


async def test_an_answer_there_wakes_a_wait_here(verbs, other):
    asking = await start(verbs.ask("o", "Go?", timeout=60))
    await other.answer("o", "ok", by="ann")
    assert (await asking).by == "ann"
    following = [await start(each.follow("p")) for each in (verbs, other) if await each.attach("p")]
    await other.complete("p", 1)
    assert [(await each).result for each in following] == [1, 1]


async def test_a_signal_there_wakes_what_waits_here(verbs, other):
    waiting = await start(verbs.wait("k", timeout=60))
    watching = await start(verbs.watch("k", 0))
    reading = await start(first(verbs.signals("k", since=0), 1))
    await other.signal("k", "v")
    assert (await waiting).signals[0]["value"] == "v"
    assert (await watching).value == "v"
    assert [each.value for each in await reading] == ["v"]


async def test_an_item_put_there_is_taken_here(verbs, other):
    taking = await start(verbs.take("q", timeout=60))
    assert await other.put("q", 1) is True
    lease = await taking
    assert (await other.queue("q")).leased == 1
    assert await other.extend(lease, 60) == 60.0
    await other.acknowledge(lease.id)
    await refused(verbs.acknowledge(lease), 410, "lease-expired")


async def test_what_one_has_written_another_reads(verbs, other):
    for number in range(20):
        await verbs.submit(operation_id=f"o{number}")
        assert (await other.status(f"o{number}")).pending
        await other.complete(f"o{number}", number)
        assert (await verbs.status(f"o{number}")).result == number
    assert [each.id for each in await every(other.operations(state="ended"))] == [f"o{n}" for n in range(20)]


async def test_each_item_goes_to_one_of_several_takers(verbs, other):
    takers = [asyncio.create_task(each.take("q", timeout=60)) for each in (verbs, other) * 5]
    await verbs.put_batch("q", [{"item": number} for number in range(10)])
    assert sorted([(await each).item for each in takers]) == list(range(10))


async def test_two_askers_at_once_make_one_question(verbs, other):
    made = await asyncio.gather(*(each.attach("o", ask=ASK, announce="asked") for each in (verbs, other) * 5))
    assert sorted(each.attached for each in made) == [False] + [True] * 9
    assert len({each.submitted_at for each in made}) == 1
    assert (await verbs.queue("asked")).items == 1


async def test_an_owner_is_shown_and_answers_by_its_name(carrier):
    verbs = await carrier.open(owner="ann")
    assert (await verbs.submit(operation_id="o", ask=ASK)).owner == "ann"
    await verbs.put("q", 1)
    await verbs.take("q")
    assert [each.owner for each in await every(verbs.leases())] == ["ann"]
    assert (await verbs.answer("o", "yes")).by == "ann"
    await verbs.submit(operation_id="p")
    assert (await verbs.complete("p", by="ci")).by == "ci"


async def test_an_id_of_another_owner_is_taken(owners):
    ann, bob = owners
    await ann.attach("o")
    assert (await ann.attach("o")).attached
    for call in (bob.attach("o"), bob.submit(operation_id="o")):
        refusal = await refused(call, 409, "duplicate-id")
        assert not {"operation", "differs"} & refusal.document.keys()
    await ann.complete("o")
    await ann.forget("o")
    await refused(bob.attach("o"), 409, "duplicate-id")
    await refused(ann.attach("o"), 410, "forgotten")


async def test_owners_answer_and_see_what_others_have_made(owners):
    ann, bob = owners
    await ann.submit(operation_id="o", ask=ASK)
    assert (await bob.status("o")).owner == "ann"
    assert (await bob.answer("o", "yes")).by == "bob"
    assert [each.owner for each in await every(bob.operations(state="all"))] == ["ann"]
