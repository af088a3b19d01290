"""A service in virtual time, and its client."""

import datetime as dt
import io
import json
import re
from contextlib import ExitStack
from functools import partial

import pytest

from purgatory_async import Timer
from purgatory_async.durable.documents.problems import Problem
from purgatory_async.service.app import create_app
from purgatory_async.service.logs import stderr_log
from purgatory_async.service.settings.settings import Settings
from purgatory_async.testing import ManualClock, assert_clean, settle
from tests.processes import Served
from tests.service.access.tokens_file import Tenants
from tests.service.exchanges import Connected, Mounted
from tests.service.wire import SocketlessServer

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
JSON = ("content-type", "application/json")
HOST = ("host", "localhost")
BYTES = re.compile(r"""(?<=[a-z,] )b['"]""")
REQUEST_ID = ("x-request-id", "of-the-test")
PATHS = {"connection": Connected, "asgi": Mounted}


class Client:
    """A client of a service, which sends each request in an exchange of its own.

    Attributes:
        through: How it sends them.
        server: What its connections lead to.
    """

    through = Connected

    def __init__(self, settings, **given):
        self.log = io.StringIO()
        self.app = create_app(settings, log=stderr_log(self.log), **given)
        self.service = self.app.service
        self.server = SocketlessServer(self)

    def start(self, method, target, body=None, headers=(), *, more=False):
        """Send a request and go on. A body is bytes, a list of pieces, or what becomes JSON; `more` of it may follow.

        Headers without a ``Host`` or an ``X-Request-ID`` get one; equal ids keep answers comparable.
        """
        if isinstance(body, dict):
            body, headers = json.dumps(body).encode(), (JSON, *headers)
        for usual in (HOST, REQUEST_ID):
            if not any(name == usual[0] for name, _ in headers):
                headers = (usual, *headers)
        exchange = self.through(self, method, target, headers, body, more=more)
        exchange.over.add_done_callback(self._look_for_fault)
        return exchange

    def _look_for_fault(self, over):
        fault = None if over.cancelled() else over.exception()
        if fault is not None and not isinstance(fault, ConnectionError):
            self.server.faults.append(fault)

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

    async def signal(self, key, **body):
        reply = await self.request("POST", f"/v1/keys/{key}/signal", body)
        assert reply.status == 200
        return reply.json

    async def submit(self, *keys, **order):
        reply = await self.request("POST", "/v1/operations", {"keys": keys, **order})
        assert reply.status == 202
        return reply.json


class ManualClient(Client):
    """A client of a service in virtual time.

    Args:
        root_path: Where the service is mounted; only an adapter can be.
    """

    def __init__(self, settings, root_path=""):
        self.clock = ManualClock()
        super().__init__(settings, timer=Timer(clock=self.clock), wall_clock=lambda: NOON)
        if root_path:
            self.through = partial(Mounted, root_path=root_path)

    async def advance(self, seconds):
        self.clock.advance(seconds)
        await settle()


def pytest_addoption(parser):
    parser.addoption("--through", choices=PATHS, default="connection", help="how tests reach the service")


def pytest_configure(config):
    Client.through = PATHS[config.getoption("--through", "connection")]


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
        clients.append(ManualClient(Settings(**{"jitter": 0, **settings}), root_path))
        return clients[-1]

    yield make
    for client in clients:
        assert client.log.getvalue() == ""
        assert not client.server.faults
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
