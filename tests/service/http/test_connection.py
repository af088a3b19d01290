"""One connection: requests are read to the letter, answered in turn, and what is refused is never run."""

import json
from unittest.mock import ANY

import pytest

from purgatory_async.service.contract.http_problems import HttpKind
from purgatory_async.testing import settle
from tests.service.http.malformed import BODIES, HEADS, TOO_LONG
from tests.service.wire import BODY_TIME, HELD, SIGNAL, replies, request

pytestmark = pytest.mark.asyncio


@pytest.fixture
def wired(make_client):
    """Connections to a service; at the end nothing is left of any."""
    made = make_client().server
    yield made
    assert made.idle
    assert not made.service.timer.pending


async def done(wired, *links):
    """Let go of connections that are still open."""
    for link in links:
        await link.hang_up()
    await settle()
    await wired.after(200)


async def test_a_request_is_answered_and_another_may_follow(wired):
    link = wired.link()
    await link.send(SIGNAL, request())
    first, second = link.replies
    assert (first.status, first.json["index"], second.status) == (200, 1, 200)
    assert first.headers["date"] == "Thu, 01 Jan 2026 12:00:00 GMT"
    assert link.open
    await done(wired, link)


async def test_a_request_may_come_in_pieces_of_any_size(wired):
    for size in (1, 2, 3, 7, len(SIGNAL) - 1):
        link = wired.link()
        await link.send(*(SIGNAL[start : start + size] for start in range(0, len(SIGNAL), size)))
        assert link.reply.status == 200
        await done(wired, link)


async def test_a_chunked_body_is_a_body(wired):
    link = wired.link()
    raw = request("/v1/keys/a/signal", "POST", content_type="application/json", transfer_encoding="chunked")
    await link.send(raw + b'5\r\n{"val\r\n', b'6\r\nue":5}\r\n0\r', b"\n\r\n" + request("/v1/keys/a"))
    assert [reply.status for reply in link.replies] == [200, 200]
    assert link.replies[1].json["value"] == 5
    await done(wired, link)


@pytest.mark.parametrize("raw", [pytest.param(raw, id=name) for name, raw in {**HEADS, **BODIES}.items()])
@pytest.mark.parametrize("together", [True, False], ids=["together", "one by one"])
async def test_malformed_input_is_refused_and_nothing_behind_it_runs(wired, raw, together):
    link = wired.link()
    data = raw + SIGNAL
    await link.send(*([data] if together else (data[place : place + 1] for place in range(len(data)))))
    assert link.refused == "malformed-request"
    assert link.reply.status == 400
    await done(wired, link)
    assert wired.signals == 0


@pytest.mark.parametrize(("raw", "status", "slug"), TOO_LONG.values(), ids=TOO_LONG)
async def test_what_is_too_long_is_refused_before_it_ends(wired, raw, status, slug):
    link = wired.link()
    await link.send(raw)
    assert (link.reply.status, link.refused) == (status, slug)
    assert link.reply.json["limit"] > 0
    await link.send(SIGNAL)
    assert link.reply.status == status
    await done(wired, link)
    assert wired.signals == 0


async def test_a_request_with_a_visibly_malformed_body_is_not_run(wired):
    await wired.client.submit("a", id="op")
    link = wired.link()
    await link.send(request("/v1/operations/op", "DELETE", transfer_encoding="chunked") + b"nothing\r\n")
    assert link.refused == "malformed-request"
    assert (await wired.client.request("GET", "/v1/operations/op")).json["state"] == "pending"
    await wired.client.signal("a")
    await done(wired, link)


async def test_a_refusal_has_the_fields_of_every_answer(wired):
    link = wired.link()
    await link.send(b"?\0")
    assert link.reply.headers == {
        "date": "Thu, 01 Jan 2026 12:00:00 GMT",
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
        "content-type": "application/problem+json",
        "content-length": str(len(link.reply.body)),
        "x-request-id": ANY,
        "connection": "close",
    }
    assert link.reply.json["title"] == HttpKind.MALFORMED_REQUEST.title
    await done(wired, link)


async def test_a_malformed_request_does_not_take_the_answers_before_it(wired):
    link = wired.link()
    await link.send(SIGNAL + SIGNAL + b"GET\0")
    assert [reply.status for reply in link.replies] == [200, 200, 400]
    assert not link.open
    await done(wired, link)


async def test_requests_in_one_piece_are_answered_in_turn(wired):
    link = wired.link()
    await link.send(b"".join(request(f"/v1/keys/{number}/signal", "POST", b"{}") for number in range(400)))
    await link.answered(400)
    assert [reply.json["key"] for reply in link.replies] == [str(number) for number in range(400)]
    await done(wired, link)


