"""The application under other servers and inside other frameworks."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager
from unittest import mock

import httpx2
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from purgatory_async.service.app import create_app
from tests.service.wire import PATIENCE, until

pytestmark = pytest.mark.asyncio

HOST = (b"host", b"localhost")


async def converse(app, scope, *messages):
    inbox, sent = list(messages), []

    async def receive():
        return inbox.pop(0)

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    return sent


async def test_it_keeps_the_lifespan_and_closes_the_service_at_its_end():
    app = create_app()
    sent = await converse(
        app, {"type": "lifespan"}, {"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}
    )
    assert [message["type"] for message in sent] == [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
    ]
    assert app.service.fold.operations.purgatory.closed


async def test_it_refuses_websockets():
    sent = await converse(create_app(), {"type": "websocket"}, {"type": "websocket.connect"})
    assert [message["type"] for message in sent] == ["websocket.close"]


async def test_it_mounts_inside_another_application():
    app = create_app()
    outer = Starlette(routes=[Mount("/held", app=app)])
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/held/v1/keys/a/b",
        "raw_path": b"/held/v1/keys/a%2Fb",
        "root_path": "",
        "query_string": b"",
        "headers": [HOST],
    }
    sent = await converse(outer, scope, {"type": "http.request", "body": b""})
    assert sent[0]["status"] == 200
    assert json.loads(sent[1]["body"])["key"] == "a/b"
    app.service.close()


@asynccontextmanager
async def on_uvicorn(app):
    """A client of an application under uvicorn, which ends before the server does."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        server = uvicorn.Server(uvicorn.Config(app, ws="none", lifespan="on", log_config=None))
        serving = asyncio.create_task(server.serve([sock]))
        await until(lambda: server.started)
        port = sock.getsockname()[1]
        try:
            async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
                yield client
        finally:
            server.should_exit = True
            await serving


@pytest.mark.slow
async def test_uvicorn_holds_answers_forgets_and_drains():
    app = create_app()
    held = app.service.held.requests
    async with on_uvicorn(app) as client:

        async def poll(key):
            before = held.count
            polling = asyncio.create_task(client.get("/v1/wait", params={"key": key, "wait": "50s"}))
            await until(lambda: held.count == before + 1)
            return polling

        answered, left, drained = [await poll(key) for key in ("a/b", "c", "d")]
        signalled = await client.post("/v1/keys/a%2Fb/signal", json={"value": 7})
        assert signalled.json()["completed"] == 1
        reply = await answered
        assert (reply.status_code, reply.json()["signals"][0]["value"]) == (200, 7)
        assert reply.headers["x-purgatory-position"] == signalled.headers["x-purgatory-position"]
        left.cancel()
        await until(lambda: held.count == 1)
        await client.post("/v1/admin/drain")
        reply = await drained
        assert (reply.status_code, reply.json()["type"]) == (503, "urn:purgatory:problem:draining")
    assert not app.tasks
    assert app.service.fold.operations.purgatory.closed


async def test_a_server_without_raw_paths_is_served_decoded_ones(client):
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/v1/keys/\u00e9",
        "query_string": b"",
        "headers": [HOST],
    }
    sent = await converse(client.app, scope)
    assert json.loads(sent[1]["body"])["key"] == "\u00e9"


async def test_an_internal_fault_is_one_log_line_and_not_in_the_answer(client, monkeypatch):
    monkeypatch.setattr(client.service, "signal", lambda *_: 1 / 0)
    reply = await client.request("POST", "/v1/keys/a/signal")
    assert (reply.status, reply.slug) == (500, "internal")
    assert "ZeroDivision" not in reply.body.decode()
    [line] = client.log.getvalue().splitlines()
    assert "ZeroDivisionError" in json.loads(line)["exception"]
    client.log.truncate(0)
    client.log.seek(0)


# The fault: it is taken for the client's leaving, so no answer comes and nothing is logged.
async def test_a_connection_error_within_is_an_internal_fault(client, monkeypatch):
    monkeypatch.setattr(client.service, "signal", mock.Mock(side_effect=ConnectionRefusedError("an engine")))
    reply = await client.request("POST", "/v1/keys/a/signal")
    assert (reply.status, reply.slug) == (500, "internal")
    [line] = client.log.getvalue().splitlines()
    assert "ConnectionRefusedError" in json.loads(line)["exception"]
    client.log.truncate(0)
    client.log.seek(0)


async def test_a_client_gone_before_its_answer_does_no_harm(client):
    async def send(message):
        raise OSError("gone")

    scope = {"type": "http", "method": "GET", "path": "/healthz", "query_string": b"", "headers": [HOST]}
    await client.app(scope, None, send)


async def test_health_reveals_nothing_and_allows_head(client):
    for path, status in {"/healthz": "ok", "/readyz": "ready"}.items():
        whole, head = await client.request("GET", path), await client.request("HEAD", path)
        assert whole.json == {"status": status}
        assert (head.status, head.headers, head.body) == (200, whole.headers, b"")


async def test_every_answer_forbids_guessing_and_keeping(client):
    held = await client.held("GET", "/v1/wait?key=a&wait=1")
    await client.advance(1.001)
    for reply in (held, await client.request("GET", "/metrics"), await client.request("GET", "/nowhere")):
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["cache-control"] == "no-store"
