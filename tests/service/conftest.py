"""A service in virtual time, and a client that speaks ASGI to it without a socket."""

import asyncio
import datetime as dt
import io
import json
import re
from contextlib import ExitStack
from urllib.parse import unquote

import pytest

from purgatory_async import Timer
from purgatory_async.service.app import create_app
from purgatory_async.service.contract.problems import Problem
from purgatory_async.service.logs import stderr_log
from purgatory_async.service.settings.settings import Settings
from purgatory_async.testing import ManualClock, assert_clean, settle
from tests import exchange
from tests.processes import Served
from tests.service.access.tokens_file import Tenants
from tests.service.wire import SocketlessServer

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
JSON = ("content-type", "application/json")
HOST = ("host", "localhost")
BYTES = re.compile(r"""(?<=[a-z,] )b['"]""")
REQUEST_ID = ("x-request-id", "of-the-test")


class Exchange(exchange.Exchange):
    """A request to the application, under way from the start."""

    def __init__(self, app, scope, body, *, more=False):
        super().__init__(*body, more=more)
        self.task = asyncio.get_running_loop().create_task(app(scope, self.receive, self.send))

    @property
    def unread(self):
        return self.inbox.qsize()

    @property
    def slug(self):
        """The slug of a problem; fails unless the answer is a whole problem document."""
        assert self.headers["content-type"] == "application/problem+json"
        assert self.json["status"] == self.status
        assert {"title", "detail"} <= self.json.keys()
        return self.json["type"].removeprefix("urn:purgatory:problem:")


class Client:
    """Sends requests to an application in virtual time."""

    def __init__(self, settings, root_path=""):
        self.clock = ManualClock()
        self.log = io.StringIO()
        self._root_path = root_path
        self.app = create_app(
            settings, timer=Timer(clock=self.clock), wall_clock=lambda: NOON, log=stderr_log(self.log)
        )
        self.service = self.app.service

    def start(self, method, target, body=None, headers=(), *, more=False):
        """Send a request and go on. A body is bytes, a list of pieces, or what becomes JSON; `more` of it may follow.

        Headers without a ``Host`` or an ``X-Request-ID`` get one; equal ids keep answers comparable.
        """
        if isinstance(body, dict):
            body, headers = json.dumps(body).encode(), (JSON, *headers)
        for usual in (HOST, REQUEST_ID):
            if not any(name == usual[0] for name, _ in headers):
                headers = (usual, *headers)
        pieces = body if isinstance(body, list) else [body or b""]
        path, _, query = target.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": unquote(self._root_path + path),
            "raw_path": (self._root_path + path).encode(),
            "root_path": self._root_path,
            "query_string": query.encode("latin-1"),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
        }
        return Exchange(self.app, scope, pieces, more=more)

    async def request(self, method, target, body=None, headers=()):
        """Send a request that must be answered without any time passing."""
        exchange = self.start(method, target, body, headers)
        await settle()
        assert exchange.answered, f"{method} {target} is held"
        return exchange

    async def held(self, method, target, body=None, headers=()):
        """Send a request that must be held."""
        exchange = self.start(method, target, body, headers)
        await settle()
        assert not exchange.answered, f"{method} {target} was answered {exchange.status}"
        return exchange

    def post(self, entry):
        """Change the state without HTTP."""
        self.service.state.post(entry)

    async def advance(self, seconds):
        self.clock.advance(seconds)
        await settle()

    async def signal(self, key, **body):
        reply = await self.request("POST", f"/v1/keys/{key}/signal", body)
        assert reply.status == 200
        return reply.json

    async def submit(self, *keys, **order):
        reply = await self.request("POST", "/v1/operations", {"keys": keys, **order})
        assert reply.status == 202
        return reply.json


@pytest.fixture(autouse=True, scope="session")
def _no_detail_shows_bytes():
    """Make every problem of these tests fail whose text has Python's form of bytes."""
    made = Problem.__init__

    def checked(problem, *arguments, **members):
        made(problem, *arguments, **members)
        errors = problem.document.errors or []
        text = " ".join([problem.document.detail, *(fault.detail for fault in errors)])
        assert not BYTES.search(text), f"a problem shows bytes: {text}"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Problem, "__init__", checked)
        yield


@pytest.fixture
def serve():
    """Start services in processes of their own, which are killed at the end."""
    with ExitStack() as stack:
        yield lambda *flags: stack.enter_context(Served(*flags))


@pytest.fixture
def make_client():
    """Make clients; at the end, check that no service holds a request or logged an error."""
    clients = []

    def make(root_path="", **settings):
        clients.append(Client(Settings(**{"jitter": 0, **settings}), root_path))
        return clients[-1]

    yield make
    for client in clients:
        assert client.log.getvalue() == ""
        assert client.service.held.requests.count == 0
        client.service.close()
        assert_clean(client.service.fold.operations.purgatory)
        assert_clean(client.service.waits.purgatory)
        assert_clean(client.service.waits.conditions)


@pytest.fixture
def client(make_client):
    return make_client()


@pytest.fixture
def tenants(make_client, tmp_path):
    """Make a service from the lines of its tokens file."""
    return lambda *lines, **settings: Tenants(make_client, tmp_path / "tokens", *lines, **settings)


@pytest.fixture
def wire(make_client):
    """Connects to an application; at the end no task of it is left, and its faults were looked at."""
    made = []

    def connect(app):
        made.append(SocketlessServer(make_client(), app))
        return made[-1], made[-1].link()

    yield connect
    for wired in made:
        assert not wired.app.tasks
        assert not wired.faults
