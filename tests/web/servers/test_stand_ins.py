"""Test clients that take the place of a server."""

import asyncio
import json
import sys

import httpx2
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient as AiohttpClient
from aiohttp.test_utils import TestServer, make_mocked_request
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.routing import Route
from starlette.testclient import TestClient

from purgatory_async import Purgatory
from purgatory_async.web import aiohttp_events, aiohttp_poll, starlette_events, starlette_poll
from tests.web.event_lines import parse
from tests.web.servers.stacks import fastapi_app, starlette_app


class Ready:
    """A wait that has its value at once, or has none."""

    def __init__(self, value=None):
        self.value = value

    async def wait(self, key, *, timeout=None):
        return self.value


@pytest.mark.parametrize("make_app", [starlette_app, fastapi_app], ids=["starlette", "fastapi"])
def test_a_poll_is_answered_in_the_test_client(make_app):
    with TestClient(make_app(Ready({"status": "green"}))) as client:
        answer = client.get("/poll")
    assert (answer.status_code, answer.json()) == (200, {"status": "green"})


def test_a_poll_ends_empty_in_the_test_client():
    with TestClient(starlette_app(Purgatory())) as client:
        assert client.get("/poll?wait=20ms").status_code == 204


@pytest.mark.asyncio
async def test_a_poll_is_answered_over_the_transport_of_httpx():
    async with Purgatory() as purgatory:
        transport = httpx2.ASGITransport(starlette_app(purgatory, middlewares=1))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            assert (await client.get("/poll?wait=20ms")).status_code == 204


@pytest.mark.asyncio
async def test_a_mocked_request_of_aiohttp_is_held():
    answer = await aiohttp_poll(make_mocked_request("GET", "/poll?wait=1"), Ready("green").wait, "k")
    assert (answer.status, json.loads(answer.body), answer.content_type) == (200, "green", "application/json")


@pytest.mark.asyncio
async def test_a_request_without_a_channel_is_starlettes_fault_to_tell():
    async with Purgatory() as purgatory:
        request = Request({"type": "http", "query_string": b"wait=1", "headers": []})
        with pytest.raises(RuntimeError, match="Receive channel has not been made available"):
            await starlette_poll(request, purgatory.wait, "k")


@pytest.mark.asyncio
async def test_without_its_response_class_it_names_the_import(monkeypatch):
    monkeypatch.delitem(sys.modules, "starlette.responses")

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    request = Request({"type": "http", "query_string": b"", "headers": []}, receive)
    with pytest.raises(RuntimeError, match=r"starlette\.responses is not imported: cannot answer"):
        await starlette_poll(request, Ready(1).wait, "k")


async def ticks():
    yield 1
    yield 2


def test_a_stream_is_read_in_the_test_client():
    done = []

    async def follow(request):
        response = await starlette_events(request, ticks())
        response.set_cookie("seen", "1")
        response.background = BackgroundTask(done.append, "background")
        return response

    with TestClient(Starlette(routes=[Route("/events", follow)])) as client:
        answer = client.get("/events")
    assert [event.data for event in parse(answer.content).events] == ["1", "2"]
    assert answer.headers["content-type"] == "text/event-stream"
    assert "content-length" not in answer.headers
    assert (answer.cookies["seen"], done) == ("1", ["background"])


def test_without_its_response_class_a_stream_names_the_import(monkeypatch):
    monkeypatch.delitem(sys.modules, "starlette.responses")
    request = Request({"type": "http", "headers": []})
    with pytest.raises(RuntimeError, match=r"starlette\.responses is not imported: .* or use asgi_events"):
        asyncio.run(starlette_events(request, ticks()))


@pytest.mark.asyncio
async def test_a_stream_of_aiohttp_is_sent_whole():
    async def follow(request):
        return await aiohttp_events(request, ticks())

    app = web.Application()
    app.router.add_get("/events", follow)
    async with TestServer(app) as server, AiohttpClient(server) as client, client.get("/events") as answer:
        assert [event.data for event in parse(await answer.read()).events] == ["1", "2"]
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert answer.headers["X-Accel-Buffering"] == "no"
        assert answer.headers["Connection"] == "close"
