"""The service behind nginx, as the README tells operators to set it up."""

import http.client
import json
import socket
import threading
from contextlib import ExitStack, closing

import pytest

from purgatory_async.client import Client, Policy
from tests.processes import PATIENCE_S, Served, until
from tests.service.held.test_events_sockets import Following, epoch_of
from tests.service.proxied import Proxy, nginx_or_skip

pytestmark = pytest.mark.slow

NAME = "purgatory.example:8443"


class Behind:
    """A service and the proxy before it."""

    def __init__(self, stack, folder, flags, changes):
        self.service = stack.enter_context(Served("--allow-host", NAME.partition(":")[0], *flags))
        self.proxy = Proxy(folder, self.service.port, changes)
        stack.callback(self.proxy.stop)

    def start(self, method, path, body=None, **headers):
        """Send a request through the proxy; its answer is got from what this returns."""
        connection = http.client.HTTPConnection("127.0.0.1", self.proxy.port, timeout=PATIENCE_S)
        headers |= {} if body is None else {"Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        return connection

    def ask(self, method, path, body=None, **headers):
        """The status and the document of an answer through the proxy."""
        with closing(self.start(method, path, body, **headers)) as connection:
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read() or b"null")


@pytest.fixture
def behind(tmp_path):
    nginx_or_skip()
    with ExitStack() as stack:

        def start(*flags, **changes):
            return Behind(stack, tmp_path, flags, changes)

        yield start


def test_a_long_poll_is_answered_through_the_proxy(behind):
    both = behind()
    with closing(both.start("GET", "/v1/wait?key=a&wait=50s")) as poll:
        both.service.until_count("held", 1)
        status, signalled = both.ask("POST", "/v1/keys/a/signal", {"value": "now"})
        assert (status, signalled["completed"]) == (200, 1)
        reply = poll.getresponse()
        assert (reply.status, json.loads(reply.read())["signals"][0]["value"]) == (200, "now")


def test_a_wait_goes_on_although_the_proxy_cuts_its_polls(behind):
    both, ended = behind(**{"proxy_read_timeout 75s": "proxy_read_timeout 1s"}), []
    # It is less patient than the proxy: a poll that was held for long is no service that does not answer.
    with Client(both.proxy.address, policy=Policy(poll=25.0, patience=0.5)) as client:
        waiting = threading.Thread(target=lambda: ended.append(client.wait("a")), daemon=True)
        waiting.start()

        def goes_on():
            assert waiting.is_alive(), "it was given up"
            return 504 in both.proxy.statuses and both.proxy.statuses[-1] != 504

        until(goes_on, "a poll after the cut")
        both.service.request("POST", "/v1/keys/a/signal")
        waiting.join(PATIENCE_S)
    assert [operation.state for operation in ended] == ["completed"]


def test_a_client_that_leaves_frees_its_waiter(behind):
    both = behind()
    both.ask("POST", "/v1/operations", {"keys": ["b"], "id": "op"})
    paths = ["/v1/wait?key=a&wait=50s"] * 5 + ["/v1/operations/op?wait=50s"]
    polls = [both.start("GET", path) for path in paths]
    both.service.until_count("held", len(paths))
    for poll in polls:
        poll.close()
    both.service.until_count("held", 0)
    both.service.until_count("pending", 1)
    assert both.ask("GET", "/v1/operations/op")[1]["state"] == "pending"
    assert both.ask("DELETE", "/v1/operations/op")[1]["state"] == "cancelled"
    assert both.service.counts()["pending"] == 0


# Any of the three that keep nginx from gathering events is enough.
OLD_HTTP = {"proxy_http_version 1.1": "proxy_http_version 1.0"}
GATHERED = {"proxy_buffering off": "proxy_buffering on"}
HEADER_IGNORED = {"location / {": "location / { proxy_ignore_headers X-Accel-Buffering;"}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="README"),
        pytest.param(OLD_HTTP | GATHERED, id="header"),
        pytest.param(OLD_HTTP | HEADER_IGNORED, id="setting"),
        pytest.param(GATHERED | HEADER_IGNORED, id="chunks"),
    ],
)
def test_events_arrive_one_by_one_as_they_happen(behind, changes):
    both = behind(**changes)
    with closing(Following(both.proxy)) as reader:
        both.service.until_count("streams", 1)
        both.service.request("POST", "/v1/operations", {"keys": ["a"], "id": "op"})
        assert [event.name for event in reader.until(1)] == ["submitted"]
        both.service.request("POST", "/v1/keys/a/signal")
        assert [event.name for event in reader.until(3)] == ["submitted", "ended", "signalled"]
        both.service.request("POST", "/v1/keys/a/signal")
        reader.until(4)
    both.service.until_count("streams", 0)


def test_events_are_resumed_behind_the_last_one_that_was_read(behind):
    both = behind()
    for _ in range(3):
        both.service.request("POST", "/v1/keys/a/signal")
    with closing(Following(both.proxy, after=f"{epoch_of(both.proxy.port)}-1.1")) as reader:
        assert [event.number for event in reader.until(2)] == [2, 3]


def test_an_item_finds_no_taker_in_one_that_has_left(behind):
    both = behind()
    taking = both.start("POST", "/v1/queues/q/take?wait=50s", {})
    both.service.until_count("takers", 1)
    taking.close()
    both.service.until_count("takers", 0)
    status, put = both.ask("POST", "/v1/queues/q/items", {"item": 1})
    assert (status, put["delivered"]) == (201, False)
    assert both.ask("POST", "/v1/queues/q/take", {})[1]["item"] == 1


