"""What our connections rely on in uvicorn: a release that changes any of it must fail here, and say what."""

import asyncio
import contextlib
import inspect
import socket

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from purgatory_async import Timer
from purgatory_async.service.http.connection import Connection, connection_class
from purgatory_async.service.http.context import Deadlines, ServerContext
from purgatory_async.service.http.unsent import Unsent
from tests.service.wire import PATIENCE, replies, request, until


def front(app, timer=None):
    timer = timer or Timer()
    limits = Deadlines(head=PATIENCE, body=PATIENCE)
    return ServerContext(app, timer, limits, log=None, unsent=Unsent(1 << 30, timer))


async def nothing(scope, receive, send):
    raise AssertionError(f"unexpected call with {scope}")


def test_a_class_is_taken_as_the_protocol_as_it_is():
    kind = connection_class(front(nothing))
    config = uvicorn.Config(nothing, http=kind, ws="none", lifespan="off", log_config=None)
    config.load()
    assert config.http_protocol_class is kind


def test_a_protocol_is_made_with_what_uvicorns_own_is_made_with():
    def parameters(kind):
        return [(name, parameter.default) for name, parameter in inspect.signature(kind).parameters.items()]

    assert parameters(Connection) == parameters(HttpToolsProtocol)


def test_server_state_has_what_a_connection_reads_and_writes():
    assert vars(ServerState()) == {
        "total_requests": 0,
        "connections": set(),
        "tasks": set(),
        "default_headers": [],
    }


def test_a_connection_has_the_attributes_that_uvicorn_uses():
    """Names that uvicorn or its loop call; what else its protocol has is its own business."""
    used = {
        name
        for name in vars(HttpToolsProtocol)
        if not name.startswith(("_", "on_", "send_", "handle_", "timeout_"))
    }
    assert {name for name in used if not hasattr(Connection, name)} == set()


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_server_makes_our_connections_and_awaits_their_end():
    held, go_on = asyncio.Event(), asyncio.Event()
    scopes = []

    async def app(scope, receive, send):
        scopes.append(scope)
        held.set()
        await go_on.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    timer = Timer()
    kind = connection_class(front(app, timer))
    config = uvicorn.Config(app, http=kind, ws="none", lifespan="off", log_config=None, server_header=False)
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        running = asyncio.get_running_loop().create_task(server.serve([sock]))
        await until(lambda: server.started)
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            _, idle = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request())
            await held.wait()
            await until(lambda: len(server.server_state.connections) == 2)
            assert [type(connection) for connection in server.server_state.connections] == [kind, kind]
            assert len(server.server_state.tasks) == 1
            server.should_exit = True
            await until(lambda: len(server.server_state.connections) == 1)  # the quiet one has a second
            assert not running.done()
            go_on.set()
            (answer,) = replies(await reader.read())
            await running
    assert (answer.body, answer.headers["connection"]) == (b"ok", "close")
    assert answer.headers["date"].endswith("GMT")
    assert server.server_state.total_requests == len(scopes) == 1
    assert scopes[0]["server"] == ("127.0.0.1", port)
    assert server.server_state.tasks == set()
    for end in (writer, idle):
        end.close()
        await end.wait_closed()
    timer.close()
