"""The load for all peers: every message is checked, and a server that loses one does not pass for a fast one."""

import socket
from contextlib import ExitStack, closing

import pytest

from bench.service.answers import is_whole
from bench.service.beside.bare import Bare
from bench.service.beside.exchanging import CHANNELS, UNDER_WAY, Channel, exchange
from bench.service.dialects import BARE, CONVERSATIONS, NCHAN, READ

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n"
# What each kind of server answers to a message "m7", and what the next poll must say.
ANSWERS = {
    READ.name: (b'\r\n{"key":"k","index":41,"value":"m7"}', b"GET /v1/keys/k?index=41&"),
    NCHAN.name: (
        b"Last-Modified: Mon, 23 Nov 2026 18:59:35 GMT\r\nEtag: 3\r\n\r\nm7",
        b"\r\nIf-Modified-Since: Mon, 23 Nov 2026 18:59:35 GMT\r\nIf-None-Match: 3\r\n",
    ),
    BARE.name: (b"x-index: 9\r\n\r\nm7", b"GET /keys/k?after=9 "),
}


def answer(name):
    rest, wanted = ANSWERS[name]
    return HEAD % len(rest.partition(b"\r\n")[2] if rest.startswith(b"\r\n") else b"m7") + rest, wanted


@pytest.fixture
def listener():
    with closing(socket.create_server(("127.0.0.1", 0))) as sock:
        yield sock


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_subscriber_goes_on_after_its_last_message(name):
    talk = CONVERSATIONS[name]
    received, wanted = answer(name)
    assert is_whole(received)
    assert talk.brings(received.partition(b"\r\n\r\n")[2], "m7")
    assert wanted in talk.go_on("k", received)


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_another_message_is_never_taken_for_the_published_one(name):
    body = answer(name)[0].partition(b"\r\n\r\n")[2]
    assert [text for text in ("m", "7", "m77", "m8") if CONVERSATIONS[name].brings(body, text)] == []


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_an_answer_without_a_place_is_refused_with_all_of_it(name):
    with pytest.raises(ValueError, match=r"must have .*got .*m7"):
        CONVERSATIONS[name].go_on("k", HEAD % 2 + b"\r\nm7")


def test_a_message_in_pieces_is_one_and_a_wrong_one_is_refused(listener):
    received, _ = answer(NCHAN.name)
    with ExitStack() as stack:
        channel = Channel(listener.getsockname()[1], "k", CONVERSATIONS[NCHAN.name], stack)
        ends = [stack.enter_context(listener.accept()[0]) for _ in range(2)]
        channel.publish("m7")
        assert b"POST /pub/k" in ends[0].recv(1000)
        ends[1].sendall(received[:-1])
        assert channel.subscriber.take() == b""
        ends[1].sendall(received[-1:])
        whole = channel.subscriber.take()
        assert channel.hear(whole) > 0
        channel.publish("m8")
        with pytest.raises(RuntimeError, match=r"the message 'm8', got .*m7"):
            channel.hear(whole)


@pytest.mark.parametrize("sent", [b"HTTP/1.1 503 No\r\n\r\n", None], ids=["refused", "closed"])
def test_a_load_that_is_refused_is_no_measure(listener, sent):
    with ExitStack() as stack:
        channel = Channel(listener.getsockname()[1], "k", CONVERSATIONS[NCHAN.name], stack)
        publisher, _ = (stack.enter_context(listener.accept()[0]) for _ in range(2))
        if sent is None:
            publisher.shutdown(socket.SHUT_WR)
        else:
            publisher.sendall(sent)
        with pytest.raises(RuntimeError, match="expected an answer 2xx"):
            channel.publisher.take()


@pytest.mark.slow
def test_a_load_counts_each_message_once():
    with socket.create_server(("127.0.0.1", 0), backlog=2 * CHANNELS) as sock, Bare(sock.fileno()) as bare:
        seen = exchange(bare.port, CONVERSATIONS[BARE.name], "t", 0.2, lambda: None)
    assert seen.messages >= UNDER_WAY
    assert seen.wall_s >= 0.2
    assert 0 < seen.latencies.p50 <= seen.latencies.worst