def test_an_item_that_a_ghost_took_is_back_in_its_queue(behind):
    # It may be given away before the proxy reports the disconnect: then its lease ends.
    both = behind()
    for number in range(20):
        taking = both.start("POST", "/v1/queues/q/take?wait=50s", {"lease": "500ms"})
        both.service.until_count("takers", 1)
        taking.close()
        both.service.request("POST", "/v1/queues/q/items", {"item": number})
        status, lease = both.ask("POST", "/v1/queues/q/take?wait=10s", {})
        assert (status, lease and lease["item"]) == (200, number)
        assert both.ask("POST", f"/v1/leases/{lease['lease']}/ack") == (204, None)
    assert both.ask("GET", "/v1/queues/q")[0] == 404  # nothing is in it, leased or waiting


def test_the_service_sees_the_host_that_the_client_asked_for(behind):
    both = behind()
    assert both.ask("GET", "/v1/keys/a", Host=NAME)[0] == 200
    assert both.ask("GET", "/v1/keys/a", Host="evil.example")[0] == 421
    own, other = f"https://{NAME}", "https://purgatory.example"
    assert both.ask("POST", "/v1/keys/a/signal", Host=NAME, Origin=own)[0] == 200
    assert both.ask("POST", "/v1/keys/a/signal", Host=NAME, Origin=other)[0] == 403


def test_a_stop_answers_every_held_poll_through_the_proxy(behind):
    both = behind()
    with ExitStack() as stack:
        paths = ["/v1/wait?key=a&wait=50s", "/v1/keys/a?index=0&wait=50s"] * 10
        polls = [stack.enter_context(closing(both.start("GET", path))) for path in paths]
        both.service.until_count("held", len(paths))
        code, _ = both.service.stop()
        replies = [poll.getresponse() for poll in polls]
        documents = [json.loads(reply.read()) for reply in replies]
    assert code == 0
    assert {reply.status for reply in replies} == {503}
    assert {document["type"] for document in documents} == {"urn:purgatory:problem:draining"}
    assert all(1 <= int(reply.getheader("Retry-After")) <= 10 for reply in replies)


def test_a_key_is_the_same_through_the_proxy_and_past_it(behind):
    both = behind()
    for key in ("a%2Fb", "a%252Fb", "a//b", "..%2Fkeys", "%2E%2E%2F", "a%20%C3%A4"):
        through = both.ask("POST", f"/v1/keys/{key}/signal", {})
        reply = both.service.request("POST", f"/v1/keys/{key}/signal", {})
        assert (through[0], through[1].get("key")) == (reply.status, reply.json.get("key")), key


HIDDEN = b"POST /v1/keys/hidden/signal HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
AS_CHUNKS = b"0\r\n\r\n" + HIDDEN  # a reader of chunks ends the request before what is hidden
LENGTH = b"Content-Length: %d\r\n"
LAST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


SMUGGLED = {
    "a body that looks like a request": (LENGTH, HIDDEN),
    "length and chunks": (LENGTH + b"Transfer-Encoding: chunked\r\n", AS_CHUNKS),
    "chunks and length": (b"Transfer-Encoding: chunked\r\n" + LENGTH, AS_CHUNKS),
    "nearly chunked": (LENGTH + b"Transfer-Encoding: xchunked\r\n", AS_CHUNKS),
    "chunked behind a vertical tab": (LENGTH + b"Transfer-Encoding: \x0bchunked\r\n", AS_CHUNKS),
    "space before a colon": (LENGTH + b"Transfer-Encoding : chunked\r\n", AS_CHUNKS),
    "an underscore": (LENGTH + b"Transfer_Encoding: chunked\r\n", AS_CHUNKS),
    "a bare LF": (LENGTH + b"A: b\nTransfer-Encoding: chunked\r\n", AS_CHUNKS),
    "a folded field": (LENGTH + b"A: b\r\n Transfer-Encoding: chunked\r\n", AS_CHUNKS),
    "two lengths": (b"Content-Length: 0\r\n" + LENGTH, HIDDEN),
    "two lengths, the other way round": (LENGTH + b"Content-Length: 0\r\n", HIDDEN),
    "a length with a plus": (LENGTH.replace(b"%d", b"+%d"), HIDDEN),
    "a length with a zero before": (LENGTH.replace(b"%d", b"0%d"), HIDDEN),
}


def test_no_request_is_run_that_the_proxy_did_not_send(behind):
    both = behind()
    start = b"POST /v1/keys/a/signal HTTP/1.1\r\nHost: localhost\r\n"
    for name, (fields, body) in SMUGGLED.items():
        before = both.service.counts()["signals"], len(both.proxy.signals)
        raw = start + b"Content-Length: 0\r\n\r\n" + start + fields % len(body) + b"\r\n" + body + LAST
        with closing(
            socket.create_connection(("127.0.0.1", both.proxy.port), timeout=PATIENCE_S)
        ) as connection:
            connection.sendall(raw)
            while connection.recv(65536):
                pass
        run, sent = both.service.counts()["signals"] - before[0], len(both.proxy.signals) - before[1]
        assert run == sent >= 1, name