async def test_what_is_behind_a_held_request_waits_for_its_answer(wired):
    link = wired.link()
    await link.send(HELD + SIGNAL)
    assert (wired.signals, link.replies) == (0, [])
    await wired.client.signal("a")
    assert [reply.status for reply in link.replies] == [200, 200]
    assert wired.signals == 2
    await done(wired, link)


@pytest.mark.parametrize("behind", [b"", SIGNAL, b"GET"], ids=["nothing", "a request", "half a request"])
async def test_leaving_a_held_request_is_noticed_behind_any_bytes(wired, behind):
    link = wired.link()
    await link.send(HELD + behind)
    assert wired.service.held.requests.count == 1
    await link.hang_up()
    assert wired.service.held.requests.count == 0
    await done(wired)
    assert wired.signals == 0


@pytest.mark.parametrize("rest", [b"}", b'"value": "' + SIGNAL + b'"}'], ids=["short", "a request inside"])
async def test_an_unread_body_is_no_request(wired, rest):
    link = wired.link()
    await link.send(request("/nowhere", "POST", b"{" + rest)[: -len(rest)])
    assert (link.reply.status, link.open) == (404, True)
    await link.send(*(rest[place : place + 1] for place in range(len(rest))), request())
    assert [reply.status for reply in link.replies] == [404, 200]
    await done(wired, link)
    assert wired.signals == 0


async def test_a_long_unread_body_ends_the_connection(wired):
    for field in ("Content-Length: 65537", "Transfer-Encoding: chunked"):
        link = wired.link()
        await link.send(f"POST /nowhere HTTP/1.1\r\nHost: localhost\r\n{field}\r\n\r\n".encode())
        assert (link.reply.status, link.refused) == (404, "not-found")
        await link.send(b"10\r\n", SIGNAL)
        await done(wired, link)
    assert wired.signals == 0


async def test_a_too_large_body_is_refused_and_read_on_briefly(wired):
    link = wired.link()
    head = request("/v1/keys/a/signal", "POST", content_type="application/json", content_length="1048577")
    await link.send(head + b"{")
    assert (link.reply.status, link.refused) == (413, "too-large")
    assert (link.pipe.half_closed, link.pipe.closing) == (True, False)
    await link.send(*[b"a" * 65_536] * 16, SIGNAL)
    assert link.reply.status == 413
    await wired.after(2.1)
    assert link.pipe.lost
    await done(wired)
    assert wired.signals == 0


async def test_who_goes_on_sending_behind_the_last_answer_is_cut(wired):
    link = wired.link()
    await link.send(b"\0", *[b"a" * 65_536] * 64)
    assert not link.pipe.cut
    await link.send(b"a")
    assert link.pipe.cut
    await done(wired)


async def test_the_body_is_asked_for_when_the_client_waits_for_that(wired):
    link = wired.link()
    raw = request("/v1/keys/a/signal", "POST", b'{"value":5}', expect="100-continue")
    await link.send(raw[:-11])
    assert link.pipe.written == b"HTTP/1.1 100 Continue\r\n\r\n"
    await link.send(raw[-11:], request())
    assert [reply.status for reply in link.replies] == [100, 200, 200]
    await done(wired, link)


async def test_who_does_not_wait_to_be_asked_for_the_body_is_not(wired):
    link = wired.link()
    await link.send(request("/v1/keys/a/signal", "POST", b"{}", expect="100-continue"))
    await link.send(request("/v1/keys/a/signal", "POST", b"{}", expect="100-continue")[:-1], b"}")
    assert [reply.status for reply in link.replies] == [200, 200]
    await done(wired, link)


async def test_a_body_that_was_not_asked_for_ends_the_connection(wired):
    link = wired.link()
    await link.send(request("/nowhere", "POST", b"{}", expect="100-continue")[:-2])
    assert link.refused == "not-found"
    await done(wired, link)


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_the_connection_closes_after_the_answer_on_request(wired, version):
    link = wired.link()
    raw = request(connection="keep-alive" if version == "1.0" else "close").replace(b"1.1", version.encode())
    await link.send(raw + SIGNAL)
    assert (link.reply.status, link.reply.headers["connection"], link.open) == (200, "close", False)
    await done(wired, link)
    assert wired.signals == 0


async def test_head_is_answered_without_a_body(wired):
    link = wired.link()
    await link.send(request(method="HEAD"), request(method="HEAD"))
    first, second = replies(link.pipe.written, bare=True)
    assert (first.status, second.status) == (200, 200)
    assert int(first.headers["content-length"]) > 0
    await done(wired, link)


