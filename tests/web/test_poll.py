"""One poll in virtual time: how long it is held, and what each end of the wait is answered."""

import asyncio
from contextlib import closing
from functools import partial

import pytest

from purgatory_async import DelayedOperation, Purgatory, Timer
from purgatory_async.clock import MonotonicClock
from purgatory_async.patterns import HandOff, Watermark
from purgatory_async.testing import settle
from purgatory_async.web import aiohttp_poll, asgi_poll, starlette_poll
from tests.web.exchange import Exchange
from tests.web.turns import end_of

pytestmark = pytest.mark.asyncio


async def held(*wait, **request):
    exchange = Exchange(*wait, **request).start()
    await settle()
    assert not exchange.answered, f"answered {exchange.sent}"
    return exchange


async def answered(*wait, **request):
    exchange = Exchange(*wait, **request).start()
    await settle()
    exchange.task.result()
    return exchange


async def test_the_value_that_comes_is_the_answer(purgatory):
    exchange = await held(purgatory.wait, "build:7")
    purgatory.complete_for_key("build:7", {"status": "green"})
    await settle()
    assert (exchange.status, exchange.json) == (200, {"status": "green"})
    assert exchange.headers["content-length"] == str(len(exchange.body))


async def test_a_value_that_is_there_is_answered_at_once(purgatory):
    exchange = await answered(partial(purgatory.wait, "build:7", until=lambda: "green"))
    assert (exchange.status, exchange.json) == (200, "green")


async def test_no_value_in_time_is_an_empty_204(purgatory, manual_clock):
    exchange = await held(purgatory.wait, "build:7", query="wait=5")
    manual_clock.advance(4.999)
    await settle()
    assert not exchange.answered
    manual_clock.advance(0.001)
    await settle()
    assert (exchange.status, exchange.body) == (204, b"")
    assert not {"content-length", "content-type"} & exchange.headers.keys()


async def test_a_wait_that_is_ended_for_its_key_is_an_empty_204(purgatory):
    exchange = await held(purgatory.wait, "build:7")
    purgatory.cancel_for_key("build:7")
    await settle()
    assert exchange.status == 204


class Noted:
    """A wait that notes for how long it was asked to wait."""

    def __init__(self):
        self.timeouts = []

    async def wait(self, *, timeout):
        self.timeouts.append(timeout)


@pytest.mark.parametrize(
    ("query", "prefer", "seconds", "applied"),
    [
        pytest.param("", None, 55.0, None, id="who asks for nothing gets the most"),
        pytest.param("wait=5", None, 5.0, None, id="the query's"),
        pytest.param("a=b&wait=250ms", None, 0.25, None, id="the query's, among others"),
        pytest.param("", "wait=7", 7.0, "wait=7", id="the preference's"),
        pytest.param("wait=5", "wait=7", 5.0, "wait=5", id="the query wins"),
        pytest.param("wait=0", "wait=7", 0.0, "wait=0", id="a query of zero wins"),
        pytest.param("wait=2m", None, 55.0, None, id="cut"),
        pytest.param("", "wait=100", 55.0, "wait=55", id="cut, and said so"),
        pytest.param("", "wait=soon", 55.0, None, id="a malformed preference is as none"),
        pytest.param("", "respond-async", 55.0, None, id="another preference"),
    ],
)
async def test_it_waits_as_requested_up_to_the_maximum(query, prefer, seconds, applied):
    noted = Noted()
    headers = [("prefer", prefer)] if prefer else []
    exchange = await answered(noted.wait, query=query, headers=headers)
    assert noted.timeouts == [seconds]
    assert exchange.headers.get("preference-applied") == applied


async def test_preferences_may_come_in_several_headers_of_any_case():
    noted = Noted()
    exchange = await answered(noted.wait, headers=[("Prefer", "respond-async"), ("PREFER", "wait=3")])
    assert noted.timeouts == [3.0]
    assert exchange.headers["preference-applied"] == "wait=3"


