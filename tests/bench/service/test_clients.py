"""The clients, on fake transports: what they record of an answer, and when they are done."""

import asyncio

import pytest

from bench.service.answers import Answer
from bench.service.channel import Channel
from bench.service.crowd import PER_ADDRESS, Crowd, Poll, source_address
from bench.service.dialects import DIALECTS, request
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


async def test_a_slow_client_sends_its_rest_a_byte_at_a_time():
    begin, rest = KINDS["body"]
    client = SlowClient(begin, rest)
    wire = Wire(client)
    assert wire.written == begin
    client.send_a_byte()
    client.send_a_byte()
    assert wire.written == begin + rest[:2]
    wire.closing = True
    client.send_a_byte()
    assert wire.written == begin + rest[:2]
    client.connection_lost(None)
    lasted_s = client.lasted_s
    client.connection_lost(None)
    assert client.lasted_s == lasted_s is not None


# A request that is whole would be answered, and the client would not be slow.
async def test_no_slow_client_ever_begins_with_a_whole_request():
    assert KINDS["silent"] == (b"", b"")
    assert b"\r\n\r\n" not in b"".join(KINDS["head"])
    begin, rest = KINDS["body"]
    head, _, body = begin.partition(b"\r\n\r\n")
    assert head.endswith(b"Content-Length: %d" % len(body + rest))
    assert len(rest) > 100


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


# One source address has fewer ports than the benchmark has clients; 127.0.0.1 is left to servers.
async def test_clients_are_spread_over_loopback_addresses():
    addresses = [source_address(number) for number in range(3 * PER_ADDRESS)]
    assert set(addresses) == {"127.0.0.2", "127.0.0.3", "127.0.0.4"}
    assert addresses.count("127.0.0.2") == PER_ADDRESS


async def test_a_request_has_its_length_and_its_key():
    assert request("POST", "/x", b"four").endswith(b"Content-Length: 4\r\n\r\nfour")
    for dialect in DIALECTS:
        assert b"/a-key" in dialect.tell("a-key").split(b" ")[1]
        assert b"a-key" in dialect.poll("a-key").split(b" ")[1]
