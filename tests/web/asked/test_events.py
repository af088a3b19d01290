"""Streams of events that people have asked for in public: their own way, with its fault, and the same in one call."""

import asyncio
import signal

import pytest

from purgatory_async import Purgatory
from purgatory_async.patterns import Broadcast
from purgatory_async.testing import settle
from tests.web.event_lines import parse
from tests.web.exchange import Stream
from tests.web.streams import begun, ended, hung_up, items

pytestmark = pytest.mark.asyncio

virtual = pytest.mark.asyncio(loop_factories=["virtual"])


class ByHand(Stream):
    """A stream whose application writes what ``frames`` gives, as it comes."""

    def __init__(self, frames):
        super().__init__(items())
        self.running.close()
        self.running = self.pass_on(frames)

    async def pass_on(self, frames):
        await self.send({"type": "http.response.start", "status": 200, "headers": []})
        async for frame in frames:
            await self.send({"type": "http.response.body", "body": frame, "more_body": True})
        await self.send({"type": "http.response.body", "body": b""})


# sysid/sse-starlette#107 and fastapi/fastapi#15608: text is cut into lines where Python sees some, so that a client
# reads other text than was sent: of a line separator within JSON it gets a piece that is no JSON.

TEXT = "one\u2028two\x1ethree"


async def by_splitlines(text):
    yield b"".join(f"data: {line}\n".encode() for line in text.splitlines()) + b"\n"


async def test_text_by_hand_loses_its_separators():
    by_hand = ByHand(by_splitlines(TEXT)).start()
    await settle()
    assert by_hand.data == ["one\ntwo\nthree"]


async def test_text_arrives_as_it_was():
    stream = await ended(items(TEXT, "\n\n"), encode=str.encode)
    assert stream.data == [TEXT, "\n\n"]


# sysid/sse-starlette#89: a client that is connected and reads nothing holds its generator for ever.


async def ticks(left):
    try:
        while True:
            yield b"data: 1\n\n"
            await asyncio.sleep(1)
    finally:
        left.append(asyncio.get_running_loop().time())


@virtual
async def test_by_hand_a_client_that_does_not_read_stays():
    left = []
    stream = ByHand(ticks(left)).start()
    stream.reads.clear()
    await asyncio.sleep(3600)
    assert (left, stream.task.done()) == ([], False)
    stream.task.cancel()


@virtual
async def test_a_client_that_does_not_read_is_given_up():
    left = []
    stream = Stream(ticks(left), encode=bytes, send_timeout=30).start()
    await asyncio.sleep(10)
    stream.reads.clear()
    await asyncio.sleep(40)
    assert (stream.task.done(), len(left)) == (True, 1)


# sysid/sse-starlette#8, #128: the server is stopped, and waits for the streams, which wait for events.


async def of_queue(queue):
    while True:
        yield b"data: %d\n\n" % await queue.get()


@virtual
async def test_by_hand_a_stream_outlives_the_signal(heard):
    stream = ByHand(of_queue(asyncio.Queue())).start()
    await settle()
    signal.raise_signal(signal.SIGTERM)
    await asyncio.sleep(3600)
    assert not stream.task.done()
    stream.task.cancel()


@virtual
async def test_a_stream_ends_with_its_server(heard):
    async with Purgatory() as purgatory:
        stream = await begun(Broadcast(purgatory))
        signal.raise_signal(signal.SIGTERM)
        await stream.task
        assert stream.answered


# doobidoo/mcp-memory-service#953: what is published while a client is away is lost to it; a list of queues, one for
# each connection, knows nothing of the client that was there before.


async def test_by_hand_a_client_that_was_away_misses_events():
    queues = []

    async def follow():
        queues.append(queue := asyncio.Queue())
        try:
            async for frame in of_queue(queue):
                yield frame
        finally:
            queues.remove(queue)

    streams = []
    for number in (1, 2, 3):  # it is away for the second
        if number != 2:
            streams.append(ByHand(follow()).start())
            await settle()
        for queue in queues:
            queue.put_nowait(number)
        await settle()
        if number != 2:
            streams[-1].task.cancel()
            await settle()
    assert [parse(stream.body).events[0].data for stream in streams] == ["1", "3"]


async def test_a_client_that_was_away_gets_what_it_missed(news):
    first = await begun(news)
    news.publish(1)
    await settle()
    await hung_up(first)
    news.publish(2)
    second = await begun(news, last_id=first.last_id)
    news.publish(3)
    await settle()
    assert first.data + second.data == ["1", "2", "3"]
    await hung_up(second)
