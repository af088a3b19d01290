"""What becomes of requests under way when the tokens change."""

import pytest
from msgspec import Raw

from purgatory_async.durable.fold.entries import PutItem
from purgatory_async.service.settings.settings import SettingsError

pytestmark = pytest.mark.asyncio

ANN = "ann read,wait,signal name=ann"
BOB = "bob read,wait,signal name=bob"
HELD = [
    pytest.param("GET", "/v1/keys/a?wait=50", None, id="read"),
    pytest.param("GET", "/v1/wait?key=a&wait=50", None, id="wait"),
    pytest.param("GET", "/v1/wait?prefix=a&since=0&wait=50", None, id="since"),
    pytest.param("GET", "/v1/operations/op?wait=50", None, id="operation"),
    pytest.param("POST", "/v1/queues/a/take?wait=50", {}, id="take"),
]


@pytest.fixture
def shop(tenants):
    return tenants(ANN, BOB, max_wait=60)


async def everything_held(shop, name, method, target, body):
    if "/op?" in target:
        await shop.submit(name, keys=["a"], id="op")
    return await shop.held(name, method, target, body)


async def settled(shop):
    await shop.client.advance(0)


@pytest.mark.parametrize(("method", "target", "body"), HELD)
async def test_a_held_request_of_a_lost_token_is_unauthorized(shop, method, target, body):
    held = await everything_held(shop, "ann", method, target, body)
    other = await shop.held("bob", "GET", "/v1/keys/a?wait=50")
    shop.change(BOB)
    await settled(shop)
    assert (held.status, held.slug) == (401, "unauthorized")
    assert held.headers["www-authenticate"] == "Bearer"
    assert not other.answered
    assert (shop.service.waits.purgatory.pending, shop.service.fold.queues.takers) == (0, {})
    await shop.client.advance(60)


@pytest.mark.parametrize(("method", "target", "body"), HELD)
@pytest.mark.parametrize("line", ["ann signal name=ann", "ann read,wait,signal name=ann prefix=b"])
async def test_one_that_lost_scope_or_prefix_is_forbidden(shop, method, target, body, line):
    held = await everything_held(shop, "ann", method, target, body)
    shop.change(line, BOB)
    await settled(shop)
    assert (held.status, held.slug) == (403, "forbidden")


@pytest.mark.parametrize("lines", [(BOB,), (BOB, "ann signal name=ann"), (BOB, f"{ANN} prefix=b")])
async def test_a_held_submission_is_answered_as_it_was_made(shop, lines):
    held = await shop.held("ann", "POST", "/v1/operations?wait=50", {"keys": ["a"], "id": "made"})
    shop.change(*lines)
    await settled(shop)
    # What is refused has changed nothing, and this operation was made.
    assert (held.status, held.headers["location"]) == (202, "/v1/operations/made")
    assert held.json["state"] == "pending"


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [*HELD, pytest.param("POST", "/v1/operations?wait=50", {"keys": ["a"]}, id="submit")],
)
@pytest.mark.parametrize(
    "line", [ANN, "ann admin name=ann", f"{ANN} prefix=a prefix=b", f"{ANN} rate=1/s max-pending=1"]
)
async def test_one_that_kept_its_rights_stays_held(shop, method, target, body, line):
    held = await everything_held(shop, "ann", method, target, body)
    shop.change(line, BOB)
    await settled(shop)
    assert not held.answered
    await shop.client.advance(60)
    assert held.status < 400


async def test_one_whose_owner_has_another_name_is_forbidden(shop):
    held = await shop.held("ann", "POST", "/v1/queues/a/take?wait=50", {})
    shop.change("ann read,wait,signal name=eve", BOB)
    await settled(shop)
    assert (held.status, held.slug) == (403, "forbidden")
    assert "'ann'" in held.json["detail"]


async def test_an_item_on_its_way_to_a_lost_token_goes_back(shop):
    held = await shop.held("ann", "POST", "/v1/queues/a/take?wait=50", {})
    # Given to the taker, whose request has yet to wake, as its token is taken away.
    shop.client.post(PutItem(queue="a", item=Raw(b"1"), delay_us=0))
    assert len(shop.service.fold.queues.leases) == 1
    shop.change(BOB)
    await settled(shop)
    assert held.status == 401
    queue = shop.service.fold.queues.by_name["a"]
    assert [(bytes(item.text), item.attempts) for item in queue.ready] == [(b"1", 0)]
    assert shop.service.fold.queues.leases == {}


async def test_a_stream_of_events_ends_with_its_token(shop):
    lost, kept = [await shop.held(name, "GET", "/v1/events") for name in ("ann", "bob")]
    shop.change(BOB)
    await settled(shop)
    assert (lost.status, lost.answered, kept.answered) == (200, True, False)
    assert len(shop.service.held.streams.running) == 1
    kept.hang_up()
    await settled(shop)


@pytest.mark.parametrize("line", ["ann wait name=ann", f"{ANN} prefix=a/"])
async def test_a_stream_ends_that_may_no_longer_read_all(shop, line):
    stream = await shop.held("ann", "GET", "/v1/events")
    shop.change(line, BOB)
    await settled(shop)
    assert stream.answered


async def test_a_stream_that_may_read_more_goes_on(tenants):
    shop = tenants(f"{ANN} prefix=a/")
    stream = await shop.held("ann", "GET", "/v1/events")
    shop.change(f"{ANN} prefix=a prefix=b")
    await settled(shop)
    assert not stream.answered
    stream.hang_up()
    await settled(shop)


async def test_a_refused_file_changes_nothing_for_held_requests(shop):
    held = await shop.held("ann", "GET", "/v1/keys/a?wait=50")
    with pytest.raises(SettingsError, match=r"line 2: word 4 must be an option"):
        shop.change(BOB, "eve read name=eve colour=red")
    await settled(shop)
    assert not held.answered
    assert (await shop.ask("ann", "GET", "/v1/keys/a")).status == 200
    await shop.client.advance(50)
    assert held.status == 304


async def test_what_a_lost_token_owned_stays_for_its_name(shop):
    await shop.submit("ann", keys=["k"], id="op")
    shop.change("new wait name=ann")
    assert (await shop.ask("new", "DELETE", "/v1/operations/op")).json["state"] == "cancelled"


async def test_no_answered_request_is_kept_for_the_next_change(shop):
    await shop.ask("ann", "GET", "/v1/keys/a")
    await shop.ask("ann", "GET", "/v1/nowhere")
    assert not shop.client.app.access._present
