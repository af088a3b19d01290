"""``/v1/wait`` with ``since``: every signal after an index, once, or an answer that says that one may be missing."""

import asyncio

import pytest

from purgatory_async.durable import since as kept
from purgatory_async.durable.fold.entries import SignalKey
from purgatory_async.testing import settle

pytestmark = pytest.mark.asyncio
EMPTY = {"signals": [], "more": False, "gap": False}


async def follow(client, query):
    """The answer to a request that must not be held, but for its epoch."""
    reply = await client.request("GET", f"/v1/wait?{query}")
    assert reply.status == 200
    assert reply.headers["x-purgatory-index"] == str(reply.json["index"])
    assert reply.json["next"] == f"{reply.headers['x-purgatory-epoch']}-{reply.json['index']}"
    return {name: value for name, value in reply.json.items() if name != "next"}


def indexes(answer):
    return [signal["index"] for signal in answer["signals"]]


async def test_every_signal_after_an_index_comes_oldest_first(client):
    await client.signal("a", value=None)
    await client.signal("b", amount=3)
    await client.signal("c")
    await client.signal("a", voter="v", value={"n": 1})
    assert await follow(client, "key=a&key=b&since=0") == {
        "signals": [
            {"key": "a", "index": 1, "value": None},
            {"key": "b", "index": 2, "amount": 3},
            {"key": "a", "index": 4, "value": {"n": 1}, "voter": "v"},
        ],
        "index": 4,
        "more": False,
        "gap": False,
    }
    assert indexes(await follow(client, "key=a&key=b&since=1&wait=9")) == [2, 4]


async def test_a_prefix_covers_keys_as_plain_text(client):
    for key in ("orders%2F1", "orders", "orders%2F*", "Orders%2F1", "orders%2F1"):
        await client.signal(key)
    assert indexes(await follow(client, "prefix=orders/&since=0")) == [1, 3, 5]
    assert indexes(await follow(client, "prefix=orders/*&since=0")) == [3]


async def test_what_overlaps_comes_once(client):
    query = "key=ab&key=ab&prefix=a&prefix=ab&since=0"
    held = await client.held("GET", f"/v1/wait?{query}&wait=9")
    await client.signal("ab")
    assert indexes(held.json) == indexes(await follow(client, query)) == [1]


async def test_those_that_slept_alike_share_what_they_hear(client):
    early = [client.start("GET", "/v1/wait?prefix=a&key=b&since=0&wait=9") for _ in range(99)]
    await settle()
    audiences = client.service.held.followers._by_prefix["a"]
    for key in ("a1", "b", "a2"):
        client.post(SignalKey(key=key))
    late = client.start("GET", "/v1/wait?prefix=a&since=3&wait=9")
    while len(audiences) == 1:  # noqa: ASYNC110 - to be held sets no event
        await asyncio.sleep(0)
    client.post(SignalKey(key="a3"))
    assert [len(each.heard) for each in audiences] == [3, 1]
    await settle()
    assert {tuple(indexes(each.json)[:3]) for each in early} == {(1, 2, 3)}
    assert indexes(early[-1].json) == [1, 2, 3, 4]
    assert indexes(late.json) == [4]
    assert not audiences


@pytest.mark.parametrize("names", ["key=a", "prefix=a", "key=z&prefix=x&prefix=a"])
async def test_a_request_is_held_until_a_signal_comes(client, names):
    await client.signal("a")
    held = await client.held("GET", f"/v1/wait?{names}&since=1&wait=9")
    await client.signal("b")
    assert not held.answered
    assert (await client.signal("a", value=7))["completed"] == 0
    assert held.json["signals"] == [{"key": "a", "index": 3, "value": 7}]
    assert client.service.held.followers.waiting == 0


async def test_an_empty_answer_says_how_far_it_looked(client):
    await client.signal("a")
    held = await client.held("GET", "/v1/wait?key=a&since=1&wait=9")
    await client.signal("b")
    await client.advance(9.001)
    assert (held.status, held.body, held.headers["x-purgatory-index"]) == (204, b"", "2")
    assert held.headers["x-purgatory-epoch"] == client.service.state.epoch
    assert (await client.request("GET", "/v1/wait?key=a&since=1")).status == 204


async def test_now_is_answered_at_once_with_the_newest_index(client):
    assert await follow(client, "key=a&since=now&wait=9") == {**EMPTY, "index": 0}
    await client.signal("b")
    await client.signal("a")
    assert await follow(client, "key=a&since=now&wait=9") == {**EMPTY, "index": 2}


