"""The clients' iterator of signals: each comes once, whatever happens to requests, or an error says otherwise."""

import asyncio

import pytest

from purgatory_async.client import AsyncClient, Client, RequestRefused, Signal, SignalGap
from purgatory_async.client._signals import Signals
from purgatory_async.durable.fold.entries import SignalKey
from tests.client.driving import BUSY, Line, answer
from tests.client.test_clients import Served, served

EMPTY = answer(204, x_purgatory_epoch="e", x_purgatory_index="5")


def page(*indexes, gap=False, **document):
    signals = [{"key": "k", "index": index} for index in indexes]
    return answer(200, {"signals": signals, "index": 9, "next": "e-9", "more": False, "gap": gap, **document})


def reader(line, *keys, prefixes=(), since="now"):
    return Signals(lambda each: line.run(line.verbs.more_signals(each)), keys, prefixes, since)


def sinces(line):
    return [dict(request.query)["since"] for request in line.requests]


def test_a_signal_is_read_with_its_place():
    full = {"key": "k", "index": 3, "value": [1], "amount": 2, "voter": "v", "later": "member"}
    line = Line(page(signals=[full, {"key": "j", "index": 4}]))
    signals = reader(line, "k", prefixes=["j"], since=2)
    assert next(signals) == Signal("k", 3, "e-3", [1], 2, "v")
    assert signals.since == "e-3"
    assert next(signals) == Signal("j", 4, "e-4", None, 1, None)
    assert signals.since == "e-9"
    assert line.request.query[:3] == (("key", "k"), ("prefix", "j"), ("since", "2"))


def test_a_request_goes_on_where_the_one_before_has_looked():
    quiet = answer(204, x_purgatory_epoch="e", x_purgatory_index="6", x_purgatory_next="e.a-6")
    line = Line(page(), EMPTY, quiet, page(7), poll=3.0)
    signals = reader(line, "k")
    assert next(signals).index == 7
    assert sinces(line) == ["now", "e-9", "e-5", "e.a-6"]


def test_a_retried_request_asks_for_the_same_again():
    line = Line(BUSY, (2.0, BUSY), page(7, 8))
    assert next(reader(line, "k", since="e-1")).index == 7
    assert sinces(line) == ["e-1"] * 3


def test_a_gap_is_raised_once_before_what_is_left():
    line = Line(page(7, 8, gap=True), page(10))
    signals = reader(line, "k", since="e-1")
    with pytest.raises(SignalGap, match=r"^signals after e-1 may be missing; ") as caught:
        next(signals)
    assert caught.value.since == signals.since == "e-1"
    assert [next(signals).index for _ in range(3)] == [7, 8, 10]


def test_an_iterator_goes_on_after_an_error():
    line = Line(EMPTY, *[BUSY] * 3, page(7), patience=0.3)
    signals = reader(line, "k", since="e-1")
    with pytest.raises(RequestRefused):
        next(signals)
    assert signals.since == "e-5"
    line.answers = [page(7)]
    assert next(signals).index == 7


@pytest.mark.parametrize("reply", [answer(204), answer(200, {"signals": []}), answer(200, "signals")])
def test_another_servers_answer_is_refused(reply):
    with pytest.raises(RequestRefused, match="no answer of a purgatory service"):
        next(reader(Line(reply), "k"))


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_string_for_prefixes_is_refused(kind):
    with pytest.raises(
        TypeError, match=r"^prefixes must be an iterable of prefixes, got 'ab'; did you mean \['ab'\]"
    ):
        kind("http://localhost").signals(prefixes="ab")


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_number_is_neither_a_key_nor_a_timeout(kind):
    with pytest.raises(TypeError, match="a key must be text, got 5"):
        kind("http://localhost").signals("a", 5)


def test_a_timeout_behind_the_keys_is_refused():
    with pytest.raises(TypeError, match="write timeout=5,"):
        Client("http://localhost").wait("a", 5)
    with pytest.raises(TypeError, match="write timeout=5,"):
        AsyncClient("http://localhost").wait("a", 5).send(None)


@served
async def test_each_signal_comes_once_through_lost_answers(each):
    got = []

    async def follow():
        async for signal in each.client.signals("a", prefixes=["b"], since=0):
            got.append(signal)
            each.wire.lose = len(got) % 3 == 0

    following = await each.start(follow())
    sent = []
    for number in range(60):
        key = "abc"[number % 3]
        each.service.state.post(SignalKey(key=key if key != "b" else f"b{number}"))
        if key != "c":
            sent.append(each.service.fold.position)
        if number % 7 == 0:
            await each.advance(20)
    while len(got) < len(sent):
        await each.advance(1)
    assert [signal.index for signal in got] == sent
    following.cancel()
    await asyncio.wait([following])


@served
async def test_signals_from_now_on_begin_at_the_first_request(each):
    await each.client.signal("a", 1)
    signals = each.client.signals("a")
    following = await each.start(anext(signals))
    await each.client.signal("a", 2)
    assert (await following).value == 2
    await each.client.signal("a", 3)
    await each.client.signal("a", 4)
    assert [(await anext(signals)).value for _ in range(2)] == [3, 4]


@served
async def test_a_service_that_lost_its_state_is_a_gap(each):
    signals = each.client.signals("a", since=0)
    await each.client.signal("a", 1)
    assert (await anext(signals)).value == 1
    other = Served()
    each.wire.app = other.app
    await each.client.signal("a", 2)
    with pytest.raises(SignalGap):
        await anext(signals)
    assert (await anext(signals)).value == 2
    await other.aclose()
