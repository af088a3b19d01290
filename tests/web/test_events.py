"""Streams of events: what a client gets, and what it gets when it comes back."""

import asyncio
import json

import pytest

from purgatory_async.patterns import Broadcast
from purgatory_async.testing import settle
from purgatory_async.web import aiohttp_events, asgi_events, starlette_events
from tests.web.exchange import Stream
from tests.web.streams import begun, ended, hung_up, items

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("nothing_stays_behind")]


# What is sent.


async def test_a_stream_says_when_to_come_back_and_is_not_buffered(news):
    stream = await begun(news)
    assert stream.status == 200
    assert stream.headers == {
        "content-type": "text/event-stream",
        "cache-control": "no-store",
        "x-accel-buffering": "no",
        "connection": "close",
    }
    assert stream.body.startswith(b"retry: ")
    assert 1000 <= stream.parsed.retries[0] <= 3000
    await hung_up(stream)


@pytest.mark.parametrize("version", ["2", "3"])
async def test_only_http_1_has_a_header_that_closes(version):
    stream = await ended(items(), http_version=version)
    assert "connection" not in stream.headers


async def test_clients_come_back_spread():
    retries = {(await ended(items(), retry=(2, 4))).parsed.retries[0] for _ in range(20)}
    assert len(retries) > 10
    assert all(2000 <= retry <= 4000 for retry in retries)


async def test_each_client_gets_each_item_with_an_id(news):
    streams = [await begun(news) for _ in range(3)]
    news.publish({"price": 7})
    news.publish("ü")
    await settle()
    for stream in streams:
        assert [event.last_id for event in stream.events] == [f"{news.epoch}-1", f"{news.epoch}-2"]
        assert stream.data == ['{"price":7}', '"ü"']
        await hung_up(stream)
    assert news.subscribers == 0


async def test_an_iterable_is_sent_without_ids_and_ends_the_stream():
    stream = await ended(items(1, [2], None))
    assert stream.data == ["1", "[2]", "null"]
    assert {event.last_id for event in stream.events} == {""}
    assert {event.name for event in stream.events} == {"message"}


async def test_data_is_encoded_and_named_as_the_handler_says():
    named = await ended(items(1), encode=lambda item: b"line\none", event="tick")
    assert [(event.name, event.data) for event in named.events] == [("tick", "line\none")]
    each = await ended(items(1, 2), event=lambda item: "one" if item == 1 else None)
    assert [event.name for event in each.events] == ["one", "message"]


async def test_many_kept_items_are_few_writes(purgatory):
    news = Broadcast(purgatory)
    for number in range(1000):
        news.publish(number)
    stream = await begun(news, last_id=f"{news.epoch}-0")
    assert stream.data == [str(number) for number in range(1000)]
    assert len(stream.sent) < 5
    await hung_up(stream)


async def test_what_is_published_after_the_call_is_not_missed(news):
    stream = Stream(news)

    async def handler():
        asyncio.get_running_loop().call_soon(news.publish, "first")
        await stream.running

    stream.task = asyncio.create_task(handler())
    await settle()
    assert stream.data == ['"first"']
    await hung_up(stream)


async def test_who_asks_for_the_head_gets_no_events(news):
    news.publish(1)
    stream = await ended(news, method="HEAD", last_id=f"{news.epoch}-0")
    assert (stream.status, stream.body, news.subscribers) == (200, b"", 0)


# Coming back.


def kept(news, *numbers):
    for number in numbers:
        news.publish(number)


@pytest.mark.parametrize("after", range(1, 6))
async def test_who_comes_back_goes_on_where_it_was(news, after):
    kept(news, 1, 2, 3, 4, 5)
    stream = await begun(news, last_id=f"{news.epoch}-{after}")
    assert stream.data == [str(number) for number in range(after + 1, 6)]
    await hung_up(stream)


async def test_who_missed_what_is_gone_gets_a_gap_with_their_number(news):
    kept(news, 1, 2, 3, 4, 5, 6, 7)
    stream = await begun(news, last_id=f"{news.epoch}-1")
    gap, *rest = stream.events
    assert (gap.name, json.loads(gap.data), gap.last_id) == ("gap", {"missed": 2}, f"{news.epoch}-3")
    assert [event.data for event in rest] == ["4", "5", "6", "7"]
    await hung_up(stream)


