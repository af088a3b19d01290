"""Both clients over real sockets: the blocking one against a server process, and streams that break."""

import asyncio
import itertools
import signal
import threading
from contextlib import closing, contextmanager, suppress
from functools import partial

import anyio
import httpx2
import pytest

from purgatory_async.client import AsyncClient, Client, Policy, RequestRefused
from tests.ports import free_port
from tests.processes import PATIENCE_S, Served, python, until

pytestmark = pytest.mark.slow


@contextmanager
def service(*flags, port=0):
    """The address of a service in a process of its own."""
    with Served(*flags, port=port) as served:
        yield served.address
        served.stop()


@pytest.fixture(scope="module")
def address():
    with service("--jitter", "0") as found:
        yield found


@pytest.fixture
def client(address):
    with Client(address, policy=Policy(poll=0.3)) as connected:
        yield connected


@contextmanager
def running(call):
    """Run a call in a thread; yields what waits for its result."""
    found = []
    thread = threading.Thread(target=lambda: found.append(call()), daemon=True)
    thread.start()

    def result():
        thread.join(PATIENCE_S)
        [value] = found
        return value

    yield result


def watched(client, key):
    return [operation.id for operation in client.operations(key)]


def test_every_verb_of_the_blocking_client(client):
    operation = client.submit(["verb"], operation_id="verb", data=1)
    assert (operation.pending, operation.data) == (True, 1)
    assert client.status("verb").waiting_for == {"any": ["verb"]}
    assert client.follow("verb", timeout=0.5).pending
    assert watched(client, "verb") == ["verb"]
    assert client.signal("verb", "v", amount=2, voter="me") == 1
    assert client.follow("verb").state == "completed"
    client.submit(["verb"], operation_id="verb2")
    assert client.complete("verb2", {"r": 1}).result == {"r": 1}
    client.submit(["verb"], operation_id="verb3")
    assert client.cancel("verb3").state == "cancelled"
    state = client.read("verb")
    assert state.value == "v"
    assert client.watch("verb", 0) == state
    assert client.watch("verb", state.index, timeout=0.5) is None
    assert client.put("verb", "item") is False
    lease = client.take("verb")
    client.give_back(lease)
    client.acknowledge(client.take("verb", lease=600.0))
    assert client.take("verb", timeout=0.5) is None
    assert client.stats()["draining"] is False
    client.attach("verb4", ask={"title": "Go?"})
    assert client.answer("verb4", "ok").choice == "ok"
    with pytest.raises(RequestRefused, match="links-off"):
        client.links("verb4")


def test_a_link_of_the_blocking_client_answers_its_question():
    port = free_port()
    with service("--public-url", f"http://127.0.0.1:{port}", port=port) as address, Client(address) as client:
        client.submit(operation_id="o", ask={"title": "Go?", "choices": ["yes", "no"]})
        link = client.links("o", by="ann", choices=["yes"], expires_in="1h")
        assert link.expires_at is not None
        assert httpx2.post(link.url, data={"choice": "yes"}).status_code == 303
        ended = client.status("o")
        assert (ended.choice, ended.by) == ("yes", "ann")


def test_a_wait_longer_than_its_polls_ends_with_the_signal(address, client):
    with Client(address) as other, running(lambda: client.wait("long")) as result:
        until(lambda: watched(other, "long"))
        other.watch("long", 0, timeout=1.0)
        assert other.signal("long", "done") == 1
        assert result().state == "completed"


def test_an_interrupted_process_cancels_what_it_waited_for(address, client):
    program = "import sys; from purgatory_async.client import Client; Client(sys.argv[1]).wait('interrupted')"
    with python("-c", program, address) as process:
        until(lambda: watched(client, "interrupted"))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    assert watched(client, "interrupted") == []


@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_more_waits_than_a_pool_has_connections_are_held_at_once(address):
    async with AsyncClient(address, policy=Policy(slack=20.0)) as client, anyio.create_task_group() as tasks:
        for _ in range(110):
            tasks.start_soon(client.wait, "many")
        held = 0
        with anyio.fail_after(PATIENCE_S):
            while held < 110:
                await anyio.sleep(0.1)
                held = (await client.stats())["counts"]["held"]
        assert await client.signal("many") == 110