async def test_an_empty_answer_says_too_which_preference_was_used(purgatory, manual_clock):
    exchange = await held(purgatory.wait, "k", headers=[("prefer", "wait=3")])
    manual_clock.advance(3)
    await settle()
    assert (exchange.status, exchange.headers["preference-applied"]) == (204, "wait=3")


async def test_the_most_that_is_granted_can_be_set():
    noted = Noted()
    await answered(noted.wait, query="wait=20", max_wait=8)
    await answered(noted.wait, max_wait=8)
    assert noted.timeouts == [8, 8]


@pytest.mark.parametrize(
    ("fraction", "seconds"), [(0.0, 32.0), (0.5, 31.0), (1.0, 30.0)], ids=["none", "half", "all"]
)
async def test_a_random_part_of_up_to_a_sixteenth_is_taken_off(fraction, seconds):
    noted = Noted()
    await answered(noted.wait, query="wait=32", jitter=1 / 16, draw=lambda: fraction)
    assert noted.timeouts == [seconds]


def taken_from_a_hand_off(purgatory):
    return partial(HandOff(purgatory).take, "k")


def reached_by_a_watermark(purgatory):
    return partial(Watermark(timer=purgatory.timer).reach, 7)


@pytest.mark.parametrize(
    "wait_of",
    [
        pytest.param(lambda purgatory: partial(partial(purgatory.wait, "k")), id="wait"),
        taken_from_a_hand_off,
        reached_by_a_watermark,
    ],
)
async def test_on_a_manual_clock_there_is_no_jitter_by_default(wait_of, purgatory, manual_clock):
    terms = {"query": "wait=60m", "max_wait": 3600, "jitter": None, "draw": lambda: 1.0}
    exchange = await held(wait_of(purgatory), **terms)
    manual_clock.advance(3599.999)
    await settle()
    assert not exchange.answered
    manual_clock.advance(0.001)
    await settle()
    assert exchange.status == 204


async def test_on_a_manual_clock_there_is_the_jitter_that_is_given(purgatory, manual_clock):
    exchange = await held(purgatory.wait, "k", query="wait=32", jitter=1 / 16, draw=lambda: 1.0)
    manual_clock.advance(30)
    await settle()
    assert exchange.status == 204


@pytest.mark.asyncio(loop_factories=["virtual"])
async def test_on_a_virtual_loop_there_is_no_jitter_by_default():
    noted = Noted()
    await Exchange(noted.wait, query="wait=32", jitter=None, draw=lambda: 1.0).running
    async with Purgatory() as purgatory:
        await Exchange(purgatory.wait, "k", query="wait=32", jitter=None, draw=lambda: 1.0).running
    assert (noted.timeouts, asyncio.get_running_loop().time()) == ([32.0], 32.0)


@pytest.mark.parametrize("clock", [None, MonotonicClock()], ids=["default", "monotonic"])
async def test_on_a_real_clock_there_is_jitter_by_default(clock, monkeypatch):
    timeouts = []

    async def wait(self, key, *, timeout):
        timeouts.append(timeout)

    monkeypatch.setattr(Purgatory, "wait", wait)
    with closing(Timer(clock=clock)) as timer:
        purgatory = Purgatory(timer=timer)
        await Exchange(purgatory.wait, "k", query="wait=32", jitter=None, draw=lambda: 1.0).running
    assert timeouts == [30.0]


async def test_without_further_ado_waits_differ_and_are_never_longer():
    noted = Noted()
    for _ in range(50):
        exchange = Exchange(noted.wait, query="wait=32")
        exchange.running.close()
        scope = {"type": "http", "query_string": b"wait=32", "headers": []}
        await asgi_poll(scope, exchange.receive, exchange.send, noted.wait)
    assert len(set(noted.timeouts)) > 10
    assert all(30 <= timeout <= 32 for timeout in noted.timeouts)


