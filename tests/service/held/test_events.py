"""``GET /v1/events``: what happens to operations, numbered, from now on or from where a reader left off."""

import asyncio

import pytest

from purgatory_async.durable.fold.entries import SignalKey
from purgatory_async.durable.grants import Permission
from purgatory_async.durable.waiting.feed import CHUNK, KEPT
from purgatory_async.service.api.routes import ROUTES
from purgatory_async.service.held import stream
from purgatory_async.testing import settle
from tests.service.held.event_reading import comments_in, events_in

pytestmark = pytest.mark.asyncio

EVENTS = "/v1/events"


async def follow(client, after=None):
    """Start reading, from now on, from behind an event's number, or from behind an id."""
    last = f"{client.service.state.epoch}-{after}.{min(after, 1)}" if isinstance(after, int) else after
    headers = [] if last is None else [("last-event-id", last)]
    reader = await client.held("GET", EVENTS, headers=headers)
    assert reader.status == 200
    return reader


async def read_events(client, reader):
    """What the reader was sent so far, with the pause in which events gather behind us."""
    await client.advance(stream.PAUSE)
    return events_in(reader.body)


def data_of(event):
    """An event's data but for the time."""
    return {name: value for name, value in event.data.items() if name != "at"}


def operation(known_as, state, keys=("a",), elapsed=0.0):
    return {"id": known_as, "keys": list(keys), "state": state, "elapsed": elapsed}


def signal(key, completed):
    return {"id": None, "keys": [key], "state": None, "completed": completed}


async def numbers(client, after):
    """The numbers of all events that a reader from there receives."""
    reader = await follow(client, after)
    return [event.number for event in await read_events(client, reader)]


# What an event holds.


async def test_an_operations_end_comes_before_the_signal_that_ended_it(client):
    reader = await follow(client)
    await client.submit("a", "b", id="op")
    await client.advance(2)
    await client.signal("b")
    events = await read_events(client, reader)
    assert [(event.number, event.name, data_of(event)) for event in events] == [
        (1, "submitted", operation("op", "pending", "ab")),
        (2, "ended", operation("op", "completed", "ab", elapsed=2.0)),
        (3, "signalled", signal("b", 1)),
    ]


async def test_every_outcome_is_an_event(client):
    reader = await follow(client)
    for name in ("done", "late", "off"):
        await client.submit("a", id=name, timeout="1s" if name == "late" else None)
    await client.request("POST", "/v1/operations/done/complete")
    await client.advance(1)
    await client.request("DELETE", "/v1/operations/off")
    ends = [data_of(event) for event in await read_events(client, reader) if event.name == "ended"]
    assert ends == [
        operation("done", "completed"),
        operation("late", "expired", elapsed=1.0),
        operation("off", "cancelled", elapsed=1.0),
    ]


async def test_a_one_shot_wait_is_an_event_without_an_id(client):
    reader = await follow(client)
    await client.held("GET", "/v1/wait?key=a&wait=3s")
    await client.advance(3)
    events = [(event.name, data_of(event)) for event in await read_events(client, reader)]
    assert events == [
        ("submitted", operation(None, "pending")),
        ("ended", operation(None, "expired", elapsed=3.0)),
    ]


async def test_a_signal_without_waiters_is_an_event_with_its_count(client):
    reader = await follow(client)
    await client.signal("nobody")
    for _ in range(3):
        await client.submit("a")
    await client.held("GET", "/v1/wait?key=a&wait=3s")
    await client.signal("a")
    signals = [data_of(event) for event in await read_events(client, reader) if event.name == "signalled"]
    assert signals == [signal("nobody", 0), signal("a", 4)]


@pytest.mark.parametrize("key", ["%22%5C", "data:%20x", "%E2%80%A8", "%C3%A9", "%F0%9F%94%91", "%EF%BB%BF"])
async def test_a_key_with_any_characters_is_sent_unchanged(client, key):
    reader = await follow(client)
    spelled = (await client.signal(key))["key"]
    (event,) = await read_events(client, reader)
    assert event.data["keys"] == [spelled]


# From where.


async def test_without_a_number_a_reader_gets_only_new_events(client):
    await client.signal("before")
    reader = await follow(client)
    await client.signal("after")
    assert [event.data["keys"] for event in await read_events(client, reader)] == [["after"]]