async def test_an_answer_that_is_cut_says_where(client):
    for _ in range(5):
        await client.signal("a")
        await client.signal("b")
    cut = await follow(client, "key=a&key=b&since=1&limit=2")
    assert (indexes(cut), cut["index"], cut["more"]) == ([2, 3], 3, True)
    rest = await follow(client, "key=a&since=3&limit=3")
    assert (indexes(rest), rest["index"], rest["more"]) == ([5, 7, 9], 10, False)


async def test_an_answer_has_a_mebibyte_but_at_least_one_signal(client):
    most = "x" * ((1 << 20) - 100)
    for value in (most, most[:-5000], "y" * 2000, "z" * 2500, "w" * 1000):
        await client.signal("a", value=value)
    pages, since = [], 0
    while since < 5:
        page = await client.request("GET", f"/v1/wait?key=a&since={since}")
        assert len(page.body) <= 1 << 20 or len(page.json["signals"]) == 1
        pages.append(indexes(page.json))
        since = page.json["index"]
    assert pages == [[1], [2, 3, 4], [5]]


async def test_an_answer_has_as_many_signals_as_its_limit(make_client):
    client = make_client(keep_signals=300)
    for _ in range(257):
        client.post(SignalKey(key="a"))
    cut = await follow(client, "key=a&since=0")
    assert (len(cut["signals"]), cut["more"]) == (256, True)
    assert (await follow(client, "key=a&since=1&limit=256"))["more"] is False


async def test_the_place_of_an_answer_is_where_the_next_goes_on(client):
    await client.signal("a")
    reply = await client.request("GET", "/v1/wait?key=a&since=0")
    await client.signal("a")
    assert indexes(await follow(client, f"key=a&since={reply.json['next']}")) == [2]


@pytest.mark.parametrize("since", ["3", "1234abcd-1", "1234abcd-0", "9999999999999999"])
async def test_another_history_is_a_gap_before_all_that_is_kept(client, since):
    await client.signal("a")
    await client.signal("a")
    found = await follow(client, f"key=a&since={since}&wait=9")
    assert (indexes(found), found["index"], found["gap"]) == ([1, 2], 2, True)
    assert (await follow(client, f"key=b&since={since}&wait=9")) == {**EMPTY, "gap": True, "index": 2}
    assert client.service.held.followers.gaps == 2


async def test_signals_beyond_those_kept_are_a_gap(make_client):
    client = make_client(keep_signals=2)
    for _ in range(4):
        await client.signal("a")
    for since, gap in ((0, True), (1, True), (2, False)):
        for names in ("key=a", "prefix=a", "key=b&key=a"):
            found = await follow(client, f"{names}&since={since}&wait=9")
            assert (indexes(found), found["gap"]) == ([3, 4], gap)


@pytest.mark.parametrize("retention", ["10s", "300s"])
@pytest.mark.parametrize("names", ["key=a", "prefix=a"])
async def test_signals_are_kept_for_their_time_however_idle_the_key(make_client, names, retention):
    client = make_client(keep_for="100s", retention=retention)
    await client.signal("a")
    await client.advance(50)
    await client.signal("a")
    await client.advance(49.9)
    assert indexes(await follow(client, f"{names}&since=0")) == [1, 2]
    await client.advance(0.2)
    late = await follow(client, f"{names}&since=0")
    assert (indexes(late), late["gap"]) == ([2], True)
    assert not (await follow(client, f"{names}&since=1"))["gap"]
    await client.advance(50)
    forgotten = await follow(client, f"{names}&since=1&wait=9")
    assert forgotten == {**EMPTY, "index": 2, "gap": True}
    assert (await client.request("GET", f"/v1/wait?{names}&since=2")).status == 204


async def test_a_key_without_signals_has_no_gap_at_a_fresh_service(client):
    await client.signal("b")
    await client.advance(100)
    for names in ("key=a", "prefix=a"):
        held = await client.held("GET", f"/v1/wait?{names}&since=0&wait=9")
        await client.advance(9.001)
        assert held.status == 204


async def test_a_forgotten_key_that_comes_back_still_has_its_gap(make_client):
    client = make_client(keep_for="10s", retention="10s")
    await client.signal("a")
    await client.advance(11)
    await client.signal("a")
    late = await follow(client, "key=a&since=0")
    assert (indexes(late), late["gap"]) == ([2], True)
    assert not (await follow(client, "key=a&since=1"))["gap"]