async def test_a_malformed_wait_is_a_400_and_starts_no_wait():
    noted = Noted()
    exchange = await answered(noted.wait, query="wait=1w", headers=[("prefer", "wait=3")])
    assert exchange.status == 400
    assert exchange.headers["content-type"] == "text/plain; charset=utf-8"
    assert exchange.body == (
        b"wait must follow [0-9]{1,9}(ms|s|m|h|d)?, got '1w'; "
        b"write it as 250ms, 30s, 10m, 24h or 7d (bare digits are seconds)\n"
    )
    assert noted.timeouts == []


async def test_a_full_purgatory_is_a_503_that_says_when_to_come_again():
    async with Purgatory(max_pending=1) as purgatory:
        first = await held(purgatory.wait, "k")
        second = await answered(purgatory.wait, "k", draw=lambda: 0.35)
        assert (second.status, second.headers["retry-after"], second.body) == (503, "0", b"")
        assert "connection" not in second.headers
        purgatory.complete_for_key("k")
        await settle()
        assert first.status == 200


async def test_closing_the_purgatory_lets_its_polls_go_with_503(purgatory):
    exchange = await held(purgatory.wait, "k", draw=lambda: 0.99)
    purgatory.close()
    await settle()
    assert exchange.status == 503
    assert (exchange.headers["retry-after"], exchange.headers["connection"]) == ("1", "close")


@pytest.mark.parametrize(("version", "closed"), [("1.0", True), ("1.1", True), ("2", False), ("3", False)])
async def test_only_a_connection_of_http_1_is_closed_by_a_header(purgatory, version, closed):
    exchange = await held(purgatory.wait, "k", http_version=version)
    purgatory.close()
    await settle()
    assert (exchange.status, "connection" in exchange.headers) == (503, closed)
    assert "retry-after" in exchange.headers


async def test_a_purgatory_that_drains_takes_no_polls():
    async with Purgatory() as purgatory:
        purgatory.try_complete_else_watch(operation := DelayedOperation(), ("k",))
        assert not await purgatory.drain(timeout=0)
        exchange = await answered(purgatory.wait, "k")
        assert (exchange.status, exchange.headers["connection"]) == (503, "close")
        operation.cancel()


async def test_what_else_the_wait_raises_is_the_frameworks(purgatory):
    exchange = await held(purgatory.wait, "k")
    purgatory.fail_for_key("k", PermissionError("not yours"))
    with pytest.raises(PermissionError, match="not yours"):
        await end_of(exchange.task)
    assert exchange.sent == []


async def test_a_timeout_that_is_not_ours_is_the_frameworks():
    async def impatient(*, timeout):
        raise TimeoutError("the database did not answer")

    with pytest.raises(TimeoutError, match="database"):
        await Exchange(impatient).running


async def test_a_value_that_json_cannot_carry_is_the_frameworks_too(purgatory):
    exchange = await held(purgatory.wait, "k")
    purgatory.complete_for_key("k", {1})
    with pytest.raises(TypeError, match=r"what json.dumps takes, got \{1\} of type set"):
        await end_of(exchange.task)
    assert exchange.sent == []


async def test_a_value_is_encoded_as_the_handler_says(purgatory):
    exchange = await held(purgatory.wait, "k", encode=lambda value: {"value": value.hex()})
    purgatory.complete_for_key("k", b"\xff")
    await settle()
    assert (exchange.status, exchange.json) == (200, {"value": "ff"})


async def test_json_that_was_made_before_completing_is_the_answer(purgatory):
    exchange = await held(purgatory.wait, "k", encode=bytes)
    purgatory.complete_for_key("k", b'{"status": "green"}')
    await settle()
    assert (exchange.status, exchange.body) == (200, b'{"status": "green"}')


async def test_what_encode_raises_is_the_frameworks(purgatory):
    def encode(value):
        raise LookupError(value)

    exchange = await held(purgatory.wait, "k", encode=encode)
    purgatory.complete_for_key("k", "green")
    with pytest.raises(LookupError, match="green"):
        await end_of(exchange.task)
    assert exchange.sent == []


