"""``/v1/keys``: signals and blocking reads."""

import pytest

pytestmark = pytest.mark.asyncio


async def test_indexes_are_process_wide_and_grow_by_one(client):
    assert [(await client.signal(key))["index"] for key in ("a", "b", "a")] == [1, 2, 3]


async def test_a_signal_needs_no_body(client):
    reply = await client.request("POST", "/v1/keys/a/signal")
    assert reply.json == {"key": "a", "index": 1, "completed": 0}


async def test_an_unknown_key_reads_as_index_zero(client):
    reply = await client.request("GET", "/v1/keys/never")
    assert (reply.status, reply.json) == (200, {"key": "never", "index": 0, "value": None})
    assert reply.headers["x-purgatory-index"] == "0"


async def test_a_read_shows_the_latest_signal(client):
    await client.signal("a", value=[1])
    await client.signal("a", value={"n": 2})
    reply = await client.request("GET", "/v1/keys/a")
    assert reply.json == {"key": "a", "index": 2, "value": {"n": 2}}
    assert reply.headers["x-purgatory-index"] == "2"
    await client.signal("a")
    assert (await client.request("GET", "/v1/keys/a")).json == {"key": "a", "index": 3, "value": None}


async def test_a_read_above_a_known_index_is_held_for_a_signal(client):
    await client.signal("a")
    assert (await client.request("GET", "/v1/keys/a?index=0&wait=9")).json["index"] == 1
    held = await client.held("GET", "/v1/keys/a?index=1&wait=9")
    await client.signal("b")
    assert not held.answered
    await client.signal("a", value="new")
    assert (held.status, held.json) == (200, {"key": "a", "index": 3, "value": "new"})


@pytest.mark.parametrize("query", ["index=1", "index=1&wait=0"])
async def test_a_check_of_an_unchanged_key_is_304(client, query):
    await client.signal("a")
    reply = await client.request("GET", f"/v1/keys/a?{query}")
    assert (reply.status, reply.body) == (304, b"")
    assert reply.headers["x-purgatory-index"] == "1"
    assert "content-type" not in reply.headers


async def test_a_wait_that_ends_unchanged_is_304(client):
    held = await client.held("GET", "/v1/keys/a?index=0&wait=9")
    await client.advance(9.001)
    assert held.status == 304


async def test_a_read_is_not_counted_among_what_a_signal_completed(client):
    held = await client.held("GET", "/v1/keys/a?index=0&wait=9")
    assert (await client.signal("a"))["completed"] == 0
    assert held.answered


async def test_an_index_from_before_a_restart_is_answered_at_once(client):
    reply = await client.request("GET", "/v1/keys/a?index=500&wait=9")
    assert reply.json == {"key": "a", "index": 0, "value": None}
    assert reply.headers["x-purgatory-epoch"] == client.service.state.epoch


async def test_every_start_is_another_epoch(make_client):
    assert make_client().service.state.epoch != make_client().service.state.epoch


async def test_an_idle_key_is_forgotten_and_its_index_never_goes_back(make_client):
    client = make_client(retention="10s")
    await client.signal("a", value=1)
    await client.advance(9)
    await client.signal("a", value=2)
    await client.signal("b")
    await client.advance(9)
    assert (await client.request("GET", "/v1/keys/a")).json["index"] == 2
    await client.advance(1.001)
    assert (await client.request("GET", "/v1/keys/a")).json == {"key": "a", "index": 0, "value": None}
    held = await client.held("GET", "/v1/keys/a?index=2&wait=9")
    await client.signal("a", value=3)
    assert held.json["index"] > 3
    assert held.json["value"] == 3


@pytest.mark.parametrize(
    ("segment", "key"),
    [
        pytest.param("a%2Fb", "a/b", id="a slash belongs to the key"),
        pytest.param("a+b", "a+b", id="a plus is a plus in a path"),
        pytest.param("%C3%A9", "\u00e9", id="UTF-8"),
        pytest.param("signal", "signal", id="the name of a verb"),
        pytest.param("%252F", "%2F", id="decoded once"),
        pytest.param("e%CC%81", "e\u0301", id="not normalised"),
    ],
)
async def test_a_key_is_one_segment_decoded_after_splitting(client, segment, key):
    assert (await client.signal(segment))["key"] == key
    await client.submit(key, id="op")
    assert (await client.signal(segment))["completed"] == 1