async def test_a_returning_reader_resumes_after_its_last_event(client):
    for key in "abcd":
        await client.signal(key)
    assert await numbers(client, 2) == [3, 4]
    assert await numbers(client, 3) == [4]
    assert await numbers(client, 4) == []
    reader = await follow(client, 3)
    await client.signal("e")
    assert [event.data["keys"] for event in await read_events(client, reader)] == [["d"], ["e"]]


async def test_zero_is_before_the_first_event(client):
    assert await numbers(client, 0) == []
    await client.signal("a")
    assert await numbers(client, 0) == [1]


async def test_interrupted_readers_miss_nothing_and_repeat_nothing(client):
    seen, last = [], 0
    for step in range(12):
        reader = await follow(client, last)
        for _ in range(step % 4):
            await client.signal("a")
            await client.advance(stream.PAUSE * (step % 3))
        seen += [event.number for event in await read_events(client, reader)]
        last = seen[-1] if seen else 0
        reader.hang_up()
        await client.signal("meanwhile")
    assert seen == list(range(1, len(seen) + 1))
    assert len(seen) > 12


@pytest.mark.parametrize(
    "last",
    ["", "-1", "+1", "1.5", "0x1", "1e3", "x", "1 2", "\u00b2", "9" * 19, "1_0", "1\t2", "a-", "a-x"],
)
async def test_an_id_that_is_none_is_refused(client, last):
    reply = await client.request("GET", EVENTS, headers=[("last-event-id", last)])
    assert (reply.status, reply.slug) == (400, "bad-header")
    assert "Last-Event-ID must be the id of an event, EPOCH-POSITION.NUMBER" in reply.json["detail"]


@pytest.mark.parametrize("last", ["a--1", "a-1-", "a-b-1", "-1-", "\u00e9-1", "a" * 41 + "-1"])
async def test_an_epoch_that_is_none_is_refused(client, last):
    reply = await client.request("GET", EVENTS, headers=[("last-event-id", last)])
    assert (reply.status, reply.slug) == (400, "bad-header")


async def test_two_numbers_are_none(client):
    twice = [("last-event-id", "1"), ("last-event-id", "1")]
    assert (await client.request("GET", EVENTS, headers=twice)).slug == "bad-header"


# What is lost.


def fill(client, number):
    """Make this many signals, without HTTP."""
    for _ in range(number):
        client.post(SignalKey(key="noise"))


async def drained_of(client, reader):
    """All events that a reader receives until it waits."""
    while True:
        before = len(reader.body)
        await settle()
        await client.advance(stream.PAUSE)
        if len(reader.body) == before:
            return events_in(reader.body)


async def test_what_is_older_is_a_gap_that_says_how_much_is_missing(client):
    fill(client, KEPT + 5)
    reader = await follow(client, 2)
    gap, *events = await drained_of(client, reader)
    epoch = client.service.state.epoch
    assert gap == (5, "gap", {"next": f"{epoch}-6.1", "missed": None})
    assert [event.number for event in events] == list(range(6, KEPT + 6))


async def test_a_reader_that_breaks_off_after_a_gap_does_not_repeat_it(client):
    fill(client, KEPT + 5)
    gap = (await read_events(client, await follow(client, 2)))[0]
    assert (await read_events(client, await follow(client, gap.number)))[0].number == 6


async def test_an_id_shows_the_epoch_of_this_start(client):
    reader = await follow(client)
    await client.signal("a")
    await client.advance(stream.PAUSE)
    assert f"id: {reader.headers['x-purgatory-epoch']}-1.1\n".encode() in reader.body


@pytest.mark.parametrize("before", [2, 3, 7], ids=["below", "at", "above"])
async def test_an_id_from_before_a_restart_gets_a_gap_first(make_client, before):
    stopped, started = make_client(), make_client()
    fill(stopped, before)
    fill(started, 3)
    last = f"{stopped.service.state.epoch}-{before}.1"
    assert await read_events(stopped, await follow(stopped, last)) == []
    gap, *events = await read_events(started, await follow(started, last))
    first = f"{started.service.state.epoch}-1.1"
    assert gap == (0, "gap", {"next": first, "missed": None})
    assert [event.number for event in events] == [1, 2, 3]


@pytest.mark.parametrize("last", ["0", "1", "2", "700"])
async def test_an_id_without_an_epoch_gets_a_gap_first(client, last):
    fill(client, 2)
    assert await numbers(client, last) == [0, 1, 2]


