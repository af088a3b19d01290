"""The `Link` of examples/link.py on connections that are cut, half open, refused and made again."""

import asyncio
import importlib.util
import random
from contextlib import suppress
from functools import partial

import pytest

from purgatory_async import OperationExpired, Timer
from purgatory_async.testing import cancel_sweep, settle, stream_pair
from tests.source_tree import ROOT

SPEC = importlib.util.spec_from_file_location("link_example", ROOT / "examples" / "link.py")
example = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(example)

PING, RETRY = example.PING_S, example.RETRY_S
CONNECT = 0.01  # seconds in virtual time
virtual = pytest.mark.asyncio(loop_factories=["virtual"])


class Network:
    """Makes connections in memory, on a `VirtualTimeLoop`, to the server of the example."""

    def __init__(self):
        self.refuses = False
        self.pairs = []
        self.attempts = 0

    async def connect(self):
        self.attempts += 1
        await asyncio.sleep(CONNECT)
        if self.refuses:
            raise ConnectionRefusedError
        self.pairs.append(stream_pair())
        self.serving = asyncio.create_task(self.serve(*self.pairs[-1].right))
        return self.pairs[-1].left

    async def serve(self, reader, writer):
        with suppress(ConnectionError):
            await example.serve(reader, writer)

    def cut(self):
        self.pairs[-1].cut()

    def half_open(self):
        self.pairs[-1].stall()

    def rest(self):
        """Let things be."""


class World:
    """A link over a network in memory, in ``async with``."""

    async def __aenter__(self):
        self.others = asyncio.all_tasks()
        self.timer, self.network = Timer(), Network()
        self.link = example.Link(self.network.connect, self.timer)
        await self.link.__aenter__()
        return self.link, self.network

    async def __aexit__(self, *raised):
        try:
            await self.link.__aexit__(*raised)
        finally:
            assert all(pair.left.writer.is_closing() for pair in self.network.pairs), (
                "a connection is left open"
            )
            for pair in self.network.pairs:
                pair.cut()  # its server need not know
            await settle()
            assert (self.link.purgatory.pending, self.timer.pending) == (0, 0)
            assert asyncio.all_tasks() <= self.others
            self.timer.close()


def now():
    return asyncio.get_running_loop().time()


@virtual
@pytest.mark.parametrize("loss", ["cut", "half open", "falls silent", "hangs up"])
async def test_a_lost_connection_fails_its_calls_and_the_next_is_made(loss):
    async with World() as (link, network):
        assert await link.call("add", 1, 2) == 3
        in_flight = [asyncio.create_task(link.call("laborious", timeout=60)) for _ in range(3)]
        await settle()
        if loss == "cut":
            network.cut()
        elif loss == "half open":
            network.half_open()
        else:
            in_flight.append(
                asyncio.create_task(link.call(loss.replace("falls", "fall").replace("hangs", "hang")))
            )
        began, reason = now(), {"cut": "was cut", "hangs up": "hung up"}.get(loss, "fell silent")
        for task in in_flight:
            with pytest.raises(ConnectionError, match=reason):
                await task
        silent = 3 * PING if reason == "fell silent" else 0
        assert silent <= now() - began <= silent + PING / 3 + 0.01
        assert await link.call("add", 3, 4) == 7
        assert now() - began <= silent + PING / 3 + 2 * RETRY + 0.04
        assert (network.attempts, link.calls.late) == (2, 0)


@virtual
async def test_a_call_waits_for_a_connection_within_its_timeout():
    async with World() as (link, network):
        network.refuses = True
        began = now()
        with pytest.raises(OperationExpired):
            await link.call("add", 1, 2, timeout=10)
        assert now() - began == pytest.approx(10, abs=0.002)
        assert 10 / (2 * RETRY + CONNECT) <= network.attempts <= 10 / (RETRY + CONNECT) + 1
        patient = asyncio.create_task(link.call("add", 1, 2, timeout=10))
        await asyncio.sleep(5)
        network.refuses = False
        assert await patient == 3


@virtual
async def test_only_a_quiet_connection_is_pinged():
    async with World() as (link, network):
        await link.call("add")
        written = []
        transport = network.pairs[-1].left.writer.transport
        transport.write, write = lambda data: (written.append(data), write(data)), transport.write
        for _ in range(100):
            await link.call("add")
            await asyncio.sleep(PING / 4)
        assert written.count(example.encode()) == 0
        await asyncio.sleep(100 * PING)
        assert 95 <= written.count(example.encode()) <= 100
        assert network.attempts == 1


