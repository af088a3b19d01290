"""What an application of any kind may do to a connection, and what the client finds then."""

import asyncio

import pytest

from purgatory_async.testing import settle
from tests.service.wire import ANSWERED, piece, replies, request, script, start

pytestmark = pytest.mark.asyncio


async def test_the_scope_says_what_the_head_said(wire):
    scopes = []

    async def app(scope, receive, send):
        scopes.append(scope)
        await script(*ANSWERED)(scope, receive, send)

    _, link = wire(app)
    await link.send(request("/a%2Fb%20c?d=%20", "PUT", b"{}", x_custom=" A, b "))
    assert scopes == [
        {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": "PUT",
            "scheme": "http",
            "path": "/a/b c",
            "raw_path": b"/a%2Fb%20c",
            "query_string": b"d=%20",
            "headers": (
                (b"host", b"localhost"),
                (b"x-custom", b"A, b"),
                (b"content-type", b"application/json"),
                (b"content-length", b"2"),
            ),
            "server": ("127.0.0.1", 8765),
        }
    ]
    await link.hang_up()


def receiving(times, received):
    async def app(scope, receive, send):
        for _ in range(times):
            received.append(await receive())

    return app


async def test_a_body_is_received_in_pieces_before_the_disconnect(wire):
    received = []
    _, link = wire(receiving(4, received))
    raw = request("/", "POST", b"abcdef")
    await link.send(raw[:-4], raw[-4:-1], raw[-1:])
    assert [(message["body"], message["more_body"]) for message in received] == [
        (b"ab", True),
        (b"cde", True),
        (b"f", False),
    ]
    await link.hang_up()
    assert received[3] == {"type": "http.disconnect"}


async def test_no_body_is_received_as_an_empty_one_once(wire):
    received = []
    _, link = wire(receiving(2, received))
    await link.send(request())
    assert received == [{"type": "http.request", "body": b"", "more_body": False}]
    await link.hang_up()
    assert received[1] == {"type": "http.disconnect"}


async def test_after_its_answer_an_app_receives_a_disconnect(wire):
    received = []

    async def app(scope, receive, send):
        await script(*ANSWERED)(scope, receive, send)
        received.append(await receive())

    _, link = wire(app)
    await link.send(request())
    assert (received, link.open) == ([{"type": "http.disconnect"}], True)
    await link.hang_up()


async def test_an_app_awaiting_a_disconnect_gets_it_at_its_end(wire):
    received = []

    async def app(scope, receive, send):
        await receive()
        listener = asyncio.get_running_loop().create_task(receive())
        await asyncio.sleep(0)
        await script(*ANSWERED)(scope, receive, send)
        received.append(await listener)

    _, link = wire(app)
    await link.send(request())
    assert (received, link.open) == ([{"type": "http.disconnect"}], True)
    await link.hang_up()


async def test_one_task_at_a_time_may_receive(wire):
    received = []

    async def app(scope, receive, send):
        loop = asyncio.get_running_loop()
        await receive()
        first = loop.create_task(receive())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="one task at a time"):
            await receive()
        first.cancel()
        received.append(await receive())

    _, link = wire(app)
    await link.send(request())
    await link.hang_up()
    assert received == [{"type": "http.disconnect"}]


async def test_a_body_that_is_not_received_is_not_read_on(wire):
    ready = asyncio.Event()

    async def app(scope, receive, send):
        await ready.wait()
        size = 0
        while (message := await receive())["more_body"]:
            size += len(message["body"])
        await script(start(200), piece(str(size + len(message["body"])).encode()))(scope, receive, send)

    _, link = wire(app)
    await link.send(request("/", "POST", content_length="300000"))
    sent = 0
    while link.pipe.reading:
        await link.send(b"a" * 10_000)
        sent += 10_000
    assert sent == 70_000
    ready.set()
    await settle()
    await link.send(*[b"a" * 10_000] * 23)
    assert link.reply.body == b"300000"
    await link.hang_up()


async def test_discarded_input_is_not_waited_for_at_the_answers_end(wire):
    answer, served = asyncio.Event(), []

    async def app(scope, receive, send):
        served.append(scope["path"])
        await answer.wait()
        await script(*ANSWERED)(scope, receive, send)
        wired.client.clock.advance(2)  # before the next request has its turn

    wired, link = wire(app)
    await link.send(request("/first") + request("/next") * 2000)
    answer.set()
    await settle()
    assert (served, link.reply.status) == (["/first"], 200)
    assert (link.pipe.half_closed, link.pipe.reading) == (True, True)
    await link.hang_up()


