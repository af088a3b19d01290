"""How answers are written: whole ones, and streams in pieces; and what becomes of one that its client does not take."""

import asyncio
import json

import pytest

from purgatory_async.service.http.answer import Answer, field_lines
from purgatory_async.testing import settle
from tests.service.wire import Scripted, SocketlessServer, replies, request

pytestmark = pytest.mark.asyncio


@pytest.fixture
def connect(make_client):
    """Connects to an application; at the end no task of it is left."""
    made = []

    def connect(act=None):
        made.append(SocketlessServer(make_client(), Scripted(act)))
        return made[-1], made[-1].link()

    yield connect
    for wired in made:
        assert not wired.app.tasks
        assert not wired.faults


@pytest.fixture
def stream(connect):
    """Connects to an application that answers each request with a stream of these pieces."""

    def made(*pieces):
        async def stream(request):
            await request.wire.open(b"content-type: text/plain\r\n")
            for piece in pieces:
                await request.wire.send(piece)
            request.ended = True
            await request.wire.end()

        wired, link = connect(lambda request: wired.app.run(stream(request)))
        return link

    return made


async def test_a_stream_is_sent_in_chunks_and_ends_the_connection(stream):
    link = stream(b"abc", b"x" * 20)
    await link.send(request())
    assert link.reply.body == b"abc" + b"x" * 20
    assert link.reply.headers["transfer-encoding"] == "chunked"
    assert (link.reply.headers["connection"], link.open) == ("close", False)


async def test_an_http_1_0_stream_ends_with_close(stream):
    link = stream(b"abc", b"def")
    await link.send(request().replace(b"1.1", b"1.0"))
    assert (link.reply.body, link.reply.headers["connection"], link.open) == (b"abcdef", "close", False)
    assert "transfer-encoding" not in link.reply.headers


async def test_head_gets_the_fields_of_the_whole_answer_and_no_body(connect):
    wired, link = connect(lambda _: wired.app.answer())
    await link.send(request(method="HEAD"))
    (reply,) = replies(link.pipe.written, bare=True)
    assert reply.headers["content-length"] == "2"
    assert link.pipe.written.endswith(b"\r\n\r\n")
    await link.hang_up()


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_that_has_no_body_says_no_length(connect, status):
    wired, link = connect(lambda _: wired.app.answer(Answer(status)))
    await link.send(request(), request())
    assert [(reply.status, reply.body) for reply in link.replies] == [(status, b"")] * 2
    assert link.reply_headers("content-length") == []
    await link.hang_up()


async def test_an_answer_may_end_the_connection(connect):
    wired, link = connect(lambda _: wired.app.answer(Answer(200, b"ok", close=True)))
    await link.send(request())
    assert (link.reply.headers["connection"], link.open) == ("close", False)


async def test_an_answer_after_the_client_left_is_dropped(connect):
    wired, link = connect()
    await link.send(request())
    await link.hang_up()
    (gone,) = wired.app.requests
    assert (gone.gone, gone.ended) == (True, True)
    gone.wire.answer(Answer(200, b"late"), b"", 0.0)
    assert not link.pipe.written


async def test_half_a_stream_is_not_taken_for_a_whole_one(connect):
    wired, link = connect()
    await link.send(request())
    (made,) = wired.app.requests
    await made.wire.open(b"")
    await made.wire.send(b"half")
    made.ended = True
    made.wire.answer(Answer(500, b"{}"), b"", 0.0)
    assert link.pipe.cut
    assert link.pipe.written.count(b"HTTP/1.1 ") == 1


async def test_a_stream_to_a_client_that_left_raises(connect):
    wired, link = connect()
    await link.send(request())
    (made,) = wired.app.requests
    await made.wire.open(b"")
    await link.hang_up()
    with pytest.raises(ConnectionError):
        await made.wire.send(b"tick")


async def test_who_sends_more_than_the_client_reads_waits(connect):
    wired, link = connect()
    await link.send(request())
    await link.stop_reading()
    (made,) = wired.app.requests
    opening = wired.app.run(made.wire.open(b""))
    await settle()
    assert not opening.done()
    await link.read_all()
    assert opening.done()
    await link.hang_up()


@pytest.mark.parametrize("cut", [False, True], ids=["leaves", "is cut"])
async def test_waiting_for_a_slow_reader_ends_when_it_is_given_up(connect, cut):
    wired, link = connect()
    await link.send(request())
    await link.stop_reading()
    (made,) = wired.app.requests
    opening = wired.app.run(made.wire.open(b""))
    await settle()
    if cut:
        await wired.after(31)
        assert link.pipe.cut
    else:
        link.pipe.lose()
    await settle()
    assert isinstance(opening.exception(), ConnectionError)


async def test_a_sender_that_is_cancelled_does_not_wake_another(connect):
    wired, link = connect()
    await link.send(request())
    (made,) = wired.app.requests
    await made.wire.open(b"")
    await link.stop_reading()
    other, last = (wired.app.run(made.wire.send(piece)) for piece in (b"tick", b"tock"))
    await asyncio.sleep(0)
    other.cancel()
    await settle()
    assert not last.done()
    await link.read_all()
    assert last.done()
    await link.hang_up()


async def test_a_body_is_given_to_who_awaits_it_however_it_comes(make_client):
    wired = make_client().server
    link = wired.link()
    raw = request("/v1/keys/a/signal", "POST", b'{"value": 7}')
    for place in (len(raw) - 1, len(raw) - 5, raw.index(b"\r\n\r\n") + 4):
        await link.send(raw[:place], raw[place:])
    assert [json.loads(reply.body)["index"] for reply in link.replies] == [1, 2, 3]
    await link.hang_up()


async def test_discarded_input_is_not_waited_for_at_the_answers_end(connect):
    wired, link = connect()
    await link.send(request("/first") + request("/next") * 2000)
    await wired.after(2)
    wired.app.answer()
    assert ([made.path for made in wired.app.requests], link.reply.status) == ([b"/first"], 200)
    assert (link.pipe.half_closed, link.pipe.reading) == (True, True)
    await link.hang_up()


@pytest.mark.parametrize(
    "value", ["b\r\nSet-Cookie: c", "b\nc: d", "b\r", "b\r\n\r\nHTTP/1.1 200 OK"], ids=repr
)
async def test_a_field_that_would_be_read_as_two_is_never_sent(value):
    with pytest.raises(RuntimeError, match="without breaks"):
        field_lines([("a", value)])
