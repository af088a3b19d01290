"""What is counted, named and logged of a request, whatever its client sends."""

import asyncio
import json

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from purgatory_async.durable.documents.problems import Kind
from purgatory_async.service.contract.http_problems import HttpKind
from purgatory_async.testing import settle
from tests.service.wire import BODY_TIME, request

pytestmark = pytest.mark.asyncio

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
LABELS = ("route", "method", "status", "slug", "limit")
# What a connection lets through, for llhttp knows it, and no endpoint has.
UNUSUAL = ("COPY", "LINK", "LOCK", "MERGE", "MOVE", "NOTIFY", "PROPFIND", "PURGE", "QUERY", "SEARCH", "TRACE")
MALFORMED = b"GET / HTTP/1.1\nHost: localhost\n\n"


def samples(client, name):
    """The values of a metric by the values of its labels, without those that are 0."""
    text = generate_latest(client.service.metrics.registry).decode()
    return {
        tuple(sample.labels[label] for label in LABELS if label in sample.labels): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and sample.value
    }


def requests(client):
    return samples(client, "purgatory_http_requests_total")


@pytest.fixture
def wired(make_client):
    """Makes a service behind connections."""
    return lambda **settings: make_client(**settings).server


def logged(client):
    """The records so far, which the end of the test then does not find."""
    records = [json.loads(line) for line in client.log.getvalue().splitlines()]
    client.log.seek(0)
    client.log.truncate()
    return records


async def test_a_request_counts_by_the_template_of_its_path(client):
    await client.signal("a")
    await client.signal("b%2Fc")
    await client.request("GET", "/v1/keys/a")
    await client.request("HEAD", "/v1/keys/a")
    assert requests(client) == {
        ("/v1/keys/{key}/signal", "POST", "200"): 2,
        ("/v1/keys/{key}", "GET", "200"): 1,
        ("/v1/keys/{key}", "HEAD", "200"): 1,
    }


async def test_no_client_can_add_labels(client):
    lines = []
    for number, method in enumerate(UNUSUAL):
        await client.request(method, f"/no/{number}")
        await client.request(method, f"/v1/keys/{number}")
        headers = [("x-request-id", f"{number}"), ("host", f"h{number}.localhost")]
        await client.request("GET", f"/v1/operations/op{number}?x{number}=1", headers=headers)
        lines.append(len(generate_latest(client.service.metrics.registry).splitlines()))
    assert requests(client) == {
        ("none", "other", "404"): len(UNUSUAL),
        ("/v1/keys/{key}", "other", "405"): len(UNUSUAL),
        ("/v1/operations/{id}", "GET", "421"): len(UNUSUAL),
    }
    assert len(set(lines)) == 1


async def test_a_duration_includes_the_time_that_a_request_is_held(client):
    held = await client.held("GET", "/v1/wait?key=a&wait=20s")
    await client.advance(12)
    await client.signal("a")
    assert held.status == 200
    place = "/v1/wait", "GET"
    assert samples(client, "purgatory_http_request_seconds_sum")[place] == 12
    assert samples(client, "purgatory_http_request_seconds_count")[place] == 1


async def test_held_requests_are_shown_by_route_until_they_end(client):
    await client.submit("k", id="op")
    held = [
        await client.held("GET", "/v1/wait?key=a&wait=30s"),
        await client.held("GET", "/v1/wait?key=a&wait=30s"),
        await client.held("GET", "/v1/wait?key=a&since=0&wait=30s"),
        await client.held("GET", "/v1/operations/op?wait=30s"),
        await client.held("POST", "/v1/queues/q/take?wait=30s", {}),
        await client.held("GET", "/v1/events"),
    ]
    assert samples(client, "purgatory_http_held") == {
        ("/v1/wait",): 3,
        ("/v1/operations/{id}",): 1,
        ("/v1/queues/{queue}/take",): 1,
        ("/v1/events",): 1,
    }
    held[1].hang_up()
    held[-1].hang_up()
    await client.signal("a")
    assert samples(client, "purgatory_http_held") == {
        ("/v1/operations/{id}",): 1,
        ("/v1/queues/{queue}/take",): 1,
    }
    await client.advance(30)
    assert samples(client, "purgatory_http_held") == {}
    assert ("/v1/wait", "GET", "200") in requests(client)