@pytest.mark.parametrize("there", [60_000, 99_000])
async def test_an_unread_body_is_read_on_after_its_answer(wire, there):
    async def app(scope, receive, send):
        await asyncio.sleep(0)
        await script(*ANSWERED)(scope, receive, send)

    _, link = wire(app)
    link.protocol.data_received(request("/", "POST", b"a" * 100_000)[: there - 100_000])
    assert link.pipe.reading == (there < 65_536)
    await settle()
    await link.send(*[b"a" * 1000] * ((100_000 - there) // 1000), request())
    assert [reply.status for reply in link.replies] == [200, 200]
    await link.hang_up()


async def test_an_answer_whose_length_is_not_known_is_sent_in_chunks(wire):
    _, link = wire(script(start(), piece(b"abc", True), piece(b"", True), piece(b"x" * 20, True), piece()))
    await link.send(request(), request())
    assert [reply.body for reply in link.replies] == [b"abc" + b"x" * 20] * 2
    assert link.reply_headers("transfer-encoding") == ["chunked"] * 2
    await link.hang_up()


async def test_nothing_is_sent_before_the_first_of_the_body_is(wire):
    go_on = asyncio.Event()

    async def app(scope, receive, send):
        await send(start(200, (b"content-length", b"2")))
        await go_on.wait()
        await send(piece(b"ok"))

    _, link = wire(app)
    await link.send(request())
    assert not link.pipe.written
    go_on.set()
    await settle()
    assert link.reply.body == b"ok"
    await link.hang_up()


async def test_an_http_1_0_answer_of_unknown_length_ends_with_close(wire):
    _, link = wire(script(start(), piece(b"abc", True), piece(b"def")))
    await link.send(request().replace(b"1.1", b"1.0"))
    assert (link.reply.body, link.reply.headers["connection"], link.open) == (b"abcdef", "close", False)
    assert "transfer-encoding" not in link.reply.headers


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_that_has_no_body_is_sent_without_one(wire, status):
    _, link = wire(script(start(status), piece(b"abc")))
    await link.send(request(), request())
    assert [(reply.status, reply.body) for reply in link.replies] == [(status, b"")] * 2
    assert link.reply_headers("transfer-encoding") == []
    await link.hang_up()


async def test_head_gets_the_fields_of_the_whole_answer_and_no_body(wire):
    _, link = wire(script(*ANSWERED))
    await link.send(request(method="HEAD"))
    (reply,) = replies(link.pipe.written, bare=True)
    assert reply.headers["content-length"] == "2"
    assert link.pipe.written.endswith(b"\r\n\r\n")
    await link.hang_up()


async def test_how_an_answer_is_framed_is_not_the_applications_to_say(wire):
    _, link = wire(
        script(start(200, (b"Transfer-Encoding", b"gzip"), (b"Connection", b"Close")), piece(b"a"))
    )
    await link.send(request())
    assert (link.reply.headers["transfer-encoding"], link.reply.body, link.open) == ("chunked", b"a", False)


async def test_a_request_whose_task_is_cancelled_is_cut(wire):
    async def app(scope, receive, send):
        await receive()
        await receive()

    wired, link = wire(app)
    await link.send(request())
    (task,) = wired.state.tasks
    task.cancel()
    await settle()
    assert (link.pipe.cut, link.pipe.written) == (True, b"")


async def test_sending_to_a_client_that_left_raises(wire):
    raised = []

    async def app(scope, receive, send):
        await send(start())
        try:
            while True:
                await send(piece(b"tick", True))
                await receive()
        except OSError as error:
            raised.append(error)
            raise

    wired, link = wire(app)
    await link.send(request())
    await link.hang_up()
    assert len(raised) == 1
    assert not wired.faults


async def test_who_sends_more_than_the_client_reads_waits(wire):
    sent = []

    async def app(scope, receive, send):
        await send(start())
        for number in range(5):
            await send(piece(b"tick", number < 4))
            sent.append(number)

    _, link = wire(app)
    await link.stop_reading()
    await link.send(request())
    assert sent == []
    await link.read_all()
    assert (sent, link.reply.body) == ([0, 1, 2, 3, 4], b"tick" * 5)
    await link.hang_up()


@pytest.mark.parametrize("cut", [False, True], ids=["leaves", "is cut"])
async def test_waiting_for_a_slow_reader_ends_when_it_is_given_up(wire, cut):
    ended = []

    async def app(scope, receive, send):
        try:
            await send(start())
        finally:
            ended.append(True)

    wired, link = wire(app)
    await link.stop_reading()
    await link.send(request())
    assert ended == []
    if cut:
        await wired.after(31)
        assert link.pipe.cut
    else:
        link.pipe.lose()
    await settle()
    assert ended == [True]


async def test_a_sender_that_is_cancelled_does_not_wake_another(wire):
    go_on = asyncio.Event()

    async def app(scope, receive, send):
        await send(start())
        await go_on.wait()
        other = asyncio.get_running_loop().create_task(send(piece(b"tick", True)))
        await asyncio.sleep(0)
        other.cancel()
        await send(piece(b"tock"))

    _, link = wire(app)
    await link.send(request())
    await link.stop_reading()
    go_on.set()
    await settle()
    assert not link.pipe.written
    await link.read_all()
    assert link.reply.body == b"tock"
    await link.hang_up()
