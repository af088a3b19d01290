"""What ended operations keep is bounded in bytes: the oldest is forgotten early rather than anything refused."""

import random

import pytest

pytestmark = pytest.mark.asyncio

KIB = 1024


@pytest.fixture
def client(make_client):
    client = make_client(retention="60s", max_pending=1000)
    client.service.fold.shared.limits.max_bytes = 100 * KIB
    return client


async def state_of(client, known_as):
    reply = await client.request("GET", f"/v1/operations/{known_as}")
    return reply.json["state"] if reply.status == 200 else reply.slug


async def end(client, known_as, **order):
    await client.submit("a", id=known_as, **order)
    await client.request("DELETE", f"/v1/operations/{known_as}")


def weighed(client):
    """The bytes kept, computed from the operations: what they own, and each signal's value once."""
    ended = [operation for operation in client.service.fold.operations.by_id.values() if operation.outcome]
    own = sum(
        len(attached) for operation in ended for attached in (operation.data, operation.result) if attached
    )
    values = {view.index: view.value for operation in ended for view in operation.signals if view.value}
    return own + sum(map(len, values.values()))


async def test_the_oldest_are_forgotten_when_full_with_a_reason(client):
    for number in range(12):
        await end(client, f"op{number}", data="x" * 10 * KIB)
    states = [await state_of(client, f"op{number}") for number in range(12)]
    assert states == ["forgotten"] * 3 + ["cancelled"] * 9
    reply = await client.request("GET", "/v1/operations/op0")
    assert reply.status == 410
    assert reply.json["detail"] == (
        "the operation 'op0' ended and is forgotten: ended operations are kept for 60 s, "
        "or less while their attachments exceed 102400 bytes"
    )


async def test_early_forgotten_ids_are_remembered_for_the_retention(client):
    for number in range(12):
        await end(client, f"op{number}", data="x" * 10 * KIB)
    await client.advance(60)
    assert await state_of(client, "op0") == "unknown-operation"
    assert await state_of(client, "op11") == "forgotten"
    await client.advance(60.001)
    assert client.service.timer.pending == 0
    assert client.service.fold.operations._weight.total == 0


async def test_what_is_pending_counts_from_its_end(client):
    for number in range(12):
        await client.submit("a", id=f"op{number}", data="x" * 10 * KIB)
    assert client.service.fold.operations._weight.total == 0
    await client.signal("a")
    assert await state_of(client, "op11") == "completed"
    assert await state_of(client, "op0") == "forgotten"


async def test_one_too_large_alone_is_kept_for_its_own_client(client):
    await client.submit("a", id="op")
    await client.request("POST", "/v1/operations/op/complete", {"result": "x" * 200 * KIB})
    assert await state_of(client, "op") == "completed"
    await end(client, "next")
    assert await state_of(client, "op") == "forgotten"


async def test_a_result_counts_like_data(client):
    for number in range(3):
        await client.submit("a", id=f"op{number}")
        await client.request("POST", f"/v1/operations/op{number}/complete", {"result": "x" * 50 * KIB})
    assert [await state_of(client, f"op{number}") for number in range(3)] == [
        "forgotten",
        "forgotten",
        "completed",
    ]


async def test_a_value_that_many_operations_show_counts_once(client):
    for number in range(50):
        await client.submit("a", id=f"op{number}")
    await client.signal("a", value="x" * 50 * KIB)
    assert {await state_of(client, f"op{number}") for number in range(50)} == {"completed"}
    assert client.service.fold.operations._weight.total == 50 * KIB + 2
    await client.advance(60.001)
    assert await state_of(client, "op0") == "forgotten"
    assert client.service.fold.operations._weight.total == 0


async def test_an_id_and_an_idempotency_key_are_free_again(client):
    key, order = ("idempotency-key", "k"), {"keys": ["a"], "id": "op", "data": "x" * 60 * KIB}
    await client.request("POST", "/v1/operations", order, [key])
    await client.request("DELETE", "/v1/operations/op")
    await end(client, "other", data="x" * 60 * KIB)
    reply = await client.request("POST", "/v1/operations", order, [key])
    assert (reply.status, "idempotency-replayed" in reply.headers) == (202, False)


async def test_an_id_reused_after_early_forgetting_has_its_own_time(client):
    await end(client, "op", data="x" * 60 * KIB)
    await end(client, "other", data="x" * 60 * KIB)
    await client.advance(30)
    await end(client, "op")
    await client.advance(59)
    assert await state_of(client, "op") == "cancelled"
    await client.advance(1.001)
    assert await state_of(client, "op") == "forgotten"


async def test_the_size_sum_matches_the_operations_over_random_steps(client):
    dice = random.Random(11)
    for number in range(300):
        choice = dice.random()
        if choice < 0.5:
            attached = {"data": "x" * dice.randrange(5 * KIB)} if dice.random() < 0.6 else {}
            await client.submit(*dice.sample("abcde", 2), id=f"op{number}", need="all", **attached)
        elif choice < 0.8:
            await client.signal(dice.choice("abcde"), value="y" * dice.randrange(5 * KIB))
        elif choice < 0.9:
            await client.advance(dice.random() * 20)
        else:
            pending = list(client.service.listed(None))
            if pending:
                path = f"/v1/operations/{dice.choice(pending).id}/complete"
                await client.request("POST", path, {"result": "z" * dice.randrange(KIB)})
        assert client.service.fold.operations._weight.total == weighed(client) <= 100 * KIB + 10 * KIB
