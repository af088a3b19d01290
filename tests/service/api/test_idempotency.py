"""``Idempotency-Key``: one key stands for one request, however its JSON is written; what cannot keep one says so."""

import json

import pytest

from purgatory_async.service.api.routes import ROUTES
from tests.service.conftest import JSON
from tests.service.every_request import CHANGES, REPEATABLE, SAMPLES, furnish

pytestmark = pytest.mark.asyncio

ONCE = ("idempotency-key", "k")
ITEMS = "POST /v1/queues/{queue}/items"
KEPT = [(row, SAMPLES[row].body) for row in REPEATABLE] + [(ITEMS, {"items": [{"item": 1}, {"item": 2}]})]


def request_of(row, start="a-", query=""):
    method, path = row.split()
    return method, SAMPLES[row].target(path, start) + query


def state_of(client):
    fold, queues = client.service.fold, client.service.fold.queues
    return fold.shared.totals.signals, queues.kept, len(queues.leases), client.service.pending


async def ask(client, row, body, start="a-", query=""):
    """Send a request with the Idempotency-Key; the body is JSON, or its text."""
    content = body if isinstance(body, bytes) else json.dumps(body).replace("{}key", "a-key").encode()
    return await client.request(*request_of(row, start, query), content, [JSON, ONCE])


@pytest.mark.parametrize(("row", "body"), KEPT)
async def test_a_repeated_request_is_answered_as_the_first(client, row, body):
    furnish(client, "a-")
    first = await ask(client, row, body)
    after = state_of(client)
    again = await ask(client, row, body)
    assert (again.status, again.json) == (first.status, first.json)
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert state_of(client) == after


@pytest.mark.parametrize(("row", "body"), KEPT)
async def test_the_key_of_any_other_request_is_a_mismatch(client, row, body):
    for start in ("a-", "b-"):
        furnish(client, start)
    newest = client.service.fold.signals.latest("b-key").index
    assert (await ask(client, row, body)).status < 300
    others = [(other, given, "a-", "") for other, given in KEPT if given != body]
    others += [(row, body, "b-", "")] if "{" in row else []
    others += [(row, {**body, "delay": 1}, "a-", "")] if body == {"item": 1} else []
    for other in others:
        reply = await ask(client, *other)
        assert (reply.status, reply.slug) == (422, "idempotency-mismatch"), other
    assert client.service.fold.signals.latest("b-key").index == newest
    assert client.service.fold.queues.by_name["b-queue"].count == 2


@pytest.mark.parametrize(
    ("row", "first", "again"),
    [
        ("POST /v1/signals", b'{"signals":[{"key":"a","value":1}]}', b'{ "signals": [{"value":1, "key":"\\u0061"}] }'),
        ("POST /v1/operations", b'{"keys":["a"],"data":{"b":1,"c":2}}', b'{"data":{"c":2,"b":1},"keys":["a"]}'),
        (ITEMS, b'{"item":[1,1.0,-0.0,1e2,0.1,1e300]}', b'{"item":[1.0,1e0,0,100,0.10,10e299]}'),
        (ITEMS, b'{"item":0.1}', b'{"item":0.1' + b"0" * 60 + b"}"),
        (ITEMS, b'{"item":9223372036854775807}', b'{"item":9223372036854775807 }'),
        ("POST /v1/keys/{key}/signal", b"", b"{}"),
    ],
)  # fmt: skip
async def test_bodies_that_are_read_alike_are_one(client, row, first, again):
    assert (await ask(client, row, first)).status < 300
    assert (await ask(client, row, again)).headers["idempotency-replayed"] == "true"


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (b"[1,2]", b"[2,1]"),
        (b"1", b'"1"'),
        (b"9223372036854775807", b"9223372036854775806"),
        (b"9007199254740993", b"9007199254740992.0"),
        (b'{"a":null}', b"{}"),
        (b"false", b"0"),
    ],
)
async def test_bodies_that_are_read_otherwise_are_not(client, first, again):
    await ask(client, ITEMS, b'{"item":%b}' % first)
    assert (await ask(client, ITEMS, b'{"item":%b}' % again)).slug == "idempotency-mismatch"


@pytest.mark.parametrize(
    ("row", "first", "again"),
    [
        ("POST /v1/operations", {"keys": ["a"]}, {"keys": ["a", "a"], "need": "any", "timeout": None}),
        ("POST /v1/operations", {"keys": ["a"], "timeout": 60}, {"keys": ["a"], "timeout": "1m", "deadline": None}),
        ("POST /v1/operations", {"id": "a", "since": 0}, {"id": "a", "keys": ["a"], "since": "now"}),
        ("POST /v1/keys/{key}/signal", {}, {"amount": 1}),
        (ITEMS, {"item": 1}, {"item": 1.0, "delay": 0}),
    ],
)  # fmt: skip
async def test_defaults_are_filled_in_before_bodies_are_compared(client, row, first, again):
    assert (await ask(client, row, first)).status < 300
    assert (await ask(client, row, again)).headers["idempotency-replayed"] == "true"


@pytest.mark.parametrize(
    ("first", "again"),
    [
        ({"keys": ["a", "b"]}, {"keys": ["b", "a"]}),
        ({"id": "a"}, {"id": "b", "keys": ["a"]}),
        ({"keys": ["a"], "keep": "1m"}, {"keys": ["a"], "keep": "2m"}),
        ({"keys": ["a"], "data": None}, {"keys": ["a"]}),
    ],
)
async def test_another_submission_is_no_repetition(client, first, again):
    assert (await ask(client, "POST /v1/operations", first)).status < 300
    assert (await ask(client, "POST /v1/operations", again)).slug == "idempotency-mismatch"


async def test_how_long_to_wait_is_of_the_moment(client):
    for query in ("?wait=0", "?full=1", "?wait=0&full=1"):
        reply = await ask(client, "POST /v1/operations", {"keys": ["a"]}, query=query)
    assert reply.headers["idempotency-replayed"] == "true"


async def test_paths_and_queries_are_compared_decoded(client):
    for target in ("/v1/keys/%61b/signal", "/v1/keys/a%62/signal"):
        reply = await client.request("POST", target, {}, [ONCE])
    assert reply.headers["idempotency-replayed"] == "true"
    for query in ("?wait=0&full=0", "?full=0&wait=%30"):
        reply = await client.request(
            "POST", "/v1/operations" + query, {"keys": ["a"]}, [("idempotency-key", "q")]
        )
    assert reply.headers["idempotency-replayed"] == "true"


@pytest.mark.parametrize("row", [row for row in CHANGES if row not in REPEATABLE])
async def test_what_keeps_no_key_happens_once_or_refuses_it(client, row):
    furnish(client, "a-")
    method, target = request_of(row)
    body = json.dumps(SAMPLES[row].content("a-")).encode()
    before = state_of(client)
    first = await client.request(method, target, body, [JSON, ONCE])
    if ROUTES[row.split()[1]][method].adds_up:
        assert (first.status, first.slug, state_of(client)) == (400, "bad-header", before)
        return
    once = state_of(client)
    await client.request(method, target, body, [JSON, ONCE])
    assert (first.status, state_of(client)) == (SAMPLES[row].status, once)


async def test_reads_do_not_care_for_a_key(client):
    for target in ("/v1/keys/a", "/healthz", "/v1/wait?key=a"):
        assert (await client.request("GET", target, headers=[ONCE])).status < 300
