"""What is kept is bounded in bytes: the oldest ended operation is forgotten early rather than a new one refused."""

import pytest

pytestmark = pytest.mark.asyncio

KIB = 1024


@pytest.fixture
def client(make_client):
    return make_client(retention="60s", max_pending=1000, max_bytes="100KiB")


async def state_of(client, known_as):
    reply = await client.request("GET", f"/v1/operations/{known_as}")
    return reply.json["state"] if reply.status == 200 else reply.slug


async def end(client, known_as, **order):
    await client.submit("a", id=known_as, **order)
    await client.request("DELETE", f"/v1/operations/{known_as}")


def used(client):
    return client.service.fold.shared.kept.used


def pinned(client):
    return client.service.fold.shared.kept.pinned


async def test_the_oldest_are_forgotten_when_full_with_a_reason(client):
    for number in range(12):
        await end(client, f"op{number}", data="x" * 10 * KIB)
    states = [await state_of(client, f"op{number}") for number in range(12)]
    assert states == ["forgotten"] * 3 + ["cancelled"] * 9
    reply = await client.request("GET", "/v1/operations/op0")
    assert reply.status == 410
    assert reply.json["detail"] == (
        "the operation 'op0' ended and is forgotten: ended operations are kept for 60 s, "
        "or less while what is kept exceeds 102400 bytes; with keep, for that time or until a forget"
    )


async def test_early_forgotten_ids_are_remembered_for_the_retention(client):
    for number in range(12):
        await end(client, f"op{number}", data="x" * 10 * KIB)
    await client.advance(60)
    assert await state_of(client, "op0") == "unknown-operation"
    assert await state_of(client, "op11") == "forgotten"
    await client.advance(60.001)
    assert client.service.timer.pending == 0
    assert await state_of(client, "op11") == "unknown-operation"
    assert used(client) == pinned(client) == 0


async def test_what_is_pending_is_never_forgotten_for_room(client):
    for number in range(9):
        await client.submit("a", id=f"op{number}", data="x" * 10 * KIB)
    reply = await client.request("POST", "/v1/operations", {"keys": ["a"], "data": "x" * 10 * KIB})
    assert (reply.status, reply.slug) == (503, "overloaded")
    assert [await state_of(client, f"op{number}") for number in range(9)] == ["pending"] * 9


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
    assert used(client) == (50 * KIB + 2) + 128 + 1 + 50 * (128 + 1)
    await client.advance(60.001)
    assert await state_of(client, "op0") == "forgotten"
    ids = sum(128 + len(f"op{number}") for number in range(50))
    assert used(client) == 50 * KIB + 2 + 128 + 1 + ids  # the key's newest signal
    await client.advance(600)
    assert await state_of(client, "op0") == "unknown-operation"
    assert used(client) == 0


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
