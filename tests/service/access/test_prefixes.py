"""What a token with prefixes may use, and what it sees."""

import pytest

from tests.service.held.event_reading import events_in

pytestmark = pytest.mark.asyncio

LINES = (
    "root admin name=root",
    "ann read,wait,signal name=ann prefix=a/ prefix=shared/",
    "bob read,wait,signal name=bob prefix=b/",
)
REQUESTS = [
    ("POST", "/v1/operations", {"keys": ["{}1", "{}2"]}, 202),
    ("GET", "/v1/operations?key={}1", None, 200),
    ("GET", "/v1/keys/{}1", None, 200),
    ("POST", "/v1/keys/{}1/signal", {}, 200),
    ("POST", "/v1/signals", {"signals": [{"key": "{}1"}, {"key": "{}2"}]}, 200),
    ("GET", "/v1/wait?key={}1", None, 204),
    ("GET", "/v1/wait?key={}1&prefix={}&since=0", None, 204),
    ("GET", "/v1/queues?prefix={}x", None, 200),
    ("GET", "/v1/queues/{}1", None, 404),
    ("GET", "/v1/queues/{}1/items", None, 200),
    ("POST", "/v1/queues/{}1/items", {"item": 1}, 201),
    ("POST", "/v1/queues/{}1/take", {}, 204),
    ("GET", "/v1/leases?queue={}1", None, 200),
]


@pytest.fixture
def shop(tenants):
    return tenants(*LINES)


def filled(value, prefix, escaped):
    if isinstance(value, str):
        return value.replace("{}", escaped if value.startswith("/v1") else prefix)
    if isinstance(value, list):
        return [filled(each, prefix, escaped) for each in value]
    if isinstance(value, dict):
        return {name: filled(each, prefix, escaped) for name, each in value.items()}
    return value


@pytest.mark.parametrize(("method", "target", "body", "status"), REQUESTS)
async def test_names_outside_the_prefixes_are_forbidden(shop, method, target, body, status):
    for prefix, expected in (("a/", status), ("shared/", status), ("b/", 403), ("a", 403), ("", 403)):
        if prefix:
            escaped = prefix.replace("/", "%2F")
        elif "{}&" in target or "{}x" in target:
            continue  # an empty prefix is no prefix
        else:
            escaped = prefix
        reply = await shop.ask("ann", method, filled(target, prefix, escaped), filled(body, prefix, escaped))
        assert reply.status == expected, (prefix, reply.body)
        if expected == 403:
            assert reply.slug == "forbidden"
            assert "begin with 'a/' or 'shared/', got" in reply.json["detail"]


async def test_one_key_outside_refuses_the_whole_batch(shop):
    body = {"signals": [{"key": "a/1"}, {"key": "b/1"}]}
    assert (await shop.ask("ann", "POST", "/v1/signals", body)).status == 403
    assert shop.service.fold.shared.totals.signals == 0
    assert (await shop.ask("ann", "POST", "/v1/operations", {"keys": ["a/1", "b/1"]})).status == 403
    assert shop.service.pending == 0


async def test_lists_show_only_what_lies_wholly_within(shop):
    for number, keys in enumerate((["a/1"], ["a/1", "b/1"], ["b/1"], ["shared/1", "a/2"])):
        await shop.submit("root", keys=keys, id=f"op{number}", ask={"title": "Go?"})
    found = {}
    for target in ("/v1/operations", "/v1/operations?key=a%2F1", "/ui/operations", "/ui/questions"):
        operations = (await shop.ask("ann", "GET", target)).json["operations"]
        found[target] = [operation["id"] for operation in operations]
    assert found == {
        "/v1/operations": ["op0", "op3"],
        "/v1/operations?key=a%2F1": ["op0"],
        "/ui/operations": ["op0", "op3"],
        "/ui/questions": ["op0", "op3"],
    }
    statuses = [(await shop.ask("ann", "GET", f"/v1/operations/op{n}")).status for n in range(4)]
    assert statuses == [200, 404, 404, 200]
    assert (await shop.ask("ann", "DELETE", "/v1/operations/op1")).status == 404


async def test_pages_go_on_behind_what_is_hidden(shop):
    for number in range(30):
        await shop.submit("root", keys=["a/1" if number % 10 == 9 else "b/1"], id=f"op{number}")
    seen, target = [], "/v1/operations?limit=1"
    while target:
        page = (await shop.ask("ann", "GET", target)).json
        seen += [operation["id"] for operation in page["operations"]]
        target = f"/v1/operations?limit=1&cursor={page['next']}" if "next" in page else None
    assert seen == ["op9", "op19", "op29"]


async def test_queues_and_leases_outside_are_not_listed(shop):
    for queue in ("a%2Fq", "b%2Fq"):
        await shop.lease("root", queue)
    assert [q["queue"] for q in (await shop.ask("ann", "GET", "/v1/queues")).json["queues"]] == ["a/q"]
    leases = (await shop.ask("ann", "GET", "/v1/leases")).json["leases"]
    assert [lease["queue"] for lease in leases] == ["a/q"]


async def test_a_lease_of_a_queue_outside_is_unknown(shop):
    lease = await shop.lease("root", "b%2Fq")
    reply = await shop.ask("ann", "POST", f"/v1/leases/{lease}/ack")
    assert (reply.status, reply.slug) == (404, "unknown-lease")
    own = await shop.lease("root", "a%2Fq")
    assert (await shop.ask("ann", "POST", f"/v1/leases/{own}/ack")).status == 403


async def test_events_outside_are_not_streamed(shop):
    stream = await shop.held("ann", "GET", "/v1/events")
    for keys in (["a/1"], ["a/1", "b/1"], ["b/1"]):
        await shop.submit("root", keys=keys)
    for key in ("b%2F1", "a%2F1"):
        await shop.ask("root", "POST", f"/v1/keys/{key}/signal")
    await shop.client.advance(1)
    found = [(event.name, event.data["keys"]) for event in events_in(stream.body)]
    assert found == [("submitted", ["a/1"]), ("ended", ["a/1"]), ("signalled", ["a/1"])]
    stream.hang_up()
    await shop.client.advance(1)


async def test_the_dashboards_feed_names_only_what_is_within(shop):
    for _ in range(30):
        await shop.submit("root", keys=["b/busy"])
    await shop.submit("root", keys=["a/quiet"], id="op")
    feed = (await shop.ask("ann", "GET", "/ui/feed")).json
    assert [operation["id"] for operation in feed["oldest_operations"]] == ["op"]
    assert feed["busiest_keys"] == [{"key": "a/quiet", "watchers": 1}]
    assert len((await shop.ask("root", "GET", "/ui/feed")).json["oldest_operations"]) == 20
