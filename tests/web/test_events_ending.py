"""Streams of events in virtual time: when a comment comes, and when a stream ends."""

import asyncio
import gc
import weakref
from contextvars import ContextVar

import pytest

from purgatory_async import DelayedOperation, Purgatory, Timer
from purgatory_async.patterns import Broadcast
from purgatory_async.testing import ManualClock, assert_clean, cancel_sweep, settle
from purgatory_async.web import asgi_events
from tests.cancelling import each_way
from tests.web.exchange import Stream
from tests.web.streams import begun, ended, hung_up, items
from tests.web.turns import after_passes, end_of, passes

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("nothing_stays_behind")]

virtual = pytest.mark.asyncio(loop_factories=["virtual"])


# Time.


async def test_a_comment_comes_with_each_heartbeat_of_silence(news, manual_clock):
    stream = await begun(news, heartbeat=10)
    manual_clock.advance(9.999)
    await settle()
    assert stream.parsed.comments == 0
    news.publish(1)
    await settle()
    manual_clock.advance(9.999)
    await settle()
    assert stream.parsed.comments == 0
    for beats in (1, 2):
        manual_clock.advance(10)
        await settle()
        assert stream.parsed.comments == beats
    await hung_up(stream)


@virtual
async def test_a_heartbeat_does_not_disturb_an_iterable():
    async def slowly():
        for number in range(3):
            await asyncio.sleep(25)
            yield number

    stream = Stream(slowly())
    await stream.running
    assert (stream.data, stream.parsed.comments) == (["0", "1", "2"], 3)


async def test_a_client_that_takes_nothing_is_unsubscribed(news, manual_clock):
    stream = await begun(news, send_timeout=5)
    stream.reads.clear()
    news.publish(1)
    await settle()
    manual_clock.advance(4.999)
    await settle()
    assert news.subscribers == 1
    manual_clock.advance(0.001)
    await end_of(stream.task)
    assert (news.subscribers, stream.answered) == (0, False)


@virtual
async def test_the_source_of_a_client_that_takes_nothing_is_closed():
    closed = []

    async def endless():
        try:
            while True:
                await asyncio.sleep(2)
                yield 1
        finally:
            closed.append(asyncio.get_running_loop().time())

    stream = Stream(endless(), send_timeout=5).start()
    await asyncio.sleep(1)
    stream.reads.clear()
    await stream.task
    assert closed == [7.0]


# How it ends.


async def test_a_client_that_leaves_is_unsubscribed_in_that_turn(news):
    stream = await begun(news)
    stream.hang_up()
    await settle()
    assert (stream.task.done(), news.subscribers) == (True, 0)
    assert not stream.answered


@pytest.mark.parametrize("left", range(5))
@pytest.mark.parametrize("first", ["beat", "left"])
async def test_a_client_that_leaves_at_a_heartbeat_is_noticed(news, manual_clock, left, first):
    stream = await begun(news, heartbeat=10)
    calls = [(2, lambda: manual_clock.advance(10)), (left, stream.hang_up)]
    for offset, call in calls if first == "beat" else reversed(calls):
        after_passes(offset, call)
    await passes(8)
    await end_of(stream.task)
    assert news.subscribers == 0


async def test_a_server_that_reports_it_on_sending_is_understood(news):
    stream = await begun(news)

    async def send(message):
        raise OSError("broken pipe")

    stream.send = send
    scope = {"type": "http", "headers": []}
    task = asyncio.create_task(asgi_events(scope, stream.receive, send, news))
    await end_of(task)
    await hung_up(stream)
    assert news.subscribers == 0


async def test_a_closed_broadcast_ends_after_what_it_keeps(news):
    stream = await begun(news)
    news.publish(1)
    news.close()
    await end_of(stream.task)
    assert (stream.data, stream.answered) == (["1"], True)


async def test_a_closed_purgatory_ends_its_streams(purgatory, news):
    stream = await begun(news)
    purgatory.close()
    await end_of(stream.task)
    assert stream.answered
    late = await ended(news)
    assert (late.status, late.events, len(late.parsed.retries)) == (200, [], 1)


