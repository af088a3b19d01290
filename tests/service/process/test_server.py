"""The server as a process of its own: real sockets, real signals, real time."""

import json
import resource
import signal
import socket
import time
from contextlib import ExitStack, closing, suppress

import pytest

from tests.processes import PATIENCE_S, ended, read_answer, records, until

pytestmark = pytest.mark.slow


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
    assert served.request("GET", "/v1/operations/op").json["state"] == "pending"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_answers_every_held_request_and_exits_with_zero(serve, number):
    served = serve()
    with ExitStack() as stack:
        paths = ["/v1/wait?key=a&wait=50s", "/v1/keys/a?index=0&wait=50s"] * 100
        held = [stack.enter_context(closing(served.open(path))) for path in paths]
        served.until("purgatory_operations_pending", 100)
        served.request("GET", "/readyz")  # a full turn behind the last of the held
        code, logged = served.stop(number)
        answers = [read_answer(connection) for connection in held]
    assert code == 0
    assert [record["message"] for record in records(logged)] == [
        "listening",
        "stopping",
        "draining",
        "stopped",
    ]
    assert records(logged)[2]["held"] == len(paths)
    assert {head.split("\r\n")[0] for head, _ in answers} == {"HTTP/1.1 503 Service Unavailable"}
    assert {json.loads(body)["type"] for _, body in answers} == {"urn:purgatory:problem:draining"}
    spread = [int(head.lower().partition("retry-after: ")[2].split("\r\n")[0]) for head, _ in answers]
    assert {spread.count(second) for second in range(1, 11)} == {20}


def test_while_the_drain_is_delayed_it_serves_but_is_not_ready(serve):
    served = serve("--drain-delay", "10m")
    served.send(signal.SIGTERM)
    until(lambda: served.request("GET", "/readyz").status == 503)
    time.sleep(0.3)  # longer than a server needs to stop
    assert served.request("GET", "/v1/keys/a").status == 200
    assert served.request("POST", "/v1/operations", {"keys": ["a"]}).status == 202
    code, logged = served.stop()  # a second signal ends the delay
    assert code == 0
    messages = [record["message"] for record in records(logged)]
    assert messages == ["listening", "stopping", "stopping at once", "stopped"]


def test_a_drain_refuses_connections_and_a_second_signal_ends_it(serve):
    served = serve()
    with closing(served.connect()) as slow:
        head = "POST /v1/operations HTTP/1.1", "Host: localhost", "Content-Type: application/json"
        slow.sendall("\r\n".join((*head, "Content-Length: 9", "", "{")).encode())
        served.request("GET", "/healthz")
        served.send(signal.SIGTERM)
        while json.loads(served.process.stderr.readline())["message"] != "draining":
            pass
        with pytest.raises(ConnectionRefusedError):
            served.request("GET", "/healthz")
        code, logged = served.stop()
        assert code == 0
        assert [record["message"] for record in records(logged)][:2] == ["stopping at once", "stopped"]


def test_a_taken_address_refuses_the_start_in_one_sentence(serve):
    served = serve()
    complaint = f"purgatory: cannot listen on 127.0.0.1 port {served.port}: Address already in use\n"
    assert ended("serve", "--port", served.port) == (2, "", complaint)


LACK = "no file descriptor is left"


def test_a_lack_of_descriptors_is_logged_and_passes(serve):
    served = serve()
    resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (64, 64))
    began = time.monotonic()
    with ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(closing(served.connect()))
        heard = [json.loads(served.process.stderr.readline())]
        while LACK not in heard[-1]["message"]:
            heard.append(json.loads(served.process.stderr.readline()))
    answered = False
    while not answered:
        assert time.monotonic() < began + PATIENCE_S
        with suppress(ConnectionError):  # until the service has seen them leave
            answered = served.request("GET", "/healthz").status == 200
    code, logged = served.stop()
    lasted = time.monotonic() - began
    logged = heard + records(logged)
    lacks = [record for record in logged if LACK in record["message"]]
    assert code == 0
    assert 1 <= len(lacks) <= lasted + 1
    assert [record for record in logged if record["level"] == "error"] == lacks
