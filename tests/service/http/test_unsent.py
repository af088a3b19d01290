"""The budget of answers that clients have not taken, and the client that takes nothing."""

import asyncio

import pytest

from purgatory_async.durable.fold.entries import SignalKey
from purgatory_async.testing import settle
from tests.service.wire import SIGNAL as SIGNAL_SENT
from tests.service.wire import SocketlessServer, request

pytestmark = pytest.mark.asyncio

KIB = 1024
SIGNAL = SignalKey(key="a")
READ = request("/v1/keys/big")


@pytest.fixture
def wired(make_client):
    """Connections to a service with a big value, which two clients leave unread."""
    return SocketlessServer(make_client(max_wait="200s", max_unsent="256KiB"), stall=20.0)


async def leave_unread(wired):
    """Return connections of clients that have not taken their answers of 150 KiB each."""
    await wired.client.signal("big", value="x" * 150 * KIB)
    links = [wired.link(), wired.link()]
    for link in links:
        await link.send(READ)
        link.pipe.unread = 150 * KIB
        link.pipe.protocol.pause_writing()
    await wired.after(1)
    return links


async def let_read(link):
    link.pipe.unread = 0
    link.pipe.protocol.resume_writing()
    await settle()


async def asked(wired, *how):
    link = wired.link()
    await link.send(request(*how))
    await link.hang_up()
    return link.reply


async def test_requests_are_refused_while_answers_are_unread(wired):
    links = await leave_unread(wired)
    reply = await asked(wired, "/v1/keys/other")
    assert (reply.status, reply.slug, reply.json["budget"]) == (503, "overloaded", "max_unsent")
    assert (reply.json["limit"], reply.json["flag"]) == (256 * KIB, "--max-unsent")
    assert 300 * KIB <= reply.json["used"] <= 302 * KIB
    assert int(reply.headers["retry-after"]) >= 1
    for path in ("/v1/admin/stats", "/healthz", "/metrics"):
        assert (await asked(wired, path)).status == 200
    await let_read(links[0])
    await wired.after(1)
    assert (await asked(wired, "/v1/keys/other")).status == 200
    for link in links:
        await link.hang_up()


async def test_a_refused_change_changes_nothing(wired):
    links = await leave_unread(wired)
    before = wired.signals
    assert (await asked(wired, "/v1/keys/a/signal", "POST", b"{}")).status == 503
    assert wired.signals == before
    for link in links:
        await link.hang_up()


async def test_a_held_read_that_ends_meanwhile_is_refused(wired):
    held = wired.link()
    await held.send(request("/v1/keys/a?index=0&wait=100s"))
    links = await leave_unread(wired)
    wired.client.post(SIGNAL)
    await settle()
    assert (held.reply.status, held.reply.json["budget"]) == (503, "max_unsent")
    for link in (held, *links):
        await link.hang_up()


async def test_a_lost_connection_gives_its_bytes_back(wired):
    for link in await leave_unread(wired):
        link.pipe.lose(ConnectionResetError())
    await wired.after(1)
    assert (await asked(wired, "/v1/keys/other")).status == 200
    assert wired.service.held.unsent.used == 0


async def test_a_client_that_takes_nothing_is_cut_and_counted(wired):
    slow, still = await leave_unread(wired)
    await wired.after(18)
    slow.pipe.unread -= 1
    await wired.after(1.1)
    assert (slow.pipe.cut, still.pipe.cut) == (False, True)
    assert wired.warnings == [("client cut: it takes nothing", {"unsent": 150 * KIB, "seconds": 20.0})]
    assert b"purgatory_stalled_total 1.0" in (await asked(wired, "/metrics")).body
    await let_read(slow)
    await slow.hang_up()


async def long_answer(wired, *after):
    """Return a client that takes nothing of an answer of 1000 KiB, and has sent more requests."""
    await wired.client.signal("long", value="x" * 1000 * KIB)
    link = wired.link()
    link.pipe.taken = False
    await link.send(request("/v1/keys/long"), *after)
    return link


async def take_all(link):
    """Let a client take what is written piece by piece; return the most that its transport had at once."""
    most = 0
    while link.pipe.unread:
        most, link.pipe.unread = max(most, link.pipe.unread), 0
        link.protocol.resume_writing()
        await settle()
    return most


async def test_a_transport_gets_a_long_answer_in_pieces(make_client):
    """It keeps what it has until the last byte is gone: in one piece, memory holds much more than is unsent."""
    wired = make_client(max_wait="200s").server
    link = await long_answer(wired)
    assert link.pipe.unread <= 3 * 64 * KIB
    assert link.protocol.unsent > 1000 * KIB
    assert wired.service.held.unsent.used == link.protocol.unsent
    assert await take_all(link) <= 3 * 64 * KIB
    assert (link.reply.json["value"], link.protocol.unsent) == ("x" * 1000 * KIB, 0)
    await link.hang_up()


async def test_no_answer_is_made_while_another_is_unsent(make_client):
    wired = make_client(max_wait="200s").server
    link = await long_answer(wired, SIGNAL_SENT, SIGNAL_SENT)
    signals = wired.signals
    await wired.after(1)
    assert wired.signals == signals
    await take_all(link)
    await settle()
    assert wired.signals == signals + 2
    assert [reply.status for reply in link.replies] == [200, 200, 200]
    await link.hang_up()


async def test_the_last_answer_is_whole_before_the_end(make_client):
    wired = make_client(max_wait="200s").server
    await wired.client.signal("long", value="x" * 1000 * KIB)
    link = wired.link()
    link.pipe.taken = False
    await link.send(request("/v1/keys/long", Connection="close"))
    assert link.open
    await take_all(link)
    assert (len(link.reply.json["value"]), link.open) == (1000 * KIB, False)


async def test_what_waits_to_write_ends_with_the_connection(make_client):
    wired = make_client(max_wait="200s").server
    link = await long_answer(wired)
    waiting = asyncio.create_task(link.protocol.writable())
    await settle()
    assert not waiting.done()
    link.pipe.lose(ConnectionResetError())
    await settle()
    assert (waiting.done(), wired.idle) == (True, True)
