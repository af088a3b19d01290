"""A protocol in front of another one: it notices the end of the connection, and changes nothing."""

import asyncio
from functools import partial
from unittest.mock import Mock

import pytest

from purgatory_async.patterns import HandOff
from purgatory_async.testing import assert_clean, settle
from purgatory_async.web._aiohttp import _overhearing
from purgatory_async.web.race import ClientLeft, Race
from tests.web.turns import end_of

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("nothing_stays_behind")]


class Behind(asyncio.Protocol):
    """The protocol behind; records its calls."""

    def __init__(self):
        self.calls = []

    def data_received(self, data):
        self.calls.append(data)

    def eof_received(self):
        self.calls.append("eof")
        return True

    def pause_writing(self):
        self.calls.append("pause")

    def resume_writing(self):
        self.calls.append("resume")

    def connection_lost(self, exc):
        self.calls.append(exc)


class Wire(asyncio.Transport):
    """A transport without a connection."""

    def __init__(self):
        super().__init__()
        self.behind = self.protocol = Behind()

    def get_protocol(self):
        if self.protocol is None:
            raise AttributeError("a transport of TLS has none to ask")
        return self.protocol

    def set_protocol(self, protocol):
        self.protocol = protocol

    def lose(self, exc=None):
        self.protocol.connection_lost(exc)
        self.protocol = None


async def held(wire, wait, *args):
    async def hold():
        race = Race()
        with _overhearing(wire, race):
            return await race.run(wait, args, timeout=5)

    task = asyncio.create_task(hold())
    await settle()
    return task


async def test_a_lost_connection_ends_the_wait_and_is_passed_on(purgatory):
    wire = Wire()
    task = await held(wire, purgatory.wait, "k")
    broken = ConnectionResetError()
    wire.lose(broken)
    assert purgatory.complete_for_key("k") == 0
    assert wire.behind.calls == [broken]
    with pytest.raises(ClientLeft):
        await end_of(task)
    assert wire.protocol is None
    assert_clean(purgatory)


async def test_what_else_happens_on_the_connection_is_passed_on(purgatory):
    wire = Wire()
    task = await held(wire, purgatory.wait, "k")
    assert wire.protocol is not wire.behind
    wire.protocol.data_received(b"next")
    wire.protocol.pause_writing()
    wire.protocol.resume_writing()
    assert wire.protocol.eof_received() is True
    assert wire.behind.calls == [b"next", "pause", "resume", "eof"]
    purgatory.complete_for_key("k", "green")
    assert await end_of(task) == "green"


async def test_when_the_poll_is_over_the_protocol_is_as_it_was(purgatory):
    wire = Wire()
    task = await held(wire, purgatory.wait, "k")
    purgatory.complete_for_key("k")
    await end_of(task)
    assert wire.protocol is wire.behind


@pytest.mark.parametrize("first", [0, 1])
async def test_two_polls_of_one_request_share_the_listener(purgatory, first):
    wire = Wire()
    tasks = [await held(wire, purgatory.wait, key) for key in range(2)]
    purgatory.complete_for_key(first)
    await end_of(tasks[first])
    assert wire.protocol is not wire.behind
    wire.protocol.data_received(b"next")
    assert wire.behind.calls == [b"next"]
    purgatory.complete_for_key(1 - first)
    await end_of(tasks[1 - first])
    assert wire.protocol is wire.behind


async def test_two_polls_of_one_request_both_end_when_it_leaves(purgatory):
    wire = Wire()
    tasks = [await held(wire, purgatory.wait, key) for key in range(2)]
    wire.lose()
    for task in tasks:
        with pytest.raises(ClientLeft):
            await end_of(task)


async def test_a_protocol_set_meanwhile_stays(purgatory):
    wire = Wire()
    task = await held(wire, purgatory.wait, "k")
    wire.set_protocol(theirs := Behind())
    purgatory.complete_for_key("k")
    await end_of(task)
    assert wire.protocol is theirs


async def test_a_connection_that_is_lost_already_is_not_waited_for(purgatory):
    task = await held(None, purgatory.wait, "k")
    with pytest.raises(ClientLeft):
        await end_of(task)


async def test_a_transport_that_is_none_is_held_all_the_same(purgatory):
    task = await held(Mock(asyncio.Transport), purgatory.wait, "k")
    purgatory.complete_for_key("k", "green")
    assert await end_of(task) == "green"


@pytest.mark.parametrize("first", ["came", "left"])
async def test_an_item_arriving_as_the_client_leaves_is_kept(purgatory, first):
    wire, jobs = Wire(), HandOff(purgatory)
    task = await held(wire, jobs.take, "resize")
    happenings = [partial(jobs.put, "resize", "cat.png"), wire.lose]
    for happen in happenings if first == "came" else reversed(happenings):
        happen()
    with pytest.raises(ClientLeft):
        await end_of(task)
    assert jobs.clear() == [("resize", "cat.png")]
