"""``serve --workers 2`` as processes of their own: one port, kills, drains, scrapes, and the end of all."""

import json
import os
import signal
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from tests.processes import PATIENCE_S, Served, ended, read_answer, records, until

pytestmark = pytest.mark.slow

TOKENS = ("admin-0123456789abcdef", "other-0123456789abcdef")


class Supervised(Served):
    """A supervisor and its workers, and what they have logged so far."""

    def __init__(self, store, *flags):
        super().__init__("--workers", "2", "--store", f"sqlite:///{store}", *flags)
        self.records = []

    def logged(self, message, times=1):
        """The records with a message, once there are so many."""
        while len(found := [record for record in self.records if record["message"] == message]) < times:
            self.records.append(json.loads(self.process.stderr.readline()))
        return found

    @property
    def pids(self):
        return {record["worker"]: record["pid"] for record in self.logged("worker started", 2)}

    def kill_worker(self, worker, number=signal.SIGKILL):
        """Send a worker a signal, and wait until it has ended."""
        pid = self.pids[worker]
        os.kill(pid, number)
        until(lambda: gone(pid))

    def stop(self, number=signal.SIGTERM):
        code, logged = super().stop(number)
        self.records += records(logged)
        return code

    def messages(self):
        return [record["message"] for record in self.records]

    def hold_at_all(self, stack):
        """Connections with a held request each, some at each worker: the system chooses which accepts."""
        connections = []
        give_up = time.monotonic() + PATIENCE_S
        while not all(each(self.samples(), "held")):
            assert time.monotonic() < give_up
            # At once: of connections that come one by one, a worker that is awake may accept all.
            opened = (closing(self.open("/v1/wait?key=a&wait=50s")) for _ in range(10))
            connections.extend(map(stack.enter_context, opened))
        until(lambda: sum(filter(None, each(self.samples(), "held"))) == len(connections))
        return connections


def each(samples, name):
    """A metric of both workers."""
    return [samples.get(f'purgatory_{name}{{worker="{worker}"}}') for worker in (1, 2)]