@pytest.mark.parametrize(
    "last_id", ["other-2", "nonsense", "{epoch}-99", "{epoch}-x", "{epoch}-2, {epoch}-3"]
)
async def test_an_id_that_is_not_known_gets_a_gap_and_all_that_is_kept(news, last_id):
    kept(news, 1, 2, 3, 4, 5, 6)
    stream = await begun(news, last_id=last_id.format(epoch=news.epoch))
    gap, *rest = stream.events
    assert (gap.name, json.loads(gap.data), gap.last_id) == ("gap", {"missed": None}, f"{news.epoch}-2")
    assert [event.data for event in rest] == ["3", "4", "5", "6"]
    await hung_up(stream)


async def test_after_a_restart_a_gap_comes_even_if_nothing_is_kept(news):
    stream = await begun(news, last_id="before-7")
    assert [(event.name, event.last_id) for event in stream.events] == [("gap", f"{news.epoch}-0")]
    news.publish(1)
    await settle()
    await hung_up(stream)
    again = await begun(news, last_id=stream.events[0].last_id)
    assert again.data == ["1"]
    await hung_up(again)


async def test_who_was_away_before_its_first_event_misses_none(news):
    kept(news, 1)
    first = await begun(news)
    await hung_up(first)
    kept(news, 2)
    again = await begun(news, last_id=first.last_id)
    assert again.data == ["2"]
    await hung_up(again)


@pytest.mark.parametrize("last_id", ["", None])
async def test_no_id_begins_at_this_moment(news, last_id):
    kept(news, 1, 2, 3)
    stream = await begun(news, last_id=last_id)
    assert stream.events == []
    await hung_up(stream)


async def test_who_reads_too_slowly_gets_a_gap(news):
    stream = await begun(news)
    stream.reads.clear()
    kept(news, 0)
    await settle()
    kept(news, *range(1, 10))
    stream.reads.set()
    await settle()
    assert [event.name for event in stream.events] == ["message", "gap", *["message"] * 4]
    assert stream.data == ["0", '{"missed": 5}', "6", "7", "8", "9"]
    await hung_up(stream)


async def test_a_source_of_one_client_takes_no_id():
    assert (await ended(items(1), last_id="e-1")).data == ["1"]


# Arguments.


@pytest.mark.parametrize(
    ("terms", "error", "complaint"),
    [
        ({"encode": "json"}, TypeError, "encode must be a function or None, got 'json'"),
        ({"event": 7}, TypeError, "event must be a name, a function that returns one, or None, got 7"),
        ({"event": "a\nb"}, ValueError, r"event must be one line without NUL, got 'a\\nb'"),
        ({"heartbeat": 0}, ValueError, "heartbeat must be above 0, to 3155760000 seconds, got 0"),
        ({"heartbeat": float("nan")}, ValueError, "heartbeat must be above 0, .* got nan"),
        ({"send_timeout": -1}, ValueError, "send_timeout must be above 0, .* got -1"),
        ({"retry": 3}, TypeError, r"retry must be a pair of seconds like \(1.0, 3.0\), got 3"),
        ({"retry": (3, 1)}, ValueError, r"retry must rise, from 0 to 3155760000 seconds, got \(3, 1\)"),
    ],
)
async def test_bad_terms_are_refused_before_anything_is_sent(news, terms, error, complaint):
    stream = Stream(news, **terms)
    with pytest.raises(error, match=complaint):
        await stream.running
    assert (stream.sent, news.subscribers) == ([], 0)


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        (items, r"source must be a Broadcast or an async iterable, got <function items .*; call it"),
        ([1], r"source must be a Broadcast or an async iterable, got \[1\]"),
    ],
)
async def test_another_source_is_refused_by_name(source, complaint):
    with pytest.raises(TypeError, match=complaint):
        await Stream(source).running


async def test_another_scope_than_one_of_http_is_refused_by_name(news):
    with pytest.raises(ValueError, match=r"asgi_events answers scopes of type 'http', got 'websocket'"):
        await asgi_events({"type": "websocket"}, None, None, news)


@pytest.mark.parametrize("events", [aiohttp_events, asgi_events, starlette_events])
async def test_every_way_in_takes_the_same_terms(events):
    assert events.__kwdefaults__ == {
        "encode": None,
        "event": None,
        "heartbeat": 15.0,
        "retry": (1.0, 3.0),
        "send_timeout": 30.0,
    }