@pytest.mark.parametrize("fault", ["late", "unreadable"])
async def test_head_with_a_refused_body_is_answered_without_one(wired, fault):
    link = wired.link()
    framing = {"late": b"Content-Length: 9\r\n\r\n", "unreadable": b"Transfer-Encoding: chunked\r\n\r\nx\r\n"}
    await link.send(request("/v1/wait?key=k&wait=50", "HEAD").removesuffix(b"\r\n") + framing[fault])
    await wired.after(BODY_TIME + 1)
    (reply,) = replies(link.pipe.written, bare=True)
    assert reply.status == {"late": 408, "unreadable": 400}[fault]
    assert int(reply.headers["content-length"]) > 0
    await done(wired, link)


async def test_bytes_behind_a_held_request_are_discarded(wired):
    link = wired.link()
    await link.send(HELD + SIGNAL * 1000)
    assert not link.pipe.reading
    await wired.after(1.1)
    assert link.pipe.reading
    await link.send(SIGNAL)
    await link.hang_up()
    assert wired.service.held.requests.count == 0
    await done(wired)
    assert wired.signals == 0


async def test_after_discarded_bytes_the_answer_ends_the_connection(wired):
    link = wired.link()
    await link.send(HELD + SIGNAL * 1000)
    await wired.after(1.1)
    await link.send(SIGNAL)
    await wired.client.signal("a")
    assert (link.reply.status, link.reply.headers["connection"]) == (200, "close")
    assert (link.pipe.half_closed, wired.signals) == (True, 1)
    await done(wired, link)


async def test_requests_behind_an_answered_one_are_all_answered(wired):
    link = wired.link()
    await link.send(HELD + SIGNAL * 1000)
    await wired.after(0.9)
    await wired.client.signal("a")
    await link.answered(1001)
    assert len(link.replies) == 1001
    assert (wired.signals, link.pipe.reading) == (1001, True)
    await done(wired, link)


async def test_reading_resumes_once_little_is_left(wired):
    link = wired.link()
    behind = SIGNAL * (65_536 // len(SIGNAL))
    await link.send(HELD + HELD + behind)
    assert not link.pipe.reading
    await wired.client.signal("a")
    assert (len(link.replies), wired.service.held.requests.count, link.pipe.reading) == (1, 1, True)
    await wired.after(2)
    await wired.client.signal("a")
    await link.answered(2 + len(behind) // len(SIGNAL))
    assert len(link.replies) == 2 + len(behind) // len(SIGNAL)
    await done(wired, link)


async def test_who_floods_behind_a_held_request_is_cut(wired):
    link = wired.link()
    await link.send(HELD + SIGNAL * 1000)
    await wired.after(1.1)
    await link.send(*[b"a" * 65_536] * 65)
    assert link.pipe.cut
    await settle()
    assert wired.service.held.requests.count == 0
    await done(wired)


async def test_shutdown_answers_what_is_held_or_on_its_way_and_closes(wired):
    new, begun, idle, held, refused, unwanted = links = [wired.link() for _ in range(6)]
    await begun.send(b"GET")
    await idle.send(request())
    await held.send(HELD)
    await refused.send(b"\0")
    await unwanted.send(request("/nowhere", "POST", b"{}")[:-1])
    for link in links:
        link.protocol.shutdown()
    assert [link.pipe.closing for link in links] == [False, False, False, False, False, True]
    await new.send(request())
    await begun.send(request()[3:])
    await idle.send(request())
    await wired.client.signal("a")
    for link in (new, begun, idle, held):
        reply = link.replies[-1]
        assert (reply.status, reply.headers["connection"], link.pipe.closing) == (200, "close", True)
    await refused.hang_up()
    await done(wired)


async def test_what_follows_the_answer_after_shutdown_is_not_run(wired):
    link = wired.link()
    await link.send(HELD + SIGNAL * 3)
    link.protocol.shutdown()
    await wired.client.signal("a")
    assert [reply.headers.get("connection") for reply in link.replies] == ["close"]
    assert wired.signals == 1
    await link.hang_up()
    await done(wired)


async def test_an_operation_outlives_the_connection_that_submitted_it(wired):
    link = wired.link()
    await link.send(
        request("/v1/operations?wait=50s", "POST", json.dumps({"keys": ["a"], "id": "op"}).encode())
    )
    await link.hang_up()
    assert wired.service.held.requests.count == 0
    assert (await wired.client.request("GET", "/v1/operations/op")).json["state"] == "pending"
    await wired.client.signal("a")
    await done(wired)
