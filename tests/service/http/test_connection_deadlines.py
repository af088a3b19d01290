"""How long a client may take for what, in virtual time: neither sooner nor later than it says."""

import json

import pytest

from purgatory_async.testing import settle
from tests.service.wire import BODY_TIME, HEAD_TIME, HELD, SIGNAL, request

pytestmark = pytest.mark.asyncio

# Deadlines are rounded up to a tick.
TICK = 0.01
HALF = request("/v1/operations", "POST", json.dumps({"keys": ["a"], "data": "x" * 50}).encode())[:-5]


@pytest.fixture
def wired(make_client):
    """Connections to a service; at the end nothing is left of any, and no deadline of what is gone."""
    made = make_client(max_wait="200s").server
    yield made
    assert made.idle
    made.client.clock.advance(60)  # what is kept of keys and operations
    assert not made.service.timer.pending


async def trickle(wired, link, data, seconds):
    """Send a byte a second."""
    for place in range(seconds):
        await link.send(data[place : place + 1])
        await wired.after(1)


@pytest.mark.parametrize("sent", [b"", b"\r\n"], ids=["nothing", "an empty line"])
async def test_a_connection_that_says_nothing_is_closed_without_a_word(wired, sent):
    link = wired.link()
    if sent:
        await link.send(sent)
    await wired.after(HEAD_TIME - TICK)
    assert link.open
    await wired.after(2 * TICK)
    assert (link.pipe.lost, link.pipe.written) == (True, b"")


async def test_a_head_has_its_time_from_accept_however_it_trickles_in(wired):
    link = wired.link()
    await wired.after(3)
    await trickle(wired, link, b"GET / HTTP/1.1\r\n", 6)
    assert link.open
    await wired.after(1 + TICK)
    assert (link.reply.status, link.refused) == (408, "too-slow")
    assert "head" in link.reply.json["detail"]
    assert "10 s" in link.reply.json["detail"]
    await link.hang_up()


async def test_the_next_head_has_its_time_from_its_first_byte(wired):
    link = wired.link()
    await wired.after(9)
    await link.send(request())
    await wired.after(70)
    await trickle(wired, link, b"GET / HTTP/1.1\r\n", 9)
    await wired.after(1 - TICK)
    assert link.open
    await wired.after(2 * TICK)
    assert [reply.status for reply in link.replies] == [200, 408]
    await link.hang_up()


async def test_a_head_behind_a_held_request_is_timed_from_the_answer(wired):
    link = wired.link()
    await link.send(HELD + b"GET / HTTP/1.1\r\n")
    await wired.after(30)
    await wired.client.signal("a")
    await wired.after(HEAD_TIME - TICK)
    assert link.open
    await wired.after(2 * TICK)
    assert [reply.status for reply in link.replies] == [200, 408]
    await link.hang_up()


async def test_a_connection_may_idle_75_seconds_after_each_answer(wired):
    link = wired.link()
    for answered in range(1, 4):
        await link.send(request())
        await wired.after(75 - TICK)
        assert (len(link.replies), link.open) == (answered, True)
    await wired.after(2 * TICK)
    assert (len(link.replies), link.pipe.lost) == (3, True)


async def test_a_body_is_timed_from_the_end_of_its_head(wired):
    link = wired.link()
    await trickle(wired, link, b"POST", 4)
    await link.send(HALF[4:-40])
    await trickle(wired, link, HALF[-40:], 29)
    await wired.after(1 - TICK)
    assert link.open
    await wired.after(2 * TICK)
    assert (link.reply.status, link.refused) == (408, "too-slow")
    assert "body" in link.reply.json["detail"]
    assert wired.service.pending == 0
    await link.hang_up()


async def test_a_chunked_body_has_its_time_too(wired):
    link = wired.link()
    fields = {"content_type": "application/json", "transfer_encoding": "chunked"}
    await link.send(request("/v1/keys/a/signal", "POST", **fields))
    await trickle(wired, link, b"100\r\n" + b" " * 30, 29)
    assert link.open
    await wired.after(1 + TICK)
    assert link.refused == "too-slow"
    await link.hang_up()
    assert wired.signals == 0


async def test_behind_a_refusal_for_slowness_nothing_is_run(wired):
    link = wired.link()
    await link.send(HALF)
    await wired.after(BODY_TIME + TICK)
    await link.send(b"     ", SIGNAL)
    assert link.refused == "too-slow"
    assert wired.signals == wired.service.pending == 0
    await link.hang_up()


