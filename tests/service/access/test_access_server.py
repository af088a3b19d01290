"""Tokens, hosts and pages as a process of its own sees them: real sockets, real signals, real files."""

import json
import os
import signal
import socket
from contextlib import closing

import pytest

from tests.processes import PATIENCE_S, ended, read_answer, records, until

pytestmark = pytest.mark.slow

READER = "reader-0123456789abcdef"
ADMIN = "admin-0123456789abcdef"
OTHER = "other-0123456789abcdef"


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens"
    path.touch(mode=0o600)
    path.write_text(f"# who may what\n{READER} read\n{ADMIN} admin\n")
    return path


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def until_status(served, token, status):
    """Wait until a token is answered with a status."""
    until(lambda: served.request("GET", "/v1/operations", headers=bearer(token)).status == status, status)


def test_tokens_are_required_over_sockets_and_absent_from_logs(serve, tokens):
    served = serve("--tokens", str(tokens))
    attempts = [
        ("GET", "/healthz", {}, 200),
        ("GET", "/v1/operations", {}, 401),
        ("GET", "/v1/operations", bearer(OTHER), 401),
        ("GET", f"/v1/operations?access_token={ADMIN}", {}, 401),
        ("GET", "/v1/operations", bearer(READER), 200),
        ("POST", "/v1/operations", bearer(READER), 403),
        ("POST", "/v1/operations", bearer(ADMIN), 400),
        ("GET", "/nowhere", bearer(ADMIN), 404),
        ("PUT", "/v1/operations", bearer(ADMIN), 405),
        ("GET", "/v1/operations", bearer(ADMIN) | {"Host": "evil.example"}, 421),
        ("POST", "/v1/operations", bearer(ADMIN) | {"Origin": "http://evil.example"}, 403),
        ("POST", "/v1/keys/a/signal", bearer(ADMIN) | {"Origin": f"http://127.0.0.1:{served.port}"}, 200),
        ("GET", "/v1/operations", bearer(ADMIN) | {"X" * 300: "x" * 20_000}, 431),
    ]
    for method, path, headers, status in attempts:
        reply = served.request(method, path, headers=headers)
        assert (reply.status, method, path) == (status, method, path)
        assert (reply.headers.get("www-authenticate") == "Bearer") is (status == 401)
        assert b"0123456789abcdef" not in reply.body
    # A head that cannot be read at all, with a token in it.
    with closing(served.connect()) as connection:
        connection.sendall(f"GET / HTTP/1.1\r\nAuthorization : Bearer {ADMIN}\r\n\r\n".encode())
        head, _ = read_answer(connection)
    assert head.startswith("HTTP/1.1 400 ")
    code, logged = served.stop()
    assert code == 0
    assert "0123456789abcdef" not in logged


def test_an_unauthorized_expect_continue_is_refused_without_100(serve, tokens):
    served = serve("--tokens", str(tokens))
    with closing(served.connect()) as connection:
        connection.sendall(
            b"POST /v1/operations HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            b"Content-Type: application/json\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n"
        )
        head, _ = read_answer(connection)
    assert head.startswith("HTTP/1.1 401 ")


def test_sighup_rereads_the_tokens_and_ignores_a_bad_file(serve, tokens):
    served = serve("--tokens", str(tokens))
    until_status(served, READER, 200)
    tokens.write_text(f"{OTHER} read\n")
    served.send(signal.SIGHUP)
    until_status(served, OTHER, 200)
    assert served.request("GET", "/v1/operations", headers=bearer(READER)).status == 401
    tokens.write_text(f"{READER} root\n")
    served.send(signal.SIGHUP)
    tokens.chmod(0o644)
    served.send(signal.SIGHUP)
    assert served.request("GET", "/v1/operations", headers=bearer(OTHER)).status == 200
    code, logged = served.stop()
    assert code == 0
    assert any(record["message"] == "tokens read again" for record in records(logged))
    reasons = [
        record["reason"] for record in records(logged) if record["message"] == "tokens kept as they were"
    ]
    assert reasons
    assert "0123456789abcdef" not in logged


def test_sighup_ends_held_requests_of_a_token_that_is_gone(serve, tokens):
    served = serve("--tokens", str(tokens))
    until_status(served, READER, 200)
    with closing(served.connect()) as held:
        held.sendall(
            b"GET /v1/keys/a?wait=50s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            b"Authorization: Bearer %b\r\n\r\n" % READER.encode()
        )
        until(lambda: served.samples(bearer(READER)).get("purgatory_held") == 1)
        tokens.write_text(f"{OTHER} read\n")
        served.send(signal.SIGHUP)
        answer, body = read_answer(held)
    assert answer.startswith("HTTP/1.1 401 ")
    assert json.loads(body)["detail"].startswith("the token is gone")
    assert served.stop()[0] == 0


def test_without_tokens_sighup_ends_the_process_as_usual(serve):
    served = serve()
    served.send(signal.SIGHUP)
    assert served.process.wait(PATIENCE_S) == -signal.SIGHUP


def own_address():
    """An address of this machine that is not loopback, None if it has none; nothing is sent."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        return probe.getsockname()[0]


def test_listening_on_all_the_connection_address_is_a_host(serve):
    served = serve("--host", "0.0.0.0", "--insecure")
    address = own_address()
    hosts = {"localhost": 200, f"0.0.0.0:{served.port}": 200, "192.0.2.9": 421, "evil.example": 421}
    for host, status in hosts.items():
        assert served.request("GET", "/healthz", headers={"Host": host}).status == status
    if address is None or address.startswith("127."):
        pytest.skip("this machine has no address but loopback")
    with closing(socket.create_connection((address, served.port), timeout=PATIENCE_S)) as connection:
        connection.sendall(f"GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
        assert read_answer(connection)[0].startswith("HTTP/1.1 200 ")


def test_an_exposed_tokens_file_exits_2_with_one_sentence(tokens):
    tokens.chmod(0o644)
    complaint = f"purgatory: tokens: {tokens} is open to other users (mode 0644): chmod 600 it"
    refused = ended("serve", "--port", 0, env=os.environ | {"PURGATORY_TOKENS": str(tokens)})
    assert refused == (2, "", f"{complaint}\n")
