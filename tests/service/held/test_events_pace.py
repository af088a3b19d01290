"""Event streams under slow readers, storms and crowds: no reader slows another down."""

import asyncio
import contextlib
from itertools import pairwise

import pytest

from purgatory_async.durable.fold.entries import SignalKey
from purgatory_async.durable.waiting.feed import CHUNK, KEPT
from purgatory_async.service.held import stream
from purgatory_async.service.http.head import HeadReader
from purgatory_async.testing import cancel_sweep, settle
from purgatory_async.web.race import ClientLeft
from tests.service.held.event_reading import comments_in, events_in

pytestmark = pytest.mark.asyncio

LARGEST_WRITE = CHUNK + 1024  # and the rest of an event, here with short keys


class Reader:
    """A client whose connection accepts output only while it reads."""

    def __init__(self, client, after=0):
        self.writes = []
        self.ended = False
        self.waiting = False  # whether something is written that it does not take
        self._reading = asyncio.Event()
        self._reading.set()
        self._left = asyncio.Event()
        headers = [
            (b"host", b"localhost"),
            (b"last-event-id", f"{client.service.state.epoch}-{after}.{min(after, 1)}".encode()),
        ]
        scope = {"type": "http", "method": "GET", "path": "/v1/events", "raw_path": b"/v1/events"}
        scope |= {"query_string": b"", "headers": headers}
        self.task = asyncio.get_running_loop().create_task(client.app(scope, self._receive, self._send))

    async def _receive(self):
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        if message["type"] == "http.response.body":
            if message["body"]:
                self.waiting = True
                await self._reading.wait()
                self.waiting = False
                self.writes.append(message["body"])
            self.ended = not message["more_body"]

    def stop_reading(self):
        self._reading.clear()

    def read_on(self):
        self._reading.set()

    def leave(self):
        self._left.set()

    @property
    def events(self):
        return events_in(b"".join(self.writes))


async def reading(client, after=0):
    """A reader that has received all events so far, and waits."""
    reader = Reader(client, after)
    await settle()
    await client.advance(stream.PAUSE)
    return reader


def happen(client, number=1):
    """Make this many events, without HTTP."""
    for _ in range(number):
        client.post(SignalKey(key="noise"))


async def wait_until_idle(client, reader):
    """Let the reader have all there is for it."""
    before = -1
    while before != len(reader.writes):
        before = len(reader.writes)
        await client.advance(stream.PAUSE)


async def test_a_reader_that_is_too_slow_gets_a_gap_and_then_goes_on(client):
    reader = await reading(client)
    reader.stop_reading()
    happen(client, 3)
    await settle()
    assert reader.waiting
    happen(client, KEPT + 100)
    await settle()
    reader.read_on()
    await wait_until_idle(client, reader)
    first, second, third, gap, *rest = reader.events
    assert [first.number, second.number, third.number] == [1, 2, 3]
    epoch = client.service.state.epoch
    assert gap == (103, "gap", {"next": f"{epoch}-104.1", "missed": 100})
    assert [event.number for event in rest] == list(range(104, KEPT + 104))


async def test_what_a_reader_does_not_take_is_not_kept_for_it(client):
    reader = await reading(client)
    reader.stop_reading()
    for _ in range(6):
        happen(client, 5000)
        await settle()
    assert len(reader.writes) == 1  # the comment at the beginning; one more is on its way, and that is all
    reader.read_on()
    await settle()
    assert max(map(len, reader.writes)) < LARGEST_WRITE


async def test_a_reader_that_takes_nothing_for_a_minute_is_given_up(client):
    reader = await reading(client)
    reader.stop_reading()
    happen(client)
    await settle()
    await client.advance(stream.PATIENCE - 0.1)
    assert not reader.task.done()
    await client.advance(0.1)
    assert reader.task.done()
    assert not reader.ended
    assert isinstance(reader.task.exception(), ConnectionError)  # so that the server cuts the connection
    assert not client.service.held.streams.running


async def test_a_reader_that_takes_a_little_sometimes_is_kept(client):
    reader = await reading(client)
    for _ in range(5):
        await client.advance(stream.PAUSE)
        reader.stop_reading()
        happen(client)
        await settle()
        await client.advance(stream.PATIENCE - 1)
        reader.read_on()
        await settle()
    assert not reader.task.done()
    reader.leave()
    await settle()


async def test_a_drain_has_no_patience_with_who_does_not_read(client):
    stuck, quick = await reading(client), await reading(client)
    stuck.stop_reading()
    happen(client)
    await settle()
    client.service.drain()
    await client.advance(stream.PAUSE)
    assert quick.ended
    assert not stuck.task.done()
    await client.advance(stream.LAST_PATIENCE)
    assert isinstance(stuck.task.exception(), ConnectionError)
    assert not stuck.ended


