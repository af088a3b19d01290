"""Streams of events on a server that stops: each ends, within half a second, after the events until then."""

import asyncio
import signal
import weakref

import pytest

from purgatory_async import Purgatory
from purgatory_async.patterns import Broadcast
from purgatory_async.testing import settle
from purgatory_async.web._shutdown import held_on
from tests.web.exchange import Stream
from tests.web.streams import begun, items, over
from tests.web.turns import after_passes, end_of, passes

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("nothing_stays_behind")]

virtual = pytest.mark.asyncio(loop_factories=["virtual"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
async def test_a_signal_ends_every_stream(news, heard, number):
    streams = [await begun(news) for _ in range(20)]
    signal.raise_signal(number)
    await over(streams)
    assert all(stream.answered and stream.parsed.retries for stream in streams)
    assert (heard, news.subscribers) == ([number], 0)


async def test_what_is_published_before_a_signal_is_sent(news, heard):
    stream = await begun(news)
    news.publish(1)
    signal.raise_signal(signal.SIGTERM)
    news.publish(2)
    await over([stream])
    assert (stream.data, stream.answered) == (["1", "2"], True)


@pytest.mark.parametrize("published", range(4))
@pytest.mark.parametrize("stopped", range(4))
async def test_no_event_is_lost_in_the_pass_of_a_stop(news, published, stopped):
    stream = await begun(news)
    after_passes(published, lambda: news.publish(1))
    after_passes(stopped, held_on(asyncio.get_running_loop()).release)
    await passes(8)
    await end_of(stream.task)
    assert stream.data == ["1"] or published > stopped
    assert stream.answered


async def test_a_stream_that_is_being_written_ends_after_what_is_kept(news, heard):
    stream = await begun(news)
    stream.reads.clear()
    news.publish(1)
    await settle()
    news.publish(2)
    signal.raise_signal(signal.SIGTERM)
    await asyncio.sleep(0)
    stream.reads.set()
    await over([stream])
    assert (stream.data, stream.answered) == (["1", "2"], True)


@virtual
async def test_who_takes_nothing_delays_a_stop_by_half_a_second(heard):
    async with Purgatory() as purgatory:
        news = Broadcast(purgatory)
        stream = await begun(news)
        stream.reads.clear()
        news.publish(1)
        await settle()
        signal.raise_signal(signal.SIGTERM)
        before = asyncio.get_running_loop().time()
        await stream.task
        assert asyncio.get_running_loop().time() - before == 0.5
        assert (news.subscribers, stream.answered) == (0, False)


@virtual
async def test_an_iterable_ends_too_and_cleans_up(heard):
    closed = []

    async def endless():
        try:
            while True:
                yield 1
                await asyncio.sleep(7)
        finally:
            closed.append(1)

    stream = Stream(endless()).start()
    await asyncio.sleep(8)
    signal.raise_signal(signal.SIGTERM)
    await stream.task
    assert (stream.data, stream.answered, closed) == (["1", "1"], True, [1])


@virtual
async def test_a_stopping_server_answers_with_when_to_come_back(heard):
    async with Purgatory() as purgatory:
        news = Broadcast(purgatory)
        first = await begun(news)
        news.publish(1)
        signal.raise_signal(signal.SIGTERM)
        await first.task
        unread = items(1)
        for source in (news, unread):
            late = Stream(source, last_id=f"{news.epoch}-0")
            await late.running
            assert (late.status, late.events, len(late.parsed.retries)) == (200, [], 1)
        assert news.subscribers == 0
        assert await anext(unread) == 1


async def test_a_stop_leaves_no_timer_behind(news, heard):
    stream = await begun(news)
    signal.raise_signal(signal.SIGTERM)
    await over([stream])
    gone = weakref.ref(stream)
    del stream
    await settle()
    assert gone() is None