async def test_a_purgatory_that_is_full_or_drains_ends_a_stream():
    async with Purgatory(max_pending=1) as purgatory:
        purgatory.try_complete_else_watch(operation := DelayedOperation(), ("k",))
        news = Broadcast(purgatory)
        full = await ended(news)
        assert not await purgatory.drain(timeout=0)
        draining = await ended(news)
        assert len(full.parsed.retries) == len(draining.parsed.retries) == 1
        operation.cancel()


async def test_a_timer_that_is_full_or_closed_stops_no_stream():
    timer = Timer(clock=ManualClock(), max_pending=1)
    async with Purgatory(timer=timer) as purgatory:
        timer.call_later(5, print)
        news = Broadcast(purgatory)
        stream = await begun(news)
        news.publish(1)
        await settle()
        timer.close()
        news.publish(2)
        await settle()
        assert stream.data == ["1", "2"]
        await hung_up(stream)


async def test_what_the_source_raises_is_the_frameworks():
    async def broken():
        yield 1
        raise LookupError("the database")

    stream = await begun(broken())
    with pytest.raises(LookupError, match="the database"):
        await end_of(stream.task)
    assert (stream.data, stream.answered) == (["1"], False)


async def test_a_source_that_is_cancelled_by_itself_ends_the_stream():
    async def given_up():
        yield 1
        raise asyncio.CancelledError

    stream = await begun(given_up())
    with pytest.raises(asyncio.CancelledError):
        await end_of(stream.task)
    assert stream.data == ["1"]


async def test_what_json_cannot_carry_is_the_frameworks(news):
    stream = await begun(news)
    news.publish({1})
    with pytest.raises(TypeError, match=r"what json.dumps takes, got \{1\} of type set"):
        await end_of(stream.task)
    stream.task = None  # and its traceback, which shows the subscription
    assert news.subscribers == 0


async def test_a_name_with_a_line_end_is_the_frameworks():
    stream = await begun(items(1), event=lambda item: "a\ndata: b")
    with pytest.raises(ValueError, match="event must be one line"):
        await end_of(stream.task)


async def test_another_fault_of_the_server_goes_to_the_framework(purgatory, news):
    stream = await begun(news)
    stream.inbox.put_nowait(LookupError("a fault of the server"))
    with pytest.raises(LookupError, match="a fault of the server"):
        await end_of(stream.task)
    assert_clean(purgatory)


@each_way
async def test_a_cancellation_from_outside_leaves_nothing(purgatory, news, cancel):
    stream = Stream(news)
    await cancel(stream.running)
    assert_clean(purgatory)


REQUEST = ContextVar("request")


async def test_a_source_runs_in_one_task_with_the_requests_context():
    tasks = []

    async def watched():
        tasks.append((asyncio.current_task(), REQUEST.get()))
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            tasks.append((asyncio.current_task(), REQUEST.get()))

    REQUEST.set("7")
    stream = await begun(watched())
    await hung_up(stream)
    assert tasks[0] == tasks[1]
    assert tasks[0][1] == "7"


@pytest.mark.parametrize("kind", ["broadcast", "iterable"])
async def test_cancelled_anywhere_it_leaves_nothing(kind):
    scenes = []

    async def endless():
        scenes.append("open")
        try:
            while True:
                await asyncio.sleep(0)
                yield 1
        finally:
            scenes.append("closed")

    async def scenario():
        purgatory = Purgatory(timer=Timer(clock=ManualClock()))
        news = Broadcast(purgatory)
        stream = Stream(news if kind == "broadcast" else endless())
        for offset in (2, 4, 6):
            after_passes(offset, lambda: news.publish(1))
        after_passes(9, stream.hang_up)
        try:
            await stream.running
        finally:
            await settle()
            assert_clean(purgatory)
            assert scenes.count("open") == scenes.count("closed")

    await cancel_sweep(scenario)
    await passes(10)


@pytest.mark.parametrize("kind", ["broadcast", "iterable"])
async def test_no_cycle_is_left_for_the_collector(purgatory, kind):
    news = Broadcast(purgatory)

    async def endless():
        yield 1
        await asyncio.Event().wait()

    def run(stream):
        return stream.start().task

    gc.collect()
    gc.disable()
    try:
        stream = Stream(news if kind == "broadcast" else endless())
        gone = weakref.ref(stream)
        task = run(stream)
        news.publish(1)
        await settle()
        stream.hang_up()
        await settle()
        assert task.done()
        del task, stream
        await settle()
        assert gone() is None
    finally:
        gc.enable()