async def test_a_reader_back_in_time_gets_the_rest_before_the_drain(client):
    reader = await reading(client)
    reader.stop_reading()
    happen(client)
    await settle()
    happen(client)
    client.service.drain()
    await client.advance(stream.LAST_PATIENCE / 2)
    reader.read_on()
    await client.advance(stream.PAUSE)
    assert reader.ended
    assert [event.number for event in reader.events] == [1, 2]


async def test_a_reader_leaving_during_a_write_is_removed_at_once(client):
    reader = await reading(client)
    reader.stop_reading()
    happen(client)
    await settle()
    assert reader.waiting
    reader.leave()
    await settle()
    assert reader.task.done()
    assert not client.service.held.streams.running


async def test_a_storm_of_events_is_no_storm_of_writes(client):
    reader = await reading(client)
    for _ in range(1000):
        happen(client)
        await asyncio.sleep(0)
        client.clock.advance(stream.PAUSE / 1000)
    await client.advance(stream.PAUSE)
    assert [event.number for event in reader.events] == list(range(1, 1001))
    assert len(reader.writes) <= 3 + sum(map(len, reader.writes)) // CHUNK


async def test_the_first_event_after_a_silence_comes_at_once(client):
    reader = await reading(client)
    await client.advance(1)
    happen(client)
    await settle()
    assert len(reader.events) == 1


async def test_a_long_replay_comes_in_pieces_between_other_turns(client):
    happen(client, KEPT)
    reader, written = Reader(client), [0]
    for _ in range(2000):
        await asyncio.sleep(0)
        written.append(sum(map(len, reader.writes)))
    assert len(reader.events) == KEPT
    assert max(after - before for before, after in pairwise(written)) < 2 * LARGEST_WRITE
    assert max(map(len, reader.writes)) < LARGEST_WRITE
    reader.leave()
    await settle()


async def test_a_crowd_that_reads_the_same_costs_one_text(client):
    readers = [await reading(client) for _ in range(100)]
    happen(client, 50)
    await client.advance(stream.PAUSE)
    last = {id(reader.writes[-1]) for reader in readers}
    assert len(last) == 1
    for reader in readers:
        reader.leave()
    await settle()


async def test_readers_of_different_pace_do_not_disturb_each_other(client):
    slow, quick = await reading(client), await reading(client)
    for step in range(40):
        slow.stop_reading() if step % 8 else slow.read_on()
        happen(client, 25)
        await client.advance(stream.PAUSE)
        assert len(quick.events) == 25 * (step + 1)
    slow.read_on()
    await wait_until_idle(client, slow)
    assert slow.events == quick.events
    for reader in (slow, quick):
        reader.leave()
    await settle()


async def test_a_comment_waits_for_the_reader_too(client):
    reader = await reading(client)
    reader.stop_reading()
    await client.advance(stream.SILENCE)
    assert reader.waiting
    await client.advance(stream.PATIENCE)
    assert isinstance(reader.task.exception(), ConnectionError)
    assert comments_in(b"".join(reader.writes)) == 1


async def test_a_server_error_on_send_counts_as_a_disconnect(client):
    async def receive():
        await asyncio.Event().wait()

    async def send(message):
        if message["type"] == "http.response.body":
            raise ConnectionResetError

    scope = {"type": "http", "method": "GET", "path": "/v1/events", "raw_path": b"/v1/events"}
    scope |= {"query_string": b"", "headers": [(b"host", b"localhost")]}
    await client.app(scope, receive, send)
    assert not client.service.held.streams.running


async def test_a_stream_cancelled_anywhere_leaves_nothing_behind(make_client):
    client = make_client()
    service = client.service
    head = HeadReader().read(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")

    async def scenario():
        loop, sends = asyncio.get_running_loop(), []
        happen(client)

        class Wire:
            async def open(self, lines):
                await self.send(lines)

            async def send(self, piece):
                await asyncio.sleep(0)
                sends.append(piece)
                if len(sends) == 3:
                    happen(client, 2)
                if len(sends) > 5:
                    raise ConnectionResetError

        def tick():
            nonlocal ticking
            client.clock.advance(1)
            ticking = loop.call_soon(tick)

        ticking = loop.call_soon(tick)
        try:
            with contextlib.suppress(ClientLeft):
                await service.held.streams.stream(client.app.request(head, Wire()), 0)
        finally:
            ticking.cancel()

    try:
        assert await cancel_sweep(scenario) > 5
    finally:
        await settle()
    assert not service.held.streams.running
    assert service.held.feed._waiting == 0
    assert service.timer.pending == 0
