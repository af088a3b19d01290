"""The server as a process of its own: real sockets, real signals, real time."""

import http.client
import json
import random
import resource
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PATIENCE = 45.0  # seconds; less than the 50 s of a held request


class Served:
    """A ``purgatory serve`` process and plain connections to it."""

    def __init__(self, *flags):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "purgatory_async", "serve", "--port", "0", *flags],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        self.port = int(line.rpartition(":")[2])

    def request(self, method, path, body=None, headers=None):
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)) as connection:
            if isinstance(body, dict):
                body, headers = json.dumps(body), {"Content-Type": "application/json", **(headers or {})}
            connection.request(method, path, body, headers or {})
            reply = connection.getresponse()
            return reply, reply.read()

    def open(self, path):
        """Send a GET on a connection of its own and do not wait for the answer."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return connection

    def sample(self, name):
        """A metric's value; None before it has one."""
        _, text = self.request("GET", "/metrics")
        lines = text.decode().splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(name)), None)

    def until(self, name, expected):
        """Wait until a metric has the expected value."""
        give_up = time.monotonic() + PATIENCE
        while (found := self.sample(name)) != expected:
            assert time.monotonic() < give_up, f"{name} is {found}, not {expected}"
            time.sleep(0.02)

    def end(self):
        """Kill the process, if it still runs, and close its output."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def stop(self, number=signal.SIGTERM):
        """Send a signal and return the exit code and what was logged."""
        self.process.send_signal(number)
        _, logged = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, [json.loads(line) for line in logged.splitlines()]


@pytest.fixture
def serve():
    with ExitStack() as stack:

        def start(*flags):
            served = Served(*flags)
            stack.callback(served.end)
            return served

        yield start


def read_answer(connection):
    """Everything until the server closes the connection, as head and body."""
    pieces = []
    while piece := connection.recv(65536):
        pieces.append(piece)
    head, _, body = b"".join(pieces).partition(b"\r\n\r\n")
    return head.decode(), body


def test_an_operation_is_submitted_polled_and_completed(serve):
    served = serve()
    reply, body = served.request("POST", "/v1/operations", {"keys": ["a"], "id": "op"})
    assert (reply.status, json.loads(body)["state"]) == (202, "pending")
    with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)) as poll:
        poll.request("GET", "/v1/operations/op?wait=20s")
        served.request("POST", "/v1/keys/a/signal", {"value": 1})
        reply = poll.getresponse()
        assert (reply.status, json.loads(reply.read())["state"]) == (200, "completed")
        assert reply.getheader("Server") is None


@pytest.mark.parametrize("reset", [False, True], ids=["closes", "resets"])
def test_a_hang_up_frees_the_waiter_but_not_its_operation(serve, reset):
    served = serve()
    served.request("POST", "/v1/operations", {"keys": ["b"], "id": "op"})
    with ExitStack() as stack:
        held = [
            stack.enter_context(closing(served.open(path)))
            for path in ["/v1/wait?key=a&wait=50s"] * 5 + ["/v1/operations/op?wait=50s"]
        ]
        served.until("purgatory_operations_pending", 6)
        if reset:
            for connection in held:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    served.until("purgatory_operations_pending", 1)
    assert served.sample('purgatory_operations_ended_total{outcome="cancelled"}') == 5
    _, body = served.request("GET", "/v1/operations/op")
    assert json.loads(body)["state"] == "pending"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_answers_every_held_request_and_exits_with_zero(serve, number):
    served = serve()
    with ExitStack() as stack:
        paths = ["/v1/wait?key=a&wait=50s", "/v1/keys/a?index=0&wait=50s"] * 100
        held = [stack.enter_context(closing(served.open(path))) for path in paths]
        served.until("purgatory_operations_pending", 100)
        served.request("GET", "/readyz")  # a full turn behind the last of the held
        code, records = served.stop(number)
        answers = [read_answer(connection) for connection in held]
    assert code == 0
    assert [record["message"] for record in records] == ["listening", "stopping", "draining", "stopped"]
    assert records[2]["held"] == len(paths)
    assert {head.split("\r\n")[0] for head, _ in answers} == {"HTTP/1.1 503 Service Unavailable"}
    assert {json.loads(body)["type"] for _, body in answers} == {"urn:purgatory:problem:draining"}
    spread = [int(head.lower().partition("retry-after: ")[2].split("\r\n")[0]) for head, _ in answers]
    assert {spread.count(second) for second in range(1, 11)} == {20}


def test_while_the_drain_is_delayed_it_serves_but_is_not_ready(serve):
    served = serve("--drain-delay", "10m")
    served.process.send_signal(signal.SIGTERM)
    give_up = time.monotonic() + PATIENCE
    while served.request("GET", "/readyz")[0].status != 503:
        assert time.monotonic() < give_up
    time.sleep(0.3)  # longer than a server needs to stop
    assert served.request("GET", "/v1/keys/a")[0].status == 200
    assert served.request("POST", "/v1/operations", {"keys": ["a"]})[0].status == 202
    code, records = served.stop()  # a second signal ends the delay
    assert code == 0
    assert [record["message"] for record in records] == [
        "listening",
        "stopping",
        "stopping at once",
        "stopped",
    ]


def test_a_drain_delay_ends_by_itself(serve):
    served = serve("--drain-delay", "100ms")
    code, records = served.stop()
    assert code == 0
    assert [record["message"] for record in records] == ["listening", "stopping", "draining", "stopped"]


def test_a_drain_refuses_connections_and_a_second_signal_ends_it(serve):
    served = serve()
    with closing(socket.create_connection(("127.0.0.1", served.port))) as slow:
        slow.sendall(b"POST /v1/operations HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
        served.request("GET", "/healthz")
        served.process.send_signal(signal.SIGTERM)
        while json.loads(served.process.stderr.readline())["message"] != "draining":
            pass
        with pytest.raises(ConnectionRefusedError):
            served.request("GET", "/healthz")
        code, records = served.stop()
        assert code == 0
        assert [record["message"] for record in records][:2] == ["stopping at once", "stopped"]


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(serve):
    served = serve()
    with closing(socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE)) as connection:
        connection.sendall(
            b"POST /v1/keys/a/signal HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 1048577\r\nExpect: 100-continue\r\n\r\n"
        )
        head, body = read_answer(connection)
    assert head.startswith("HTTP/1.1 413 ")
    assert json.loads(body)["type"] == "urn:purgatory:problem:too-large"


def test_keys_are_split_before_they_are_decoded_on_the_wire(serve):
    served = serve()
    _, body = served.request("POST", "/v1/keys/a%2Fb/signal")
    assert json.loads(body)["key"] == "a/b"


def test_the_counters_add_up_while_clients_come_and_go(serve):
    served, chance = serve(), random.Random(7)
    with ExitStack() as stack:
        for number in range(300):
            key = f"k{chance.randrange(20)}"
            if chance.random() < 0.3:
                connection = stack.enter_context(closing(served.open(f"/v1/wait?key={key}&wait=30s")))
                if chance.random() < 0.5:
                    connection.close()
            elif chance.random() < 0.5:
                served.request(
                    "POST", "/v1/operations", {"keys": [key], "timeout": chance.choice([0, "20ms", None])}
                )
            else:
                served.request("POST", f"/v1/keys/{key}/signal")
            if number % 10 == 0:
                _, text = served.request("GET", "/metrics")
                samples = dict(
                    line.rsplit(" ", 1) for line in text.decode().splitlines() if not line.startswith("#")
                )
                ended = sum(
                    float(value)
                    for name, value in samples.items()
                    if name.startswith("purgatory_operations_ended")
                )
                submitted = float(samples["purgatory_operations_submitted_total"])
                assert submitted == ended + float(samples["purgatory_operations_pending"])
        assert submitted > 100


def test_a_taken_address_refuses_the_start_in_one_sentence(serve):
    served = serve()
    second = subprocess.run(
        [sys.executable, "-m", "purgatory_async", "serve", "--port", str(served.port)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert (second.returncode, second.stdout) == (2, "")
    assert (
        second.stderr == f"purgatory: cannot listen on 127.0.0.1 port {served.port}: Address already in use\n"
    )


LACK = "no file descriptor is left"


def test_a_lack_of_descriptors_is_logged_and_passes(serve):
    served = serve()
    resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (64, 64))
    began = time.monotonic()
    with ExitStack() as stack:
        for _ in range(100):
            address = ("127.0.0.1", served.port)
            stack.enter_context(closing(socket.create_connection(address, timeout=PATIENCE)))
        heard = [json.loads(served.process.stderr.readline())]
        while LACK not in heard[-1]["message"]:
            heard.append(json.loads(served.process.stderr.readline()))
    answered = False
    while not answered:
        assert time.monotonic() < began + PATIENCE
        with suppress(ConnectionError):  # until the service has seen them leave
            answered = served.request("GET", "/healthz")[0].status == 200
    code, logged = served.stop()
    lasted = time.monotonic() - began
    logged = heard + logged
    lacks = [record for record in logged if LACK in record["message"]]
    assert code == 0
    assert 1 <= len(lacks) <= lasted + 1
    assert [record for record in logged if record["level"] == "error"] == lacks
