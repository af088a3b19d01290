"""The kit's nginx before a real service: long polls, streams, ids and restarts."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests import processes
from tests.deploy.front import Front, instead_of_names
from tests.deploy.tools import program_or_skip
from tests.processes import Served, until

pytestmark = pytest.mark.slow

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
PUBLIC = "http://people.example"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def start(stack: ExitStack, folder: Path, *flags: str) -> tuple[Served, Front]:
    program_or_skip("nginx", "nginx-light")
    served = stack.enter_context(Served("--access-log", *flags))
    front = Front(folder, instead_of_names(f"127.0.0.1:{served.port}"))
    stack.callback(front.stop)
    return served, front


def records(served: Served, path: str) -> list[dict[str, object]]:
    """The access log's records of a path, after the service's end."""
    found = processes.records(served.stop()[1])
    return [record for record in found if record.get("event") == "request" and record["path"] == path]


def test_a_long_poll_passes_with_its_id_and_its_trace(stack, tmp_path):
    served, front = start(stack, tmp_path)
    with closing(
        front.open("GET", "/v1/wait?key=a&wait=50s", X_Request_ID="mine", traceparent=PARENT)
    ) as poll:
        served.until('purgatory_http_held{route="/v1/wait"}', 1)
        assert front.ask("POST", "/v1/keys/a/signal", {}).status == 200
        reply = poll.getresponse()
        assert (reply.status, reply.getheader("X-Request-ID")) == (200, "mine")
    [record] = records(served, "/v1/wait")
    assert (record["request_id"], record["trace_id"]) == ("mine", TRACE)
    until(lambda: any(line.endswith(" mine") for line in front.log))
    assert not [line for line in front.log if "key=a" in line]


def test_a_request_without_a_valid_id_gets_nginxs(stack, tmp_path):
    served, front = start(stack, tmp_path)
    ids = [
        front.ask("GET", "/healthz", **fields).getheader("X-Request-ID")
        for fields in ({}, {"X_Request_ID": "a b"})
    ]
    assert all(len(each) == 32 for each in ids)
    assert [record["request_id"] for record in records(served, "/healthz")] == ids
    until(lambda: [line.rpartition(" ")[2] for line in front.log] == ids)


def test_an_event_is_not_kept_back_in_a_buffer(stack, tmp_path):
    served, front = start(stack, tmp_path)
    with closing(front.open("GET", "/v1/events")) as stream:
        reply = stream.getresponse()
        served.until('purgatory_http_held{route="/v1/events"}', 1)
        front.ask("POST", "/v1/keys/a/signal", {})
        # No more events follow, so nothing else can push this one out.
        while not (line := reply.readline()).startswith(b"event:"):
            assert line
        assert line == b"event: signalled\n"
    served.until('purgatory_http_held{route="/v1/events"}', 0)


def test_a_client_that_leaves_frees_its_waiter(stack, tmp_path):
    served, front = start(stack, tmp_path)
    with closing(front.open("GET", "/v1/wait?key=a&wait=50s")):
        served.until("purgatory_held", 1)
    served.until("purgatory_held", 0)


def test_requests_succeed_as_soon_as_the_service_is_back(stack, tmp_path):
    served, front = start(stack, tmp_path)
    assert front.ask("GET", "/healthz").status == 200
    held = stack.enter_context(closing(front.open("GET", "/v1/wait?key=a&wait=50s")))
    served.until("purgatory_held", 1)
    served.stop()
    assert held.getresponse().status == 503  # the service's own answer, with Retry-After
    assert front.ask("GET", "/healthz").status == 502
    stack.enter_context(Served(port=served.port))
    assert front.ask("GET", "/healthz").status == 200


def test_the_metrics_are_not_for_nginxs_clients(stack, tmp_path):
    served, front = start(stack, tmp_path)
    assert front.ask("GET", "/metrics").status == 404
    assert served.request("GET", "/metrics").status == 200


def test_a_link_is_answered_and_is_in_no_log(stack, tmp_path):
    served, front = start(stack, tmp_path, "--public-url", PUBLIC)
    question = {"id": "o", "ask": {"title": "Deploy?"}}
    assert served.request("POST", "/v1/operations", question).status == 202
    link = served.request("POST", "/v1/operations/o/links", {"by": "Ann"}).json["url"].removeprefix(PUBLIC)
    people = {"Host": PUBLIC.partition("//")[2], "Origin": PUBLIC}
    assert front.ask("GET", link, Host=people["Host"]).status == 200
    assert front.ask("POST", link, {"choice": "ok"}, **people).status == 200
    assert served.request("GET", "/v1/operations/o").json["by"] == "Ann"
    _, logged = served.stop()
    assert front.ask("GET", link, Host=people["Host"]).status == 502
    assert front.ask("GET", "/healthz").status == 502
    until(lambda: "/healthz" in front.errors.read_text(encoding="utf-8"))
    until(lambda: len(front.log) == 4)
    assert [line.split()[4] for line in front.log] == ["/a/-"] * 3 + ["/healthz"]
    token = link.removeprefix("/a/")
    assert token not in logged + front.errors.read_text(encoding="utf-8") + "".join(front.log)


def test_a_body_beyond_the_limit_gets_the_services_answer(stack, tmp_path):
    _, front = start(stack, tmp_path)
    reply = front.ask("POST", "/v1/keys/a/signal", {"value": "x" * (1 << 20)})
    assert (reply.status, reply.getheader("Content-Type")) == (413, "application/problem+json")