async def test_an_answer_that_nobody_got_is_not_counted(client):
    gone = await client.held("GET", "/v1/wait?key=a&wait=30s")
    gone.hang_up()
    await settle()
    assert requests(client) == {}


async def test_every_refusal_is_counted_by_its_slug(client):
    await client.request("GET", "/no")
    await client.request("POST", "/v1/operations", b"{")
    await client.request("POST", "/v1/operations", b"{")
    assert samples(client, "purgatory_refused_total") == {("not-found",): 1, ("unsupported-media-type",): 2}
    text = generate_latest(client.service.metrics.registry).decode()
    assert all(f'purgatory_refused_total{{slug="{kind.slug}"}}' in text for kind in (*Kind, *HttpKind))


async def test_a_refused_head_counts_without_a_route(wired):
    both = wired()
    await both.link().send(MALFORMED)
    assert requests(both.client) == {("none", "other", "400"): 1}
    assert samples(both.client, "purgatory_refused_total") == {("malformed-request",): 1}
    assert samples(both.client, "purgatory_http_request_seconds_count") == {}


async def test_a_late_body_counts_at_its_route(wired):
    both = wired()
    link = both.link()
    await link.send(request("/v1/operations", "POST", b"{}", X_Request_ID="late")[:-1])
    await both.after(BODY_TIME)
    assert link.refused == "too-slow"
    assert link.reply.headers["x-request-id"] == "late"
    assert requests(both.client) == {("/v1/operations", "POST", "408"): 1}


async def test_a_limit_is_shown_beside_what_is_used_of_it(make_client):
    client = make_client(max_pending=7)
    await client.submit("a")
    for path in ("wait?key=a&wait=30s", "keys/a?wait=30s", "events"):
        await client.held("GET", f"/v1/{path}")
    await client.held("POST", "/v1/queues/q/take?wait=30s", {})
    used, limit = ("purgatory_used", "purgatory_limit")
    assert samples(client, used) == {
        ("max_pending",): 1,
        ("max_bytes",): 128 + len("a") + len("q") + 2 * (128 + len("a")),  # and two events
        ("waits",): 1,
        ("held",): 2,
        ("streams",): 1,
        ("takers",): 1,
    }
    assert samples(client, limit) == {
        ("max_pending",): 7,
        ("max_bytes",): 256 << 20,
        ("max_unsent",): 64 << 20,
        ("waits",): 7,
        ("held",): 7,
        ("streams",): 256,
        ("takers",): 7,
    }


async def test_the_process_shows_what_it_takes_of_the_machine(client):
    for name in ("cpu_seconds_total", "resident_memory_bytes", "open_fds", "max_fds", "start_time_seconds"):
        assert samples(client, f"process_{name}")[()] > 0


# Ids.


@pytest.mark.parametrize("given", ["a", "A.b_c~d-0", "x" * 128])
async def test_a_valid_request_id_comes_back(wired, given):
    both = wired()
    link = both.link()
    await link.send(request("/healthz", X_Request_ID=given), request("/no", X_Request_ID=given))
    assert link.reply_headers("x-request-id") == [given, given]


@pytest.mark.parametrize("given", ["", "x" * 129, "a b", "a,b", "\xe9", "a\r\nX-Request-ID: b"])
async def test_any_other_request_id_is_replaced(wired, given):
    both = wired()
    link = both.link()
    raw = request("/healthz").replace(b"\r\n\r\n", f"\r\nX-Request-ID: {given}\r\n\r\n".encode("latin-1"))
    await link.send(raw, request("/healthz"))
    first, second = link.reply_headers("x-request-id")
    assert first not in {second, given, ""}


@pytest.mark.parametrize(
    "raw", [MALFORMED, b"GET / HTTP/1.1\r\n\r\n", b"GET /%b HTTP/1.1\r\n" % (b"a" * 9000)]
)
async def test_a_framing_refusal_has_a_request_id(wired, raw):
    both = wired()
    link = both.link()
    await link.send(raw)
    assert link.reply.status in {400, 414}
    assert link.reply.headers["x-request-id"]


@pytest.mark.parametrize("target", ["/v1/wait?key=a&wait=1s", "/ui/", "/v1/events"])
async def test_all_kinds_of_answers_have_the_request_id(client, target):
    exchange = client.start("GET", target, headers=[("x-request-id", "me")])
    await settle()
    await client.advance(2)
    assert exchange.headers["x-request-id"] == "me"
    exchange.hang_up()
    await settle()


