"""Two workers that start at once on a store that is empty."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cluster.server_engines import PostgresEngine, RedisEngine
from tests.cluster.servers import Postgres, RedisServer, need_postgres, need_redis, shared

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def empty_store(request, file_store):
    """The URL of an empty store on each engine."""
    if request.param == "sqlite":
        return file_store
    if request.param == "postgres":
        need_postgres()
        engine = PostgresEngine(shared(Postgres))
    else:
        need_redis()
        engine = RedisEngine(shared(RedisServer))
    return f"{engine.server.url}?name={engine.name}"


def test_two_starts_at_once_on_an_empty_store_make_one_log(worker, empty_store):
    with ThreadPoolExecutor(2) as pool:
        workers = list(pool.map(lambda _: worker(empty_store).ready(), range(2)))
    for number, each in enumerate(workers):
        each.request("POST", "/v1/operations", {"id": f"o{number}", "keys": ["a"]})
    polling = workers[0].hold("GET", "/v1/operations/o0?wait=40s")
    assert workers[1].request("POST", "/v1/keys/a/signal").json["completed"] == 2
    assert polling.join().json["state"] == "completed"
    found = [each.request("GET", f"/v1/operations/o{1 - number}") for number, each in enumerate(workers)]
    assert [answer.json["state"] for answer in found] == ["completed"] * 2
    assert len({answer.headers["x-purgatory-epoch"] for answer in found}) == 1
