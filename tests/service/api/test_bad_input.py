"""The bad-input table of the contract: each row answered as promised, and nothing left behind."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from purgatory_async.testing import settle

pytestmark = pytest.mark.asyncio

JSON = ("content-type", "application/json")
SUBMIT = "/v1/operations"
SIGNAL = "/v1/keys/a/signal"
COMPLETE = "/v1/operations/op/complete"
MEGABYTE = 1 << 20


def unchanged(client):
    """What the service holds; a refused request must not change it."""
    service = client.service
    operations = service.fold.operations
    known = (len(operations.by_id), len(operations.forgotten), len(operations.by_idem))
    return (service.pending, service.fold.signals.index, service.timer.pending, known)


async def refused(client, method, target, body=None, headers=()):
    """Send a request that must be refused, without any trace in the service."""
    before = unchanged(client)
    reply = await client.request(method, target, body, headers)
    assert unchanged(client) == before
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["cache-control"] == "no-store"
    return reply


MALFORMED = [
    pytest.param(b"", id="nothing where something is needed"),
    pytest.param(b"{", id="cut off"),
    pytest.param(b'{"keys": ["a"], "keys": ["b"]}', id="doubled member"),
    pytest.param(b'{"keys": ["a"], "data": NaN}', id="NaN"),
    pytest.param(b'{"keys": ["a"], "data": -Infinity}', id="Infinity"),
    pytest.param(b'{"keys": ["a"], "data": 1e999}', id="beyond a double"),
    pytest.param(b'{"keys": ["a"], "data": 9223372036854775808}', id="beyond 64 bits"),
    pytest.param(b'{"keys": ["a"], "data": %s}' % (b"9" * 5000), id="5 000 digits"),
    pytest.param(b'{"keys": ["a"], "data": %s%s}' % (b"[" * 32, b"]" * 32), id="33 levels"),
    pytest.param(b"[" * MEGABYTE, id="a megabyte of brackets"),
    pytest.param(b'\xef\xbb\xbf{"keys": ["a"]}', id="BOM"),
    pytest.param(b'{"keys": ["\xff"]}', id="not UTF-8"),
    pytest.param(b'{"keys": ["\\ud800"]}', id="lone surrogate"),
    pytest.param('{"keys": ["a"]}'.encode("utf-16"), id="UTF-16"),
]


@pytest.mark.parametrize("body", MALFORMED)
async def test_a_body_that_is_not_strict_json_is_malformed(client, body):
    reply = await refused(client, "POST", SUBMIT, body, [JSON])
    assert (reply.status, reply.slug) == (400, "malformed")


INVALID = [
    pytest.param(SUBMIT, [], "", id="not an object"),
    pytest.param("/v1/signals", {}, "/signals", id="a member is missing"),
    pytest.param(SUBMIT, {"keys": ["a"], "colour": 1}, "/colour", id="unknown member"),
    pytest.param(SUBMIT, {"keys": []}, "/keys", id="no keys"),
    pytest.param(SUBMIT, {"keys": "a"}, "/keys", id="keys of the wrong type"),
    pytest.param(SUBMIT, {"keys": ["a", 1]}, "/keys/1", id="a key of the wrong type"),
    pytest.param(SUBMIT, {"keys": ["a"], "id": "a/b"}, "/id", id="bad id"),
    pytest.param(SUBMIT, {"keys": ["a"], "id": ""}, "/id", id="empty id"),
    pytest.param(SUBMIT, {"keys": ["a"], "id": None}, "/id", id="id of null"),
    pytest.param(SUBMIT, {"keys": ["a"], "timeout": "soon"}, "/timeout", id="timeout of no grammar"),
    pytest.param(SUBMIT, {"keys": ["a"], "timeout": "5s\n"}, "/timeout", id="timeout with a newline"),
    pytest.param(SUBMIT, {"keys": ["a"], "timeout": -1}, "/timeout", id="negative timeout"),
    pytest.param(SUBMIT, {"keys": ["a"], "timeout": 1e10}, "/timeout", id="timeout above a hundred years"),
    pytest.param(SUBMIT, {"keys": ["a"], "timeout": True}, "/timeout", id="timeout of a boolean"),
    pytest.param(SUBMIT, {"keys": ["a"], "need": "most"}, "/need", id="unknown need"),
    pytest.param(SUBMIT, {"keys": ["a"], "need": {}}, "/need", id="need of nothing"),
    pytest.param(SUBMIT, {"keys": ["a"], "need": {"amount": 1, "voters": 1}}, "/need", id="need of both"),
    pytest.param(SUBMIT, {"keys": ["a"], "need": {"amount": 0}}, "/need/amount", id="amount of zero"),
    pytest.param(
        SUBMIT, {"keys": ["a"], "need": {"voters": 10_001}}, "/need/voters", id="voters above 10000"
    ),
    pytest.param(SUBMIT, {"keys": ["a"], "need": {"amount": 1.5}}, "/need/amount", id="amount of a fraction"),
    pytest.param(SUBMIT, {"keys": ["a"], "need": {"amount": True}}, "/need/amount", id="amount of a boolean"),
    pytest.param(SIGNAL, {"amount": 0}, "/amount", id="signal of nothing"),
    pytest.param(SIGNAL, {"amount": 2**53}, "/amount", id="signal above 2^53-1"),
    pytest.param(SIGNAL, {"voter": 7}, "/voter", id="voter of the wrong type"),
    pytest.param(SIGNAL, {"voter": "v" * 513}, "/voter", id="voter too long"),
    pytest.param(SIGNAL, {"votes": 1}, "/votes", id="signal with an unknown member"),
    pytest.param(COMPLETE, {"outcome": 1}, "/outcome", id="completion with an unknown member"),
]


@pytest.mark.parametrize(("target", "body", "pointer"), INVALID)
async def test_a_body_that_breaks_the_contract_is_invalid_at_a_pointer(client, target, body, pointer):
    await client.submit("z", id="op")
    reply = await refused(client, "POST", target, json.dumps(body).encode(), [JSON])
    assert (reply.status, reply.slug) == (422, "invalid")
    [fault] = reply.json["errors"]
    assert fault["pointer"] == pointer
    assert fault["detail"]


BAD_KEYS = [
    pytest.param("", id="empty"),
    pytest.param(".", id="dot"),
    pytest.param("%2e%2E", id="dots behind escapes"),
    pytest.param("k" * 513, id="513 bytes"),
    pytest.param("a%0Ab", id="newline"),
    pytest.param("%00", id="NUL"),
    pytest.param("%C2%85", id="C1 control"),
    pytest.param("%ff", id="not UTF-8"),
    pytest.param("%zz", id="bad escape"),
    pytest.param("%", id="cut escape"),
    pytest.param("%ed%a0%80", id="surrogate"),
]


@pytest.mark.parametrize("key", BAD_KEYS)
@pytest.mark.parametrize(
    ("method", "target"),
    [
        pytest.param("POST", "/v1/keys/{}/signal", id="signal"),
        pytest.param("GET", "/v1/keys/{}", id="read"),
        pytest.param("GET", "/v1/wait?key={}", id="wait"),
        pytest.param("GET", "/v1/operations?key={}", id="list"),
    ],
)
async def test_a_bad_key_is_refused_wherever_it_stands(client, method, target, key):
    reply = await refused(client, method, target.format(key))
    assert (reply.status, reply.slug) == (422, "bad-key")


@pytest.mark.parametrize(
    "key", ["", "..", "k" * 513, "a\nb", "\x7f"], ids=["empty", "dots", "long", "newline", "DEL"]
)
async def test_a_bad_key_in_a_body_is_refused(client, key):
    reply = await refused(client, "POST", SUBMIT, {"keys": ["fine", key]})
    assert (reply.status, reply.slug) == (422, "bad-key")


async def test_more_than_64_distinct_keys_are_refused(client):
    keys = [f"k{number}" for number in range(65)]
    query = "&".join(f"key={key}" for key in keys)
    for reply in (
        await refused(client, "POST", SUBMIT, {"keys": keys}),
        await refused(client, "GET", f"/v1/wait?{query}"),
    ):
        assert (reply.status, reply.slug) == (422, "too-many-keys")
    await client.submit(*keys[:64], *keys[:64])


async def test_a_one_shot_wait_needs_a_key(client):
    reply = await refused(client, "GET", "/v1/wait?wait=5")
    assert (reply.status, reply.slug) == (422, "invalid")


BAD_PARAMETERS = [
    pytest.param("GET", "/v1/operations/op?wait=-1", "wait", id="negative wait"),
    pytest.param("GET", "/v1/operations/op?wait=1&wait=2", "wait", id="repeated wait"),
    pytest.param("GET", "/v1/operations/op?index=1", "index", id="unknown here"),
    pytest.param("POST", "/v1/operations?wait=1_000", "wait", id="underscore"),
    pytest.param("POST", "/v1/keys/a/signal?wait=1", "wait", id="a wait where nothing waits"),
    pytest.param("POST", "/v1/operations/op/complete?x", "x", id="a name without a value"),
    pytest.param("DELETE", "/v1/operations/op?force=1", "force", id="delete"),
    pytest.param("GET", "/v1/operations?limit=0", "limit", id="limit of zero"),
    pytest.param("GET", "/v1/operations?limit=1001", "limit", id="limit above 1000"),
    pytest.param("GET", "/v1/operations?cursor=op", "cursor", id="cursor that is none"),
    pytest.param("GET", "/v1/operations?key=a&key=b", "key", id="key repeated where one is meant"),
    pytest.param("GET", "/v1/keys/a?index=-1", "index", id="negative index"),
    pytest.param("GET", "/v1/keys/a?index=1&wait=1%0A", "wait", id="trailing newline"),
    pytest.param("GET", "/v1/wait?key=a&need=some", "need", id="unknown need"),
    pytest.param("GET", "/v1/wait?key=a&need=voters:10001", "need", id="need of too many voters"),
    pytest.param("GET", "/v1/wait?key=a&need=any&need=all", "need", id="repeated need"),
    pytest.param("GET", "/v1/wait?key=a&wait=%ff", "wait", id="not UTF-8"),
    pytest.param("GET", "/healthz?verbose=1", "verbose", id="health"),
    pytest.param("GET", "/metrics?name=x", "name", id="metrics"),
]


@pytest.mark.parametrize(("method", "target", "parameter"), BAD_PARAMETERS)
async def test_a_bad_parameter_is_named(client, method, target, parameter):
    await client.submit("z", id="op")
    reply = await refused(client, method, target)
    assert (reply.status, reply.slug, reply.json["parameter"]) == (400, "bad-parameter", parameter)
    assert {"value", "grammar"} <= reply.json.keys()


@pytest.mark.parametrize("name", ["x", ".[0]", "~1/", "unknown field `"])
async def test_a_long_name_is_cut_in_the_answer(client, name):
    # The last one took minutes at a megabyte, and grows with its square.
    repeats = 2000 if name.endswith("`") else 250_000
    body = b'{"' + name.encode() * repeats + b' - at `$":0}'
    reply = await refused(client, "POST", SIGNAL, body, [JSON])
    assert reply.slug == "invalid"
    assert reply.json["errors"][0]["pointer"].startswith("/" + name[:1].replace("~", "~0"))
    assert len(reply.body) < 8192


async def test_a_body_of_a_megabyte_is_read_and_one_byte_more_refused(client):
    frame = b'{"value": ""}'
    largest = b'{"value": "' + b"x" * (MEGABYTE - len(frame)) + b'"}'
    assert (await client.request("POST", SIGNAL, largest, [JSON])).status == 200
    reply = await refused(client, "POST", SIGNAL, largest + b" ", [JSON])
    assert (reply.status, reply.slug, reply.json["limit"]) == (413, "too-large", MEGABYTE)
    assert reply.headers["connection"] == "close"


async def test_a_smaller_limit_on_bodies_counts(make_client):
    client = make_client(max_body="64B")
    order = b'{"keys": ["a"], "data": "%b"}' % (b"x" * 37)
    assert (await client.request("POST", "/v1/operations", order, [JSON])).status == 202
    longer = order.replace(b"xx", b"xxx", 1)
    reply = await client.request("POST", "/v1/operations", longer, [JSON])
    assert (len(order), reply.slug, reply.json["limit"]) == (64, "too-large", 64)


async def test_reading_stops_where_a_body_becomes_too_large(client):
    reply = await refused(client, "POST", SIGNAL, [b"x" * (MEGABYTE // 2)] * 10, [JSON])
    assert (reply.slug, reply.unread) == ("too-large", 7)


@pytest.mark.parametrize("length", [str(MEGABYTE + 1), "9" * 18])
async def test_a_body_that_says_it_is_too_large_is_not_read_at_all(client, length):
    reply = await refused(client, "POST", SIGNAL, [b"x"], [JSON, ("content-length", length)])
    assert (reply.slug, reply.unread) == ("too-large", 1)


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([], id="no type"),
        pytest.param([("content-type", "text/plain")], id="another type"),
        pytest.param([("content-type", "application/x-www-form-urlencoded")], id="a form"),
        pytest.param([("content-type", "application/json; charset=latin-1")], id="another charset"),
        pytest.param([JSON, JSON], id="two types"),
        pytest.param([JSON, ("content-encoding", "gzip")], id="an encoding"),
    ],
)
async def test_a_body_of_another_type_or_encoding_is_unsupported(client, headers):
    reply = await refused(client, "POST", SIGNAL, b"{}", headers)
    assert (reply.status, reply.slug) == (415, "unsupported-media-type")


@pytest.mark.parametrize(
    "media_type", ["application/json", 'Application/JSON; charset="UTF-8"', "application/json;charset=utf-8"]
)
async def test_json_in_utf_8_is_supported_however_it_is_spelled(client, media_type):
    assert (await client.request("POST", SIGNAL, b"{}", [("content-type", media_type)])).status == 200


@pytest.mark.parametrize(
    ("target", "accept", "status"),
    [
        pytest.param("/v1/operations", "text/html", 406, id="html"),
        pytest.param("/v1/operations", "application/json;q=0", 406, id="refused by weight"),
        pytest.param("/v1/operations", "*/*, application/json;q=0.0", 406, id="the specific range decides"),
        pytest.param("/v1/operations", "text/html, application/*;q=0.1", 200, id="a wide range"),
        pytest.param("/v1/operations", "*/*", 200, id="anything"),
        pytest.param("/v1/operations", "", 200, id="empty"),
        pytest.param("/metrics", "application/json", 406, id="metrics as JSON"),
        pytest.param(
            "/metrics", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5", 200, id="scraper"
        ),
    ],
)
async def test_an_unknown_media_type_is_not_acceptable(client, target, accept, status):
    reply = await client.request("GET", target, headers=[("accept", accept)])
    assert reply.status == status
    assert status == 200 or reply.slug == "not-acceptable"


@pytest.mark.parametrize(
    "target",
    [
        "/index.html",
        "/v1",
        "/v2/operations",
        "/v1/operations/a/b/c",
        "//v1/operations",
        "/v1/%6fperations",
        "/V1/wait",
    ],
)
async def test_another_path_is_not_found(client, target):
    reply = await refused(client, "GET", target)
    assert (reply.status, reply.slug) == (404, "not-found")


@pytest.mark.parametrize(
    ("method", "target", "allow"),
    [
        ("PUT", "/v1/operations", "GET, HEAD, POST"),
        ("POST", "/v1/operations/op", "DELETE, GET, HEAD, PUT"),
        ("GET", "/v1/operations/op/complete", "POST"),
        ("GET", "/v1/keys/a/signal", "POST"),
        ("HEAD", "/v1/keys/a/signal", "POST"),
        ("OPTIONS", "/v1/keys/a", "GET, HEAD"),
        ("TRACE", "/healthz", "GET, HEAD"),
    ],
)
async def test_a_wrong_method_is_refused_with_the_allowed_ones(client, method, target, allow):
    reply = await refused(client, method, target)
    assert (reply.status, reply.headers["allow"]) == (405, allow)
    assert method == "HEAD" or reply.slug == "method-not-allowed"


@pytest.mark.parametrize("name", ["op", "%ff", "%zz", "a%2Fb", "x" * 5000])
@pytest.mark.parametrize(("method", "suffix"), [("GET", ""), ("DELETE", ""), ("POST", "/complete")])
async def test_an_unsubmitted_id_is_unknown(client, method, suffix, name):
    reply = await refused(client, method, f"/v1/operations/{name}{suffix}")
    assert (reply.status, reply.slug) == (404, "unknown-operation")


@pytest.mark.parametrize("key", ["", "k" * 256, "caf\u00e9"], ids=["empty", "long", "not ASCII"])
async def test_an_idempotency_key_that_is_none_is_refused(client, key):
    reply = await refused(client, "POST", SUBMIT, {"keys": ["a"]}, [("idempotency-key", key)])
    assert (reply.status, reply.slug) == (400, "bad-header")


async def test_a_client_leaving_during_its_body_leaves_nothing(client):
    before = unchanged(client)
    exchange = client.start("POST", SUBMIT, [b'{"keys"'], [JSON], more=True)
    exchange.hang_up()
    await settle()
    assert exchange.over.done()
    assert not exchange.answered
    assert unchanged(client) == before


@given(
    method=st.sampled_from(["GET", "POST", "DELETE"]),
    path=st.sampled_from(["/v1/operations", "/v1/operations/op", COMPLETE, SIGNAL, "/v1/keys/a", "/v1/wait"]),
    query=st.text(st.characters(codec="latin-1", exclude_characters="#"), max_size=12)
    | st.sampled_from(["wait=0", "key=a", "need=all&key=b", "limit=9", "index=3", "wait=0&key=%61"]),
    body=st.binary(max_size=20)
    | st.sampled_from(
        [b"{}", b'{"keys": ["a"]}', b'{"keys": ["a"], "need": {"amount": 3}}', b'{"amount": 2}']
    ),
    headers=st.lists(
        st.sampled_from(
            [JSON, ("prefer", "wait=0"), ("prefer", ",;=,"), ("accept", "x/y"), ("idempotency-key", "k")]
        ),
        max_size=3,
    ),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=300)
async def test_no_request_makes_the_service_fail(client, *, method, path, query, body, headers):
    reply = await client.request(method, f"{path}?{query}", body, headers)
    assert reply.status < 500
