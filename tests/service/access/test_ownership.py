"""Whose operations and leases are: what a token sees, what it changes, and what others' tokens are told."""

import hashlib

import pytest

pytestmark = pytest.mark.asyncio

LINES = ("root admin", "ann wait,signal", "bob wait,signal", "eve wait,read", "spy read")


@pytest.fixture
def shop(tenants):
    return tenants(*(f"{line} name={line.split()[0]}" for line in LINES))


@pytest.mark.parametrize(
    ("name", "status"), [("ann", 200), ("bob", 404), ("eve", 200), ("spy", 200), ("root", 200)]
)
async def test_an_operation_is_shown_to_its_owner_and_readers(shop, name, status):
    await shop.submit("ann", keys=["k"], id="op")
    reply = await shop.ask(name, "GET", "/v1/operations/op")
    assert reply.status == status
    if status == 200:
        assert reply.json["owner"] == "ann"
    else:
        unknown = await shop.ask(name, "GET", "/v1/operations/none")
        assert reply.json["detail"].replace("'op'", "'none'") == unknown.json["detail"]


@pytest.mark.parametrize(
    ("name", "status", "state"),
    [
        ("ann", 200, "cancelled"),
        ("bob", 404, "pending"),
        ("eve", 403, "pending"),
        ("spy", 403, "pending"),
        ("root", 200, "cancelled"),
    ],
)
async def test_only_the_owner_and_admin_cancel_an_operation(shop, name, status, state):
    await shop.submit("ann", keys=["k"], id="op")
    assert (await shop.ask(name, "DELETE", "/v1/operations/op")).status == status
    assert (await shop.ask("root", "GET", "/v1/operations/op")).json["state"] == state


async def test_only_admin_completes_not_even_the_owner(shop):
    await shop.submit("ann", keys=["k"], id="op")
    assert (await shop.ask("ann", "POST", "/v1/operations/op/complete")).status == 403
    assert (await shop.ask("root", "POST", "/v1/operations/op/complete")).status == 200


async def test_an_id_of_another_owner_is_taken_and_not_shown(shop):
    await shop.submit("ann", keys=["k"], id="op", data="secret")
    taken = await shop.ask("bob", "POST", "/v1/operations", {"keys": ["k"], "id": "op"})
    assert (taken.status, taken.slug) == (409, "duplicate-id")
    assert "operation" not in taken.json
    assert b"secret" not in taken.body


async def test_each_owner_has_idempotency_keys_of_its_own(shop):
    key = ("idempotency-key", "one")
    first = await shop.ask("ann", "POST", "/v1/operations", {"keys": ["a"]}, key)
    other = await shop.ask("bob", "POST", "/v1/operations", {"keys": ["b"]}, key)
    again = await shop.ask("ann", "POST", "/v1/operations", {"keys": ["a"]}, key)
    assert (first.status, other.status, again.status) == (202, 202, 202)
    assert again.json["id"] == first.json["id"] != other.json["id"]
    # A signal of another owner with that key is no repetition either, nor an item.
    for name in ("ann", "bob"):
        target = "/v1/queues/q/items"
        put = [await shop.ask(name, "POST", target, {"item": 1}, ("idempotency-key", "two")) for _ in "12"]
        assert put[0].json == put[1].json
    assert len(shop.service.fold.queues.by_name["q"].ready) == 2


async def test_a_forgotten_id_is_unknown_to_other_owners(shop):
    await shop.submit("ann", keys=["k"], id="op", timeout=1)
    await shop.client.advance(70)
    found = {
        name: (await shop.ask(name, "GET", "/v1/operations/op")).status for name in ("ann", "bob", "spy")
    }
    assert found == {"ann": 410, "bob": 404, "spy": 410}


ENDS = [("ack", None, 204), ("return", {}, 204), ("extend", {}, 200)]


@pytest.mark.parametrize(("verb", "body", "done"), ENDS)
async def test_a_lease_is_changed_by_its_owner_and_admin(shop, verb, body, done):
    for name, status in (("bob", 404), ("eve", 403), ("ann", done)):
        lease = await shop.lease("ann", f"of-{name}")
        target = f"/v1/leases/{lease}/{verb}"
        assert (await shop.ask(name, "POST", target, body)).status == status
        kept = shop.service.fold.queues.leases
        assert (lease in kept) == (status != 204)
        assert (await shop.ask("root", "POST", target, body)).status == (410 if status == 204 else done)


async def test_several_leases_are_refused_each_for_itself(shop):
    own, foreign = await shop.lease("eve", "q"), await shop.lease("ann", "q")
    reply = await shop.ask("eve", "POST", "/v1/leases/ack", {"leases": [foreign, own, "none"]})
    assert reply.json["done"] == 1
    assert [(error["pointer"], error["status"]) for error in reply.json["errors"]] == [
        ("/leases/0", 403),
        ("/leases/2", 404),
    ]


async def test_an_ended_lease_is_unknown_to_other_owners(shop):
    lease = await shop.lease("ann", "q")
    for name, status in (("ann", 204), ("ann", 410), ("bob", 404), ("root", 410)):
        assert (await shop.ask(name, "POST", f"/v1/leases/{lease}/ack")).status == status


async def test_leases_list_those_of_the_owner_or_all_for_readers(shop):
    await shop.lease("ann", "q")
    await shop.lease("bob", "q")
    found = {}
    for name in ("ann", "bob", "eve", "spy", "root"):
        leases = (await shop.ask(name, "GET", "/v1/leases")).json["leases"]
        found[name] = sorted(lease["owner"] for lease in leases)
    both = ["ann", "bob"]
    assert found == {"ann": ["ann"], "bob": ["bob"], "eve": both, "spy": both, "root": both}


async def test_without_a_name_an_owner_is_eight_hex_digits(tenants):
    shop = tenants("root admin", "ann wait")
    owner = (await shop.submit("ann", keys=["k"]))["owner"]
    assert owner == hashlib.sha256(b"ann-0123456789abcdef").hexdigest()[:8]


async def test_tokens_of_one_name_are_one_owner(tenants):
    shop = tenants("old wait name=shop", "new wait name=shop")
    await shop.submit("old", keys=["k"], id="op")
    assert (await shop.ask("new", "DELETE", "/v1/operations/op")).status == 200


async def test_without_tokens_an_operation_has_no_owner(client):
    reply = await client.request("POST", "/v1/operations", {"keys": ["k"], "id": "op"})
    assert "owner" not in reply.json
    assert (await client.request("DELETE", "/v1/operations/op")).status == 200