@pytest.mark.parametrize("names", ["key=a", "prefix=a"])
async def test_a_burst_reaches_a_held_request_whole(make_client, names):
    client = make_client(keep_signals=4)
    held = await client.held("GET", f"/v1/wait?{names}&since=0&wait=9")
    for _ in range(100):
        client.post(SignalKey(key="a"))
    await settle()
    assert indexes(held.json) == list(range(1, 101))
    assert (held.json["gap"], held.json["more"]) == (False, False)
    # One that cannot use all of it says so, and its next request that the rest is lost.
    held = await client.held("GET", f"/v1/wait?{names}&since=100&wait=9&limit=5")
    for _ in range(100):
        client.post(SignalKey(key="a"))
    await settle()
    assert (indexes(held.json), held.json["index"], held.json["more"]) == (
        [101, 102, 103, 104, 105],
        105,
        True,
    )
    assert (await follow(client, f"{names}&since=105"))["gap"]


async def test_an_index_that_a_read_showed_is_a_good_place(client):
    await client.signal("a")
    index = (await client.request("GET", "/v1/keys/a")).json["index"]
    await client.signal("a")
    assert indexes(await follow(client, f"key=a&since={index}")) == [2]


async def test_a_follower_is_held_as_other_requests_are(make_client):
    client = make_client(max_pending=1)
    held = await client.held("GET", "/v1/wait?prefix=a&since=0&wait=9")
    assert (client.service.pending, client.service.held.requests.count) == (0, 1)
    assert (await client.request("GET", "/v1/wait?key=a&since=0&wait=9")).slug == "overloaded"
    assert (await client.request("GET", "/v1/wait?key=a&since=0")).status == 204
    held.hang_up()
    await settle()
    assert (client.service.held.requests.count, client.service.held.followers.waiting) == (0, 0)
    held = await client.held("GET", "/v1/wait?key=a&since=0&wait=9")
    client.service.drain()
    await settle()
    assert held.slug == "draining"
    assert client.service.held.followers.waiting == 0


@pytest.mark.parametrize(
    ("query", "status", "parameter"),
    [
        ("key=a&prefix=b", 400, "prefix"),
        ("key=a&limit=1", 400, "limit"),
        ("key=a&since=0&need=any", 400, "need"),
        ("key=a&since=0&limit=0", 400, "limit"),
        ("key=a&since=0&limit=257", 400, "limit"),
        ("key=a&since=0&since=1", 400, "since"),
        *(
            (f"key=a&since={since}", 400, "since")
            for since in ("", "-1", "1e3", "0" * 17, "x-", "NOW", "-", "%C3%A9-1", "1%0A")
        ),
    ],
)
async def test_a_bad_parameter_is_named(client, query, status, parameter):
    reply = await client.request("GET", f"/v1/wait?{query}")
    assert (reply.status, reply.slug, reply.json["parameter"]) == (status, "bad-parameter", parameter)


@pytest.mark.parametrize(
    ("query", "slug"),
    [
        ("since=0", "invalid"),
        ("prefix=&since=0", "bad-key"),
        ("prefix=%FF&since=0", "bad-key"),
        ("prefix=a%00&since=0", "bad-key"),
        ("key=a&prefix=..&since=0", "bad-key"),
        (
            "&".join([*(f"key={n}" for n in range(33)), *(f"prefix={n}" for n in range(32)), "since=0"]),
            "too-many-keys",
        ),
    ],
)
async def test_a_bad_key_or_prefix_is_refused(client, query, slug):
    reply = await client.request("GET", f"/v1/wait?{query}")
    assert (reply.status, reply.slug) == (422, slug)


async def test_64_keys_and_prefixes_can_be_followed(client):
    names = [*(f"key={n}" for n in range(32)), *(f"prefix={n}" for n in range(32)), "key=1", "prefix=1"]
    assert (await client.request("GET", f"/v1/wait?{'&'.join(names)}&since=0")).status == 204


async def test_a_reader_far_behind_lets_the_loop_turn(client, monkeypatch):
    """It looks at some keys in each turn; what is signalled meanwhile is in its answer, or in the next."""
    monkeypatch.setattr(kept, "NEAR", 4)
    monkeypatch.setattr(kept, "AT_ONCE", 4)
    for number in range(1, 41):
        client.post(SignalKey(key=f"k{number}"))
    reading = [client.start("GET", "/v1/wait?prefix=k&since=0&limit=40&wait=9s") for _ in range(2)]
    for _ in range(8):
        await asyncio.sleep(0)
    assert not any(each.answered for each in reading)
    client.post(SignalKey(key="k41"))
    await settle()
    for each in reading:
        assert [signal["index"] for signal in each.json["signals"]] == [*range(1, 41)]
        assert (each.json["more"], each.json["gap"]) == (True, False)
    assert indexes(await follow(client, "prefix=k&since=40")) == [41]
