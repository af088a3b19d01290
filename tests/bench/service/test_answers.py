"""Answers are parsed from a connection's bytes, however the bytes are split."""

import pytest

from bench.service.answers import Answer, is_whole, take_answer

FULL = b"HTTP/1.1 200 OK\r\ndate: now\r\nContent-Length: 4\r\n\r\ndone"
BARE = b"HTTP/1.1 304 Not Modified\r\nx: y\r\n\r\n"


def taken(*pieces):
    buffer, found = bytearray(), []
    for piece in pieces:
        buffer += piece
        while (answer := take_answer(buffer)) is not None:
            found.append(answer)
    return found, bytes(buffer)


def test_pipelined_answers_are_separated():
    assert taken(FULL + BARE + FULL + b"HTTP/1") == (
        [Answer(200, b"done"), Answer(304, b""), Answer(200, b"done")],
        b"HTTP/1",
    )


# A 304 may declare a length but has no body: waiting for one would never end.
def test_an_answer_without_a_body_ignores_its_length():
    assert taken(BARE.replace(b"x: y", b"content-length: 9") + FULL)[0] == [
        Answer(304, b""),
        Answer(200, b"done"),
    ]


def test_the_last_answer_of_a_connection_says_so():
    last = FULL.replace(b"date: now", b"connection: close")
    assert taken(FULL + last)[0] == [Answer(200, b"done"), Answer(200, b"done", last=True)]


@pytest.mark.parametrize(
    ("sent", "complaint"),
    [
        (b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n", "HTTP/1.0"),
        (b"HTTP/1.1 200 OK\r\n\r\n\r\ncontent-length: 3\r\n", "Content-Length"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "Content-Length"),
    ],
    ids=["version", "a length in the body", "no length"],
)
def test_what_is_not_understood_is_refused_with_what_it_is(sent, complaint):
    with pytest.raises(ValueError, match=complaint):
        take_answer(bytearray(sent))


def test_an_answer_is_whole_with_its_last_byte():
    assert [is_whole(FULL[:length]) for length in (10, len(FULL) - 1, len(FULL))] == [False, False, True]


@pytest.mark.parametrize("received", [FULL + b"H", b"HTTP/1.1 200 OK\r\n\r\n"], ids=["too long", "no length"])
def test_bytes_that_are_no_single_answer_are_refused(received):
    with pytest.raises(ValueError, match=r"(one|an) answer.*, got .*HTTP"):
        is_whole(received)
