"""What all clients together can make the broker receive: memory with a bound, and no endless wait."""

from struct import pack

import pytest

from purgatory_async import Timer
from purgatory_async.kafka import Broker
from purgatory_async.kafka.inbox import STALL_S, Inbox
from purgatory_async.testing import settle
from tests.kafka import protocol
from tests.kafka.plain_client import PlainClient, until
from tests.kafka.protocol import API_VERSIONS, FETCH
from tests.kafka.socketless import fetched

MAX_BYTES = 1 << 20
FRAME_BYTES = 600_000
CLIENTS = 8
SCRATCH_BYTES = 1 << 18


class Receiver:
    """Wants memory, and notes what it gets."""

    def __init__(self, inbox):
        self.inbox, self.received_bytes, self.went_on, self.was_cut = inbox, 0, 0, False

    def take(self, size_bytes):
        return self.inbox.take(size_bytes, self)

    def go_on(self):
        self.went_on += 1

    def cut(self):
        self.was_cut = True


@pytest.fixture
def inbox(manual_clock):
    timer = Timer(clock=manual_clock)
    yield Inbox(100, timer)
    timer.close()


@pytest.fixture
def receivers(inbox):
    return [Receiver(inbox) for _ in range(4)]


pytestmark = pytest.mark.asyncio


async def test_one_goes_beyond_the_bound_and_the_others_wait(inbox, receivers):
    first, second, third, fourth = receivers
    assert (first.take(60), second.take(40), inbox.has_room) == (True, True, False)
    assert third.take(50), "one may always come to its end"
    assert [first.take(1), second.take(1), third.take(50)] == [False, False, True]
    inbox.leave(third)
    inbox.give(100)
    assert (first.went_on, second.went_on, inbox.used_bytes) == (1, 1, 100)
    assert fourth.take(1)


async def test_who_is_gone_waits_no_longer(inbox, receivers):
    first, second, third, _ = receivers
    assert (first.take(100), second.take(1), third.take(1)) == (True, True, False)
    inbox.leave(third)
    inbox.leave(second)
    inbox.give(101)
    assert (third.went_on, inbox.used_bytes) == (0, 0)


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("waited_for", [False, True])
async def test_who_stands_still_while_others_wait_is_cut(manual_clock, receivers, moves, waited_for):
    first, second, _, _ = receivers
    assert first.take(200)
    assert not waited_for or not second.take(1)
    for _ in range(3):
        first.received_bytes += moves
        manual_clock.advance(STALL_S + 0.1)
        await settle()
    assert first.was_cut is (waited_for and not moves)


async def test_frames_of_all_connections_have_one_bound():
    """All come whole, one after the other, while a client with short requests is answered."""
    long = protocol.request_frame(API_VERSIONS, 0) + bytes(FRAME_BYTES)  # bytes behind a request are ignored
    async with Broker(max_receive_bytes=MAX_BYTES) as broker, PlainClient(broker) as neighbour:
        clients = [await PlainClient(broker).__aenter__() for _ in range(CLIENTS)]
        most = 0
        for client in clients:
            client.send_bytes(pack(">i", len(long)) + long[: FRAME_BYTES // 2])
        for _ in range(50):
            await neighbour.ask(API_VERSIONS, 3)
            most = max(most, broker.inbox.used_bytes)
        assert most > MAX_BYTES // 2
        for client in clients:
            client.send_bytes(long[FRAME_BYTES // 2 :])
        for client in clients:
            await client.frame()
            most = max(most, broker.inbox.used_bytes)
        assert most <= MAX_BYTES + FRAME_BYTES + SCRATCH_BYTES
        for client in clients:
            await client.__aexit__()
        await until(lambda: broker.connections == 1)
        assert broker.inbox.used_bytes == 0


async def test_a_client_that_leaves_gives_its_memory_back():
    async with Broker(max_receive_bytes=MAX_BYTES) as broker, PlainClient(broker) as held:
        broker.node.topics.create("t")
        async with PlainClient(broker) as client:
            client.send_bytes(pack(">i", FRAME_BYTES) + bytes(100))
            held.send(FETCH, 12, **fetched("t", 0, max_wait=60_000))
            held.send(API_VERSIONS, 3, correlation_id=2)
            await until(lambda: broker.inbox.used_bytes > 1 << 16)
        await until(lambda: broker.connections == 1)
        assert 0 < broker.inbox.used_bytes < 100, "what waits behind the held request"
    assert broker.inbox.used_bytes == 0


async def test_what_waits_behind_held_requests_is_in_the_bound():
    async with Broker(max_receive_bytes=MAX_BYTES) as broker, PlainClient(broker) as neighbour:
        broker.node.topics.create("t")
        clients = [await PlainClient(broker).__aenter__() for _ in range(CLIENTS)]
        for client in clients:
            client.send(FETCH, 12, **fetched("t", 0, max_wait=60_000))
            client.send_bytes(
                (pack(">i", 50_000) + protocol.request_frame(API_VERSIONS, 0)).ljust(50_004, b"\0") * 20
            )
        await until(lambda: broker.inbox.used_bytes > MAX_BYTES // 2)
        for _ in range(50):
            await neighbour.ask(API_VERSIONS, 3)
        assert broker.inbox.used_bytes <= MAX_BYTES + CLIENTS * SCRATCH_BYTES
        for client in clients:
            await client.__aexit__()