async def test_the_log_of_a_failure_names_its_request(wired, monkeypatch):
    both = wired()

    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(both.service.state, "is_caught_up", fail)
    link = both.link()
    await link.send(request("/v1/keys/a", X_Request_ID="me"))
    assert link.reply.status == 500
    [record] = logged(both.client)
    assert (record["message"], record["request_id"]) == ("request failed", "me")


async def test_a_callback_of_a_request_is_not_named_after_it(client, monkeypatch):
    """Callbacks inherit the context: one that the timer shares may belong to any request."""
    is_caught_up = client.service.state.is_caught_up

    def later():
        asyncio.get_running_loop().call_soon(client.app._log.warning, "of the service")
        return is_caught_up()

    monkeypatch.setattr(client.service.state, "is_caught_up", later)
    held = await client.held("GET", "/v1/wait?key=a&wait=30s")
    [record] = logged(client)
    assert record["message"] == "of the service"
    assert "request_id" not in record
    held.hang_up()
    await settle()


# The access log.


async def test_without_the_setting_no_request_is_logged(client):
    await client.request("GET", "/healthz")
    assert logged(client) == []


async def test_an_access_record_has_the_documented_members(make_client):
    client = make_client(access_log=True)
    headers = [("x-request-id", "me"), ("traceparent", PARENT)]
    reply = await client.request("GET", "/v1/keys/a%0Ab?index=0", headers=headers)
    [record] = logged(client)
    assert {name: record[name] for name in record.keys() - {"level", "message", "timestamp"}} == {
        "event": "request",
        "request_id": "me",
        "method": "GET",
        "route": "/v1/keys/{key}",
        "path": "/v1/keys/a\nb",
        "status": 422,
        "seconds": 0,
        "sent": len(reply.body),
        "trace_id": TRACE,
    }


async def test_a_held_request_is_logged_when_it_is_answered(make_client):
    client = make_client(access_log=True)
    await client.held("GET", "/v1/wait?key=a&wait=5s")
    assert logged(client) == []
    await client.advance(5)
    [record] = logged(client)
    assert (record["status"], record["seconds"], record["sent"]) == (204, 5, 0)


async def test_tokens_and_queries_are_not_in_the_access_log(make_client, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.touch(mode=0o600)
    tokens.write_text("correct-horse-battery-staple admin\n")
    client = make_client(access_log=True, tokens=tokens)
    secret = [("authorization", "Bearer correct-horse-battery-staple")]
    await client.request("GET", "/v1/operations?key=private", headers=secret)
    text = client.log.getvalue()
    assert "horse" not in text
    assert "private" not in text
    assert [record["status"] for record in logged(client)] == [200]


async def test_the_access_log_names_the_owner_if_there_is_one(tenants):
    shop = tenants("ann read,wait name=ann rate=2/s", access_log=True)
    for status in (200, 200, 429):
        assert (await shop.ask("ann", "GET", "/v1/keys/k")).status == status
    await shop.client.request("GET", "/healthz")
    assert [record.get("owner") for record in logged(shop.client)] == ["ann", "ann", "ann", None]


async def test_a_refused_head_is_in_the_access_log(wired):
    both = wired(access_log=True)
    link = both.link()
    await link.send(MALFORMED)
    [record] = logged(both.client)
    assert record["request_id"] == link.reply.headers["x-request-id"]
    assert (record["route"], record["method"], record["status"]) == ("none", None, 400)


@pytest.mark.parametrize(
    "parent",
    [
        "",
        f"ff-{TRACE}-b7ad6b7169203331-01",
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-b7ad6b7169203331-01",
        f"{PARENT}-more",
    ],
)
async def test_no_trace_id_is_taken_from_an_invalid_parent(make_client, parent):
    client = make_client(access_log=True)
    await client.request("GET", "/healthz", headers=[("traceparent", parent)])
    [record] = logged(client)
    assert "trace_id" not in record


async def test_a_parent_of_a_later_version_may_have_more(make_client):
    client = make_client(access_log=True)
    later = [("traceparent", f"01{PARENT.removeprefix('00')}-more")]
    await client.request("GET", "/healthz", headers=later)
    [record] = logged(client)
    assert record["trace_id"] == TRACE
