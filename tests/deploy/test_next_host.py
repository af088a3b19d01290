"""What the kit's nginx gives to the other host when one is away, breaks the connection or answers 503."""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar, NamedTuple

import pytest

from tests.deploy.front import Front, instead_of_names
from tests.deploy.tools import program_or_skip
from tests.ports import free_port
from tests.processes import LOOK_S, until

pytestmark = pytest.mark.slow

KEY = {"Idempotency_Key": "k"}
LONG_S = 0.5
"""More than a request may be old that is passed on, in the test for it."""


class Seen(NamedTuple):
    """What a host got: how long the body was, and where."""

    length: int
    port: int


class Host(BaseHTTPRequestHandler):
    """A host that does to the first of two equal requests what the path says, and answers the second."""

    protocol_version = "HTTP/1.1"
    seen: ClassVar = defaultdict[str, list[Seen]](list)

    def log_message(self, form: str, *arguments: object) -> None:
        """Say nothing."""

    def _answer(self) -> None:
        length = len(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        requests = self.seen[self.headers["X-Request-ID"]]
        requests.append(Seen(length, self.server.server_port))
        if "fine" in self.path or ("always" not in self.path and len(requests) > 1):
            self._send(HTTPStatus.OK)
        elif "broken" in self.path:
            if "late" in self.path:
                until(lambda: next(ticks) > LONG_S / LOOK_S)
            self.close_connection = True
        else:
            self._send(HTTPStatus.SERVICE_UNAVAILABLE)

    def _send(self, status: HTTPStatus) -> None:
        self.send_response(status)
        self.send_header("Retry-After", "7")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815 - as the library wants them


ticks = itertools.count()
names = (f"request-{number}" for number in itertools.count())


def serving(stack: ExitStack) -> int:
    """Start a host; returns its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Host)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": LOOK_S})
    thread.start()
    stack.callback(server.server_close)
    stack.callback(thread.join)
    stack.callback(server.shutdown)
    return server.server_port


def fronted(stack: ExitStack, folder: Path, *ports: int, **changes: str) -> Front:
    program_or_skip("nginx", "nginx-light")
    front = Front(folder, {**instead_of_names(*(f"127.0.0.1:{port}" for port in ports)), **changes})
    stack.callback(front.stop)
    return front


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """Before two hosts that live."""
    with ExitStack() as stack:
        yield fronted(stack, tmp_path_factory.mktemp("nginx"), serving(stack), serving(stack))


def asked(front: Front, method: str, path: str, body: object, **fields: str) -> tuple[int, list[Seen]]:
    """The answer's status, and what came to the hosts."""
    name = next(names)
    reply = front.ask(method, path, body, X_Request_ID=name, **fields)
    if reply.status == HTTPStatus.SERVICE_UNAVAILABLE:
        assert reply.getheader("Retry-After") == "7"  # the host's own answer
    return reply.status, Host.seen[name]


# By path, method and key: the status, and how many hosts were asked.
TABLE = {
    ("/v1/broken", "GET", False): (200, 2),
    ("/v1/broken", "PUT", False): (200, 2),
    ("/v1/broken", "DELETE", False): (200, 2),
    ("/v1/broken", "POST", False): (502, 1),
    ("/v1/broken", "POST", True): (200, 2),
    ("/v1/busy", "GET", False): (200, 2),
    ("/v1/busy", "PUT", False): (200, 2),
    ("/v1/busy", "POST", False): (503, 1),
    ("/v1/busy", "POST", True): (200, 2),
    ("/a/broken", "POST", False): (200, 2),
    ("/v1/always-busy", "GET", False): (503, 2),
    ("/v1/always-busy", "POST", True): (503, 2),
    ("/v1/always-broken", "GET", False): (502, 2),
}


@pytest.mark.parametrize(
    ("path", "method", "keyed"), TABLE, ids=lambda part: {True: "keyed", False: ""}.get(part, part)
)
def test_the_other_host_gets_what_does_no_harm_twice(front, path, method, keyed):
    body = None if method in {"GET", "DELETE"} else {"value": "x" * 500_000}
    status, seen = asked(front, method, path, body, **(KEY if keyed else {}))
    assert (status, len(seen)) == TABLE[path, method, keyed]
    assert len({each.port for each in seen}) == len(seen)
    assert len({each.length for each in seen}) == 1
    assert body is None or seen[0].length > 500_000


def test_all_goes_to_the_host_that_is_left(stack, tmp_path):
    front = fronted(stack, tmp_path, serving(stack), free_port())
    for method, fields in itertools.product(("GET", "PUT", "POST", "DELETE"), ({}, KEY)):
        for _ in range(2):  # the one that is away comes first in one of two
            status, seen = asked(front, method, "/v1/fine", None, **fields)
            assert (status, len(seen)) == (200, 1)


def test_hosts_that_were_busy_are_asked_again(front):
    for _ in range(5):
        assert asked(front, "GET", "/v1/always-busy", None)[0] == 503
    assert asked(front, "GET", "/v1/busy", None)[0] == 200


def test_a_request_that_was_held_for_long_is_not_passed_on(stack, tmp_path):
    young = {"proxy_next_upstream_timeout 5s": f"proxy_next_upstream_timeout {int(LONG_S * 500)}ms"}
    front = fronted(stack, tmp_path, serving(stack), serving(stack), **young)
    status, seen = asked(front, "GET", "/v1/late-broken", None)
    assert (status, len(seen)) == (502, 1)
    with closing(front.open("GET", "/v1/broken")) as connection:
        assert connection.getresponse().status == 200