class BreakingStream:
    """An event server that closes each connection after this many bytes."""

    def __init__(self, *parts):
        self.parts = list(parts)
        self.resumed_from = []
        self.connections = []

    async def serve(self, reader, writer):
        self.connections.append(asyncio.current_task())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        after = [line.partition(": ")[2] for line in head if line.startswith("last-event-id")]
        self.resumed_from += after or [None]
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        part = self.parts.pop(0)
        writer.write(head + (b"%x\r\n%b\r\n" % (len(part), part) if part else b""))
        await writer.drain()
        if not self.parts:
            await reader.read()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


EVENT = b'id: e-%d\nevent: ended\ndata: {"n": %d}\n\n'
PARTS = (b": hello\n\n" + EVENT % (1, 1) + b"id: e-2\nevent: en", b"", EVENT % (2, 2), EVENT % (3, 3))


@pytest.mark.asyncio(loop_factories=["asyncio"])
@pytest.mark.parametrize("kind", [Client, AsyncClient])
async def test_events_go_on_where_a_lost_connection_left_them(kind):
    stream = BreakingStream(*PARTS)
    server = await asyncio.start_server(stream.serve, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    policy = Policy(first_delay=0.01)
    async with server:
        with anyio.fail_after(PATIENCE_S):
            if kind is Client:
                found = await asyncio.to_thread(partial(read_blocking, address, policy))
            else:
                found = await read_awaiting(address, policy)
            await asyncio.gather(*stream.connections)
    assert [(event.id, event.data) for event in found] == [(f"e-{n}", {"n": n}) for n in (1, 2, 3)]
    assert stream.resumed_from == [None, "e-1", "e-1", "e-2"]


def read_blocking(address, policy):
    with Client(address, policy=policy) as client, closing(client.events()) as events:
        return [next(events) for _ in range(3)]


async def read_awaiting(address, policy):
    async with AsyncClient(address, policy=policy) as client:
        events = client.events()
        found = [await anext(events) for _ in range(3)]
        await events.aclose()
        return found


def test_events_of_a_real_service_are_read_from_any_id_on(address, client):
    client.submit(["events"], operation_id="events")
    client.signal("events")
    mine = []
    with closing(client.events(after="0")) as events:  # without an epoch: a gap, then every event
        assert next(events).kind == "gap"
        for event in events:
            mine += [event] if "events" in event.data.get("keys", ()) else []
            if mine and mine[-1].kind == "ended":
                break
    assert mine[0].kind == "submitted"
    with closing(client.events(after=mine[0].id)) as events:
        assert next(events) == mine[1]


def test_each_signal_comes_once_through_restarts_of_the_service(tmp_path):
    port, flags = free_port(), ("--store", f"sqlite:///{tmp_path}/log.db")

    def follow(address):
        with Client(address) as follower:
            return [signal.value for signal in itertools.islice(follower.signals("a", since=0), 60)]

    with service(*flags, port=port) as address:
        pass
    with running(partial(follow, address)) as result:
        for start in (0, 20, 40):
            with service(*flags, port=port), Client(address) as client:
                for number in range(start, start + 20):
                    client.signal("a", number)
                if start == 40:
                    assert result() == list(range(60))


def ask_blocking(address):
    with Client(address, policy=Policy(poll=0.3, patience=1.0, max_delay=0.2)) as client:
        return client.ask("o", "Go?", choices=["yes", "no"], timeout="24h")


def ask_awaiting(address):
    async def ask():
        policy = Policy(poll=0.3, patience=1.0, max_delay=0.2)
        async with AsyncClient(address, policy=policy) as client:
            return await client.ask("o", "Go?", choices=["yes", "no"], timeout="24h")

    return asyncio.run(ask())


@pytest.mark.parametrize("ask", [ask_blocking, ask_awaiting])
@pytest.mark.parametrize(("stored", "end"), [(True, Served.kill), (False, Served.stop)])
def test_a_question_is_waited_for_through_restarts(tmp_path, ask, end, stored):
    flags = ("--store", f"sqlite:///{tmp_path}/log.db") if stored else ()
    with Served(*flags, port=free_port()) as served, Client(served.address) as client:
        with running(partial(ask, served.address)) as result:
            for _ in range(2):
                until(lambda: client.stats()["counts"]["held"] == 1)
                end(served)
                served.start()
            until(lambda: client.stats()["counts"]["held"] == 1)
            client.answer("o", "yes", by="ann")
            ended = result()
        assert (ended.state, ended.choice, ended.by) == ("completed", "yes", "ann")
        assert ask(served.address).attached
        assert [each.id for each in client.operations(state="all")] == ["o"]
        served.stop()