def gone(pid):
    """Whether a process has ended, be it waited for or not."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def serve(tmp_path):
    with ExitStack() as stack:

        def start(*flags):
            return stack.enter_context(Supervised(tmp_path / "state.db", *flags))

        yield start


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens"
    path.touch(mode=0o600)
    path.write_text(f"{TOKENS[0]} admin\n")
    return path


def test_one_port_and_one_scrape_show_all_workers(serve):
    served = serve()
    until(lambda: served.request("GET", "/readyz").status == 200)
    with ExitStack() as stack:
        served.hold_at_all(stack)
        # On a busy machine a worker may answer too late for one scrape.
        until(lambda: each(served.samples(), "worker_up") == [1, 1])
        samples = served.samples()
        assert all(each(samples, "held"))
        assert samples["purgatory_signals_total"] == 0
        assert each(samples, "signals_total") == [None, None]
        assert sum(name.startswith("purgatory_build_info") for name in samples) == 1
        # Other users could read an argument.
        for pid in served.pids.values():
            assert b"sqlite" not in Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.mark.parametrize("together", [False, True], ids=["supervisor", "all"])
def test_sigterm_drains_all_workers_and_exits_with_zero(serve, together):
    served = serve()
    with ExitStack() as stack:
        held = served.hold_at_all(stack)
        if together:  # as systemd does
            for pid in served.pids.values():
                os.kill(pid, signal.SIGTERM)
        assert served.stop() == 0
        answers = [read_answer(connection) for connection in held]
    assert {head.split("\r\n")[0] for head, _ in answers} == {"HTTP/1.1 503 Service Unavailable"}
    assert {json.loads(body)["type"] for _, body in answers} == {"urn:purgatory:problem:draining"}
    assert sum(record["held"] for record in served.logged("draining", 2)) == len(held)
    assert "stopping at once" not in served.messages()
    assert served.messages()[-1] == "stopped"
    assert all(gone(pid) for pid in served.pids.values())


def test_a_second_sigterm_ends_the_drain_delay_of_all(serve):
    served = serve("--drain-delay", "10m")
    served.send(signal.SIGTERM)
    served.logged("stopping", 3)
    for _ in range(10):
        until(lambda: served.request("GET", "/readyz").status == 503)
        assert served.request("GET", "/v1/keys/a").status == 200
    assert served.stop() == 0
    assert {record["worker"] for record in served.logged("stopping at once", 2)} == {1, 2}


def test_a_drain_of_all_workers_refuses_new_connections(serve):
    served = serve()
    with closing(served.open("/healthz")) as slow:
        slow.sendall(b"POST /v1/operations HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
        served.request("GET", "/healthz")
        served.send(signal.SIGTERM)
        served.logged("draining", 2)
        with pytest.raises(ConnectionRefusedError):
            served.request("GET", "/healthz")
        assert served.process.poll() is None
        assert served.stop() == 0


@pytest.mark.parametrize(
    ("number", "how"), [(signal.SIGKILL, ("signal", "SIGKILL")), (signal.SIGTERM, ("code", 0))]
)
def test_a_killed_worker_is_replaced_and_no_request_refused(serve, number, how):
    served = serve()
    served.kill_worker(1, number)
    until_replaced = time.monotonic() + PATIENCE_S
    while (up := each(served.samples(), "worker_up")) != [1, 1]:
        assert up == [0, 1]
        assert served.request("GET", "/readyz").body == b'{"status":"ready"}'
        assert time.monotonic() < until_replaced
    (ended,) = served.logged("worker ended")
    assert (ended["worker"], ended[how[0]], ended["started_again_in"]) == (1, how[1], 1.0)
    assert served.stop() == 0


def test_workers_die_with_a_killed_supervisor(serve):
    served = serve("--drain-delay", "10m")
    pids = served.pids.values()
    with ExitStack() as stack:
        held = served.hold_at_all(stack)
        served.process.kill()
        assert {read_answer(connection)[0].split(" ")[1] for connection in held} == {"503"}
    until(lambda: all(gone(pid) for pid in pids))
    with pytest.raises(ConnectionRefusedError):
        served.request("GET", "/healthz")


def test_a_drain_reaches_all_workers_and_those_to_come(serve):
    served = serve()
    with ExitStack() as stack:
        held = served.hold_at_all(stack)
        reply = served.request("POST", "/v1/admin/drain")
        assert (reply.status, reply.json["released"]) == (202, len(held))
        assert {read_answer(connection)[0].split(" ")[1] for connection in held} == {"503"}
    served.kill_worker(2)
    until(lambda: each(served.samples(), "worker_up") == [1, 1])
    for _ in range(10):
        reply = served.request("GET", "/readyz")
        assert (reply.status, reply.json["reasons"]) == (503, ["draining"])
        assert served.request("GET", "/v1/wait?key=a&wait=50s").status == 503
    assert served.stop() == 0


def test_a_sighup_reaches_all_workers(serve, tokens):
    served = serve("--tokens", str(tokens))
    tokens.write_text(f"{TOKENS[1]} admin\n")
    served.send(signal.SIGHUP)
    assert {record["worker"] for record in served.logged("tokens read again", 2)} == {1, 2}
    assert each(served.samples(bearer(TOKENS[1])), "worker_up") == [1, 1]
    assert served.stop() == 0


def test_all_workers_count_requests_against_one_rate(serve, tokens):
    tokens.write_text(f"{TOKENS[0]} admin name=ann rate=1/m\n")
    served = serve("--tokens", str(tokens))
    statuses, workers = [], set()
    while len(workers) < 2 or len(statuses) < 10:  # a worker's own ids begin alike
        reply = served.request("GET", "/v1/keys/a", headers=bearer(TOKENS[0]))
        statuses.append(reply.status)
        workers.add(reply.headers["x-request-id"].split("-")[0])
        assert len(statuses) < 1000
    assert sorted(set(statuses)) == [200, 429]
    assert statuses.count(200) == 1
    assert served.stop() == 0


def test_a_worker_that_cannot_start_again_is_given_up(serve, tokens):
    served = serve("--tokens", str(tokens))
    tokens.unlink()
    served.kill_worker(2)
    started = {record["pid"] for record in served.logged("worker started", 3)}
    message = "worker is given up, the others go on without it: mend the reason, then restart the service"
    (given_up,) = served.logged(message)
    assert (given_up["level"], given_up["worker"], given_up["code"]) == ("error", 2, 2)
    assert str(tokens) in given_up["reason"]
    assert each(served.samples(bearer(TOKENS[0])), "worker_up") == [1, 0]
    assert served.stop() == 0
    assert started == {record["pid"] for record in served.logged("worker started")}


def test_a_start_that_a_worker_refuses_is_refused_once(tmp_path):
    missing = tmp_path / "tokens"
    flags = ["--port", 0, "--workers", 2, "--store", f"sqlite:///{tmp_path}/a.db", "--tokens", missing]
    code, output, errors = ended("serve", *flags)
    assert (code, output) == (2, "")
    sentences = [line for line in errors.splitlines() if not line.startswith("{")]
    assert sentences == [f"purgatory: tokens: cannot read {missing}: No such file or directory"]