async def test_a_held_request_has_no_deadline_but_its_own(wired):
    link = wired.link()
    await link.send(request("/v1/wait?key=a&wait=199s"))
    await wired.after(HEAD_TIME + TICK)
    assert wired.service.timer.pending == 1  # its wait's, and none of the connection
    await wired.after(198 - HEAD_TIME - TICK)
    assert (link.pipe.written, link.open) == (b"", True)
    await wired.after(1 + TICK)
    assert link.reply.status == 204
    await link.hang_up()


async def test_a_held_request_without_its_body_is_refused(wired):
    link = wired.link()
    await link.send(request("/v1/wait?key=a&wait=199s", content_length="5"))
    assert wired.service.held.requests.count == 1
    await wired.after(BODY_TIME + TICK)
    assert link.refused == "too-slow"
    assert wired.service.held.requests.count == 0
    await link.hang_up()


async def test_an_unread_body_is_timed_and_has_no_second_answer(wired):
    link = wired.link()
    await link.send(request("/nowhere", "POST", b"{}")[:-1])
    await wired.after(BODY_TIME - TICK)
    assert link.open
    await wired.after(2 * TICK)
    assert (link.reply.status, link.open) == (404, False)
    await link.hang_up()


async def test_a_client_that_does_not_read_is_cut_after_30_seconds(wired):
    link = wired.link()
    await link.send(HELD)
    await link.stop_reading()
    await wired.client.signal("a")
    await wired.after(30 - TICK)
    assert not link.pipe.cut
    await wired.after(2 * TICK)
    assert link.pipe.cut


async def test_a_client_that_reads_slowly_is_not_cut(wired):
    link = wired.link()
    await link.send(HELD)
    await link.stop_reading(100_000)
    await wired.client.signal("a")
    for unread in (90_000, 70_000, 69_999):
        link.pipe.unread = unread
        await wired.after(30 + TICK)
    assert (link.pipe.cut, link.open) == (False, True)
    await link.read_all()
    assert link.reply.status == 200
    await wired.after(75 - TICK)
    assert link.open
    await wired.after(2 * TICK)
    assert link.pipe.lost


async def test_a_client_that_never_reads_the_last_answer_is_cut(wired):
    link = wired.link()
    link.pipe.unread = 10  # too little for back-pressure
    await link.send(request(connection="close"))
    assert (link.pipe.closing, link.pipe.lost) == (True, False)
    await wired.after(30 + TICK)
    assert link.pipe.cut


async def test_a_client_that_never_reads_a_refusal_is_cut(wired):
    link = wired.link()
    link.pipe.unread = 10
    await link.send(b"\0")
    await wired.after(2 + TICK)
    assert (link.pipe.closing, link.pipe.cut) == (True, False)
    await wired.after(30 + TICK)
    assert link.pipe.cut


async def test_behind_a_refusal_the_client_has_two_seconds_to_read_it(wired):
    patient, quick = wired.link(), wired.link()
    await patient.send(b"\0")
    await quick.send(b"\0")
    await wired.after(2 - TICK)
    assert not patient.pipe.closing
    await quick.hang_up()
    assert quick.pipe.lost
    await wired.after(2 * TICK)
    assert patient.pipe.lost


async def test_an_answer_to_a_whole_request_does_not_linger(wired):
    link = wired.link()
    await link.send(request(connection="close"))
    assert link.pipe.lost


async def test_each_connection_has_one_deadline_on_the_services_timer(wired, monkeypatch):
    links = [wired.link() for _ in range(50)]
    for link in links[10:]:
        await link.send(request())
    for link in links[20:]:
        await link.send(b"GET")
    for link in links[30:]:
        await link.send(HALF[3:])
    assert wired.service.timer.pending == 50
    for link in links:
        await link.hang_up()
    assert wired.service.timer.pending == 0


async def test_a_connection_that_outlives_the_service_is_cut(wired):
    link = wired.link()
    await link.send(request())
    wired.service.close()
    await link.send(b"GET")
    await settle()
    assert link.pipe.cut


@pytest.mark.parametrize(
    ("sent", "status"), [(b"", []), (request(), [200]), (b"GET", [408])], ids=["new", "idle", "begun"]
)
async def test_after_shutdown_a_quiet_connection_has_one_second(wired, sent, status):
    link = wired.link()
    await link.send(sent)
    link.protocol.shutdown()
    await wired.after(1 - TICK)
    assert link.open
    await wired.after(2 * TICK)
    assert [reply.status for reply in link.replies] == status
    assert not link.open
    await link.hang_up()
