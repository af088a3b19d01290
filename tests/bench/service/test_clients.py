"""The clients, on fake transports: what they record of an answer, and when they are done."""

import asyncio

import pytest

from bench.service.answers import Answer
from bench.service.channel import Channel
from bench.service.crowd import Crowd, Poll
from bench.service.holding import Release, release_of
from bench.service.latencies import Latencies
from bench.service.sections.slow_clients import answered_rightly
from bench.service.sections.stopped import answered_draining
from bench.service.trickle import KINDS, SlowClient

pytestmark = pytest.mark.asyncio

DONE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone"


class Wire(asyncio.Transport):
    def __init__(self, protocol):
        super().__init__()
        self.written = b""
        self.closing = False
        protocol.connection_made(self)

    def write(self, data):
        self.written += data

    def is_closing(self):
        return self.closing


def crowd_of(number):
    crowd = Crowd(number)
    crowd.polls += [Poll(crowd, b"asked") for _ in range(number)]
    return crowd, [Wire(poll) for poll in crowd.polls]


async def test_a_poll_asks_at_once_and_ends_with_the_whole_answer():
    crowd, (wire,) = crowd_of(1)
    assert wire.written == b"asked"
    (poll,) = crowd.polls
    poll.data_received(DONE[:-1])
    assert (poll.answer, poll.answered_ns) == (None, 0)
    poll.data_received(DONE[-1:])
    assert poll.answer == Answer(200, b"done")
    assert poll.answered_ns > 0
    await crowd.all_settled()


async def test_a_crowd_settles_once_all_are_answered_or_cut_off():
    crowd, _ = crowd_of(3)
    first, second, third = crowd.polls
    first.data_received(DONE)
    first.connection_lost(None)  # its end counts no more: it had its answer
    second.connection_lost(None)
    assert crowd.unsettled == 1
    third.data_received(DONE)
    await crowd.all_settled()
    assert crowd.statuses() == [200, None, 200]


async def test_latencies_pair_served_polls_with_their_signals():
    crowd, _ = crowd_of(3)
    for poll in crowd.polls[:2]:
        poll.data_received(DONE)
    crowd.polls[2].data_received(DONE.replace(b"200", b"503"))
    crowd.polls[0].answered_ns, crowd.polls[1].answered_ns = 5_000_000, 7_000_000
    assert release_of(crowd, [4_000_000, 4_000_000, 0]) == Release(Latencies(1.0, 3.0, 3.0), 1)


async def test_a_channel_answers_in_order_and_fails_the_rest():
    channel = Channel()
    wire = Wire(channel)
    answers = [channel.ask(asked) for asked in (b"1", b"2", b"3")]
    assert wire.written == b"123"
    channel.data_received(DONE + DONE.replace(b"done", b"next")[:-2])
    channel.data_received(b"xt")
    assert [(await answer).body for answer in answers[:2]] == [b"done", b"next"]
    channel.connection_lost(None)
    with pytest.raises(ConnectionResetError):
        await answers[2]


@pytest.mark.parametrize(
    ("kind", "received", "right"),
    [
        ("silent", b"", True),
        ("silent", b"HTTP/1.1 408 Request Timeout\r\n\r\n", False),
        ("head", b"", False),
        ("head", b"HTTP/1.1 408 Request Timeout\r\n\r\n", True),
        ("body", b"HTTP/1.1 202 Accepted\r\n\r\n", False),
        ("body", b"HTTP/1.1 408 Request Timeout\r\n\r\nHTTP/1.1 400 Bad Request\r\n\r\n", False),
    ],
)
async def test_only_too_slow_is_right_for_a_client_that_sent_bytes(kind, received, right):
    client = SlowClient(*KINDS[kind])
    client.received = received
    assert answered_rightly(client, kind) is right


@pytest.mark.parametrize(
    ("answer", "draining"),
    [
        (Answer(503, b'{"type": "urn:purgatory:problem:draining"}'), True),
        (Answer(503, b'{"type": "urn:purgatory:problem:overloaded"}'), False),
        (Answer(200, b'{"type": "urn:purgatory:problem:draining"}'), False),
        (None, False),
    ],
)
async def test_only_an_explicit_503_means_draining(answer, draining):
    assert answered_draining(answer) is draining