@virtual
async def test_closing_a_link_ends_its_calls():
    world = World()
    link, network = await world.__aenter__()
    await link.call("add")
    calls = [asyncio.create_task(link.call("laborious", timeout=None)) for _ in range(3)]
    await settle()
    network.cut()
    calls += [asyncio.create_task(link.call("laborious", timeout=None)) for _ in range(3)]
    await asyncio.sleep(RETRY / 2)
    calls += [asyncio.create_task(link.call("laborious", timeout=None)) for _ in range(3)]
    await asyncio.sleep(0)
    await world.__aexit__()
    ends = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(end, ConnectionError) for end in ends), ends
    assert [str(end) for end in ends[-3:]] == ["the link is closed"] * 3
    with pytest.raises(ConnectionError, match="closed"):
        await link.call("add")


@virtual
async def test_cancelled_anywhere_a_link_leaves_nothing():
    async def scenario():
        async with World() as (link, network):
            assert await link.call("add", 1, 2) == 3
            network.cut()
            with pytest.raises(ConnectionError):
                await link.call("laborious")
            await asyncio.sleep(0.01)  # the link learns of it
            assert await link.call("add", 3, 4) == 7

    assert await cancel_sweep(scenario) >= 3


async def caller(link, draw, seconds):
    """Call again and again for so long; returns how the calls ended."""
    ends, until = set(), now() + seconds
    while now() < until:
        one, other, timeout = draw.randrange(1000), draw.randrange(1000), draw.choice((0.02, 0.3, 2))
        try:
            if draw.random() < 0.2:
                await link.call("laborious", timeout=timeout)
            else:
                assert await link.call("add", one, other, timeout=timeout) == one + other
            ends.add("answered")
        except ConnectionError:
            ends.add("lost")
        except OperationExpired:
            ends.add("late")
        await asyncio.sleep(draw.random() / 10)
    return ends


@virtual
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 40))]
)
async def test_in_a_storm_each_call_gets_its_own_reply_or_an_error(seed):
    draw = random.Random(seed)
    async with World() as (link, network), asyncio.TaskGroup() as group:
        callers = [group.create_task(caller(link, random.Random(100 * seed + each), 30)) for each in range(5)]
        while not all(task.done() for task in callers):
            await asyncio.sleep(draw.random() * 2)
            network.refuses = draw.random() < 0.2
            draw.choice((network.cut, network.half_open, network.rest))()
    assert all(task.result() == {"answered", "lost", "late"} for task in callers)
    assert link.calls.unknown == 0
    assert network.attempts > 10


@pytest.mark.slow
@pytest.mark.asyncio
async def test_over_sockets_each_loss_is_followed_by_a_connection():
    taken, refused = [], asyncio.Event()

    async def serve(reader, writer):
        taken.append(writer)
        await example.serve(reader, writer)

    def note(_, failure, number):
        assert number == len(failures) + 1
        failures.append(failure)
        if isinstance(failure, ConnectionRefusedError):
            refused.set()

    failures, timer = [], Timer()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    async with example.Link(partial(asyncio.open_connection, *address), timer) as link:
        link.retrier.on_failure = note
        for loss in ("cut", "half open", "away"):
            calls = [asyncio.create_task(link.call("laborious", timeout=60)) for _ in range(3)]
            assert await link.call("add", 1, 2, timeout=60) == 3
            if loss == "half open":
                calls.append(asyncio.create_task(link.call("fall silent", timeout=60)))
            else:
                if loss == "away":
                    server.close()
                taken[-1].transport.abort()
            ends = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(end, ConnectionError) for end in ends), ends
        patient = asyncio.create_task(link.call("add", 3, 4, timeout=60))
        await refused.wait()
        async with await asyncio.start_server(serve, *address):
            assert await patient == 7
            assert len(taken) == 4
            await link.__aexit__()  # before the server waits for its connections
    assert [str(failure) for failure in failures[1:2]] == ["the peer fell silent"]
    assert (link.calls.late, link.calls.unknown, link.purgatory.pending, timer.pending) == (0, 0, 0, 0)
    timer.close()