async def test_an_encode_that_is_no_function_is_refused_before_waiting():
    noted = Noted()
    with pytest.raises(TypeError, match="encode must be a function or None, got 'json'"):
        await Exchange(noted.wait, encode="json").running
    assert noted.timeouts == []


async def test_a_wait_that_is_no_async_function_is_refused_by_name(purgatory):
    def stop(*, timeout):
        return 3

    with pytest.raises(TypeError, match=r"wait must be an async function, but .*stop.* returned 3"):
        await Exchange(stop).running
    await settle()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize(
    ("terms", "complaint"),
    [
        ({"max_wait": -1}, r"max_wait must be from 0 to 3155760000 seconds, got -1"),
        ({"max_wait": float("nan")}, r"max_wait must be from 0 .* got nan"),
        ({"max_wait": float("inf")}, r"max_wait must be from 0 .* got inf"),
        ({"jitter": 1.5}, r"jitter must be from 0 to 1, a share of the wait, got 1.5"),
        ({"jitter": -0.1}, r"jitter must be from 0 to 1, a share of the wait, got -0.1"),
    ],
)
async def test_bad_terms_are_refused_by_value_and_bound(terms, complaint):
    noted = Noted()
    with pytest.raises(ValueError, match=complaint):
        await Exchange(noted.wait, **terms).running
    assert noted.timeouts == []


async def test_another_scope_than_one_of_http_is_refused_by_name():
    with pytest.raises(ValueError, match=r"asgi_poll answers scopes of type 'http', got 'websocket'"):
        await asgi_poll({"type": "websocket"}, None, None, Noted().wait)


async def test_the_wait_begins_before_anything_else_can_run(purgatory):
    done = {}
    order = []

    async def handler():
        if "k" not in done:
            asyncio.get_running_loop().call_soon(order.append, purgatory.pending)
            await Exchange(purgatory.wait, "k").running

    async def elsewhere():
        done["k"] = "green"
        order.append(purgatory.complete_for_key("k", "green"))

    one, other = asyncio.create_task(handler()), asyncio.create_task(elsewhere())
    await settle()
    assert one.done()
    assert other.done()
    assert order[0] == 1  # the signal that came straight after the look found the wait


async def test_a_client_still_sending_is_held_and_its_body_discarded(purgatory):
    exchange = Exchange(purgatory.wait, "k")
    exchange.inbox.get_nowait()
    exchange.start()
    for _ in range(10):
        exchange.inbox.put_nowait({"type": "http.request", "body": b"x" * 1000, "more_body": True})
    await settle()
    assert exchange.inbox.empty()
    assert not exchange.answered
    purgatory.complete_for_key("k")
    await settle()
    assert exchange.status == 200


async def test_a_stand_in_that_never_disconnects_is_not_asked_for_ever(purgatory):
    asked = []

    async def receive():
        asked.append(1)
        return {"type": "http.request", "body": b"", "more_body": False}

    exchange = Exchange(purgatory.wait, "k")
    exchange.receive = receive
    exchange.running.close()
    scope = {"type": "http", "query_string": b"", "headers": []}
    task = asyncio.create_task(asgi_poll(scope, receive, exchange.send, purgatory.wait, "k"))
    await settle()
    assert len(asked) == 2
    purgatory.complete_for_key("k")
    await end_of(task)
    assert exchange.status == 200


@pytest.mark.parametrize("poll", [aiohttp_poll, asgi_poll, starlette_poll])
async def test_every_way_in_takes_the_same_terms(poll):
    assert poll.__kwdefaults__.keys() == {"max_wait", "jitter", "draw", "encode", "retry_after"}
    assert (poll.__kwdefaults__["max_wait"], poll.__kwdefaults__["jitter"]) == (55.0, None)