async def test_a_number_beyond_the_newest_gets_a_gap_first(client):
    reader = await follow(client, 700)
    assert [(event.number, event.name) for event in await read_events(client, reader)] == [(0, "gap")]
    await client.signal("a")
    assert [event.number for event in await read_events(client, reader)] == [0, 1]


# The stream.


async def test_a_stream_is_marked_as_one_and_no_proxy_may_gather_it(client):
    reader = await follow(client)
    assert reader.headers == {
        "content-type": "text/event-stream",
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "x-accel-buffering": "no",
        "x-request-id": "of-the-test",
        "connection": "close",
        "x-purgatory-position": "0",
        "x-purgatory-epoch": client.service.state.epoch,
    }


async def test_a_first_comment_makes_a_proxy_pass_the_head_on(client):
    assert comments_in((await follow(client)).body) == 1


async def test_a_comment_comes_after_every_fifteen_seconds_of_silence(client):
    reader = await follow(client)
    await client.advance(stream.PAUSE)
    for comments in (2, 3):
        await client.advance(14.99)
        assert comments_in(reader.body) == comments - 1
        await client.advance(0.01)
        assert comments_in(reader.body) == comments
        await client.advance(stream.PAUSE)
    await client.signal("a")
    await client.advance(14.99 + stream.PAUSE)
    assert comments_in(reader.body) == 3
    assert len(events_in(reader.body)) == 1


async def test_a_reader_that_leaves_is_gone_at_once(client):
    leaver, stays = await follow(client), await follow(client)
    assert len(client.service.held.streams.running) == 2
    await client.advance(stream.PAUSE)
    leaver.hang_up()
    await settle()
    assert len(client.service.held.streams.running) == 1
    sent = leaver.body
    await client.signal("a")
    assert len(await read_events(client, stays)) == 1
    assert leaver.body == sent
    assert leaver.over.done()


async def test_a_reader_leaving_in_the_pass_of_an_event_is_removed(client):
    reader = await follow(client)
    await client.advance(stream.PAUSE)
    client.post(SignalKey(key="a"))
    reader.hang_up()
    await settle()
    assert reader.over.done()
    assert not client.service.held.streams.running


async def test_a_drain_ends_the_stream_behind_what_there_was_to_tell(client):
    waiting, new = await follow(client), await follow(client)
    await client.signal("a")
    assert client.service.drain() == 2
    await client.advance(stream.PAUSE)
    for reader in (waiting, new):
        assert reader.answered
        assert [event.number for event in events_in(reader.body)] == [1]
    assert not client.service.held.streams.running
    refused = await client.request("GET", EVENTS)
    assert (refused.status, refused.slug) == (503, "draining")
    assert "retry-after" in refused.headers


async def test_a_drain_cuts_a_long_replay_short(client):
    fill(client, KEPT)
    reader = client.start("GET", EVENTS, headers=[("last-event-id", "0")])  # a gap, then all
    for _ in range(1000):
        await asyncio.sleep(0)
        if len(reader.body) > 2 * CHUNK:
            break
    client.service.drain()
    await client.advance(stream.PAUSE)
    assert reader.answered
    assert len(events_in(reader.body)) < KEPT


@pytest.mark.parametrize("pending", [0, 3])
async def test_closing_the_service_ends_its_streams(client, pending):
    reader = await follow(client)
    for _ in range(pending):
        await client.submit("a")
    client.service.close()
    await settle()
    assert reader.answered
    assert not reader.cut


async def test_there_is_a_limit_on_streams_and_who_leaves_makes_room(client, monkeypatch):
    monkeypatch.setattr(stream, "MAX_STREAMS", 3)
    readers = [await follow(client) for _ in range(3)]
    refused = await client.request("GET", EVENTS)
    assert (refused.status, refused.slug, refused.json["limit"]) == (503, "overloaded", 3)
    assert "retry-after" in refused.headers
    readers[1].hang_up()
    await settle()
    await follow(client)


async def test_it_is_for_readers_of_events_who_may_read(client):
    assert ROUTES[EVENTS].keys() == {"GET", "HEAD"}
    assert ROUTES[EVENTS]["GET"].permission is Permission.READ
    refused = await client.request("GET", EVENTS, headers=[("accept", "application/json")])
    assert refused.slug == "not-acceptable"
    assert (await client.request("GET", EVENTS + "?after=3")).slug == "bad-parameter"
    for accept in ("text/event-stream", "text/*", "*/*"):
        await client.held("GET", EVENTS, headers=[("accept", accept)])
