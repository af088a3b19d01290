"""Workers behind a pooler that gives each transaction another session of Postgres."""

import json

import pytest

from tests.cluster.server_engines import PostgresEngine
from tests.cluster.servers import Pgbouncer, Postgres, need_pgbouncer, shared
from tests.processes import ended

pytestmark = pytest.mark.slow


@pytest.fixture
def pooled():
    """The URL of an empty log behind pgbouncer."""
    need_pgbouncer()
    engine = PostgresEngine(shared(Postgres))
    pooler = Pgbouncer(engine.server)
    pooler.start()
    yield f"{pooler.url}?name={engine.name}"
    pooler.close()


def test_workers_and_restarts_behind_a_pooler_lose_nothing(worker, pooled):
    first, second = worker(pooled).ready(), worker(pooled).ready()
    logs = []
    for number in range(30):
        here, other = (first, second) if number % 2 else (second, first)
        order = {"id": f"o{number}", "keys": [f"k{number}"]}
        assert here.request("POST", "/v1/operations", order).status == 202
        assert other.request("POST", f"/v1/keys/k{number}/signal", {}).json["completed"] == 1
    for _ in range(2):
        code, log = first.stop()
        assert code == 0
        logs.append(log)
        first = worker(pooled).ready()
        for number in range(30):
            assert first.request("GET", f"/v1/operations/o{number}").json["state"] == "completed"
    code, log = second.stop()
    assert code == 0
    said = "notifications of Postgres do not arrive, as behind a pooler: reading each 50 ms instead"
    for each in (*logs, log):
        warnings = [json.loads(line)["message"] for line in each.splitlines() if '"warning"' in line]
        assert warnings == [said]
    code, _, errors = ended("store", "check", pooled)
    assert (code, errors.strip()) == (0, said)
