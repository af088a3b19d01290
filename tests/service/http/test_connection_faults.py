"""Applications that make mistakes: the client gets a whole answer or none, and the mistake is logged."""

import pytest

from tests.service.wire import ANSWERED, SIGNAL, piece, request, script, start

pytestmark = pytest.mark.asyncio


def fault(wired):
    """The one fault that would have been logged."""
    (found,) = wired.faults
    wired.faults.clear()
    return found


@pytest.mark.parametrize(
    "field",
    [
        (b"a", b"b\r\nSet-Cookie: c"),
        (b"a", b"b\nc: d"),
        (b"a", b"b\0"),
        (b"a\r\nb", b"c"),
        (b"a b", b"c"),
        (b"", b"c"),
        (b"a", b"b\r\n\r\nHTTP/1.1 200 OK"),
    ],
)
async def test_a_field_that_would_be_read_as_two_is_never_sent(wire, field):
    wired, link = wire(script(start(200, field), piece(b"a")))
    await link.send(request())
    assert (link.reply.status, link.refused) == (500, "internal")
    assert isinstance(fault(wired), RuntimeError)


@pytest.mark.parametrize(
    "app",
    [
        script(error=ValueError("secret")),
        script(start(), error=ValueError("secret")),
        script(start(200, (b"content-length", b"2")), piece(b"abc")),
        script(start(200, (b"content-length", b"2")), piece(b"a")),
        script(start(), start()),
        script(piece(b"a")),
        script({"type": "http.response.debug"}),
    ],
    ids=[
        "fails",
        "fails behind its start",
        "longer",
        "shorter",
        "starts twice",
        "does not start",
        "says what",
    ],
)
async def test_an_app_failing_before_its_answer_gets_a_500(wire, app):
    wired, link = wire(app)
    await link.send(request() + SIGNAL)
    assert (link.reply.status, link.refused) == (500, "internal")
    assert b"secret" not in link.pipe.written
    assert isinstance(fault(wired), ValueError | RuntimeError)


async def test_an_application_that_does_not_answer_is_answered_for(wire):
    wired, link = wire(script())
    await link.send(request())
    assert (link.reply.status, link.refused) == (500, "internal")
    assert isinstance(fault(wired), RuntimeError)


@pytest.mark.parametrize(
    "messages",
    [
        [start(200, (b"content-length", b"9")), piece(b"abc", True)],
        [start(200, (b"content-length", b"9")), piece(b"abc", True), piece(b"def")],
        [start(), piece(b"abc", True)],
    ],
    ids=["a length", "too little", "chunks"],
)
@pytest.mark.parametrize("error", [None, ValueError("secret")], ids=["returns", "fails"])
async def test_half_an_answer_is_not_taken_for_a_whole_one(wire, messages, error):
    wired, link = wire(script(*messages, error=error))
    await link.send(request())
    assert link.pipe.cut
    assert link.pipe.written.startswith(b"HTTP/1.1 200 ")
    assert isinstance(fault(wired), ValueError | RuntimeError)


async def test_a_fault_behind_the_answer_is_logged_harmlessly(wire):
    wired, link = wire(script(*ANSWERED, error=ValueError("late")))
    await link.send(request())
    assert (link.reply.body, link.open) == (b"ok", True)
    assert str(fault(wired)) == "late"
    await link.hang_up()


async def test_an_app_that_sends_too_much_is_reported(wire):
    wired, link = wire(script(*ANSWERED, piece(b"more")))
    await link.send(request(), request())
    assert [reply.body for reply in link.replies] == [b"ok", b"ok"]
    assert len(wired.faults) == 2
    wired.faults.clear()
    await link.hang_up()
