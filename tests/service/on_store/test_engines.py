"""Workers as processes on Postgres and Redis: the engine goes away, comes back, forgets, and drops connections."""

import asyncio
import threading
from contextlib import closing, contextmanager

import pytest

from tests.cluster.half_open import Proxy
from tests.cluster.server_engines import PostgresEngine, RedisEngine
from tests.cluster.servers import Postgres, RedisServer, need_postgres, need_redis, shared
from tests.processes import Pending, until

pytestmark = pytest.mark.slow

ENGINES = {
    "postgres": (Postgres, PostgresEngine, need_postgres),
    "redis": (RedisServer, RedisEngine, need_redis),
}


@pytest.fixture(params=ENGINES)
def kind(request):
    ENGINES[request.param][2]()
    return ENGINES[request.param]


@pytest.fixture
def server(kind):
    """A server of the test's own."""
    with closing(kind[0]()) as made:
        yield made


@pytest.fixture
def engine(kind):
    """A store of its own on the server of all tests."""
    return kind[1](shared(kind[0]))


def url_of(engine):
    return f"{engine.server.url}?name={engine.name}"


def test_what_waits_outlasts_the_engine(worker, server):
    server.start()
    one = worker(server.url, "--store-timeout", "1s").ready()
    one.request("POST", "/v1/operations", {"id": "due", "keys": ["a"], "timeout": 1.5})
    long = one.hold("GET", "/v1/operations/due?wait=40s")
    short = one.hold("GET", "/v1/keys/a?index=0&wait=1s")
    server.stop(server.stop_at_once)
    change = one.request("POST", "/v1/keys/a/signal")
    assert (change.status, change.slug) == (503, "store-unavailable")
    assert 1 <= int(change.headers["retry-after"]) <= 10
    assert (short.join().status, short.join().slug) == (503, "store-unavailable")
    until(lambda: one.request("GET", "/readyz").status == 503, "not ready")
    assert one.request("GET", "/readyz").json["reasons"] == ["store"]
    assert one.request("GET", "/healthz").status == 200
    assert not long.over
    server.start()
    one.ready()
    answer = long.join()
    assert answer.json["state"] == "expired"
    assert answer.json["elapsed"] >= 1.5
    assert one.request("POST", "/v1/keys/a/signal").status == 200


def test_a_worker_starts_while_the_engine_is_away(worker, server):
    one = worker(server.url, "--store-timeout", "3s")
    assert one.request("GET", "/healthz").status == 200
    assert one.request("GET", "/readyz").json["reasons"] == ["store"]
    assert one.request("GET", "/v1/keys/a").slug == "store-unavailable"
    stats = one.request("GET", "/v1/admin/stats")
    assert stats.json["position"] == 0
    assert "x-purgatory-epoch" not in stats.headers
    server.start()
    one.ready()
    assert one.request("POST", "/v1/keys/a/signal").status == 200


def test_an_engine_that_lost_entries_changes_the_epoch(worker, engine):
    workers = [worker(url_of(engine)).ready(), worker(url_of(engine)).ready()]
    workers[0].request("POST", "/v1/operations", {"id": "kept", "keys": ["a"]})
    position = int(workers[0].request("GET", "/v1/keys/a").headers["x-purgatory-position"])
    before = workers[0].request("GET", "/v1/keys/a").headers["x-purgatory-epoch"]
    lost = workers[0].request("POST", "/v1/keys/a/signal").json["index"]
    held = [each.hold("GET", f"/v1/keys/a?index={lost}&wait=40s") for each in workers]
    asyncio.run(engine.lose(position))
    asyncio.run(engine.cut())
    assert [(each.join().status, each.join().slug) for each in held] == [(503, "gap")] * 2
    for each in workers:
        each.ready()
        answer = each.request("GET", f"/v1/keys/a?index={lost + 1000}&wait=40s")
        assert (answer.status, answer.json["index"]) == (200, 0)
        assert answer.headers["x-purgatory-epoch"] != before
        assert each.request("GET", "/v1/operations/kept").json["state"] == "pending"


def test_an_engine_that_takes_no_writes_loses_nothing(worker, engine):
    workers = [worker(url_of(engine), "--store-timeout", "500ms").ready() for _ in range(2)]
    submitted = {f"o{number}" for number in range(20)}
    for name in submitted:
        workers[0].request("POST", "/v1/operations", {"id": name, "keys": ["never"]})
    held = [each.hold("GET", "/v1/keys/a?index=0&wait=50s") for each in workers]
    asyncio.run(engine.take_writes(False))
    try:
        for each in workers:
            change = each.request("POST", "/v1/keys/b/signal")
            assert (change.status, change.slug) == (503, "store-unavailable")
        for each in workers:
            until(lambda: each.request("GET", "/readyz").status == 503, "not ready")  # noqa: B023 - called before the next
        assert not any(each.over for each in held)
    finally:
        asyncio.run(engine.take_writes(True))
    for each in workers:
        each.ready()
    assert workers[1].request("POST", "/v1/keys/a/signal", {"value": 1}).status == 200
    assert [each.join().json["value"] for each in held] == [1, 1]
    for each in workers:
        listed = each.request("GET", "/v1/operations?key=never&limit=100").json["operations"]
        assert {operation["id"] for operation in listed} == submitted
        assert each.process.poll() is None


def test_half_open_connections_are_given_up(worker, engine):
    with closing(Proxy(engine.server.port)) as proxy:
        url = url_of(engine)
        here = worker(
            url.replace(f":{engine.server.port}/", f":{proxy.port}/"), "--store-timeout", "1s"
        ).ready()
        there = worker(url).ready()
        polling = here.hold("GET", "/v1/keys/a?index=0&wait=50s")
        proxy.stall()
        change = here.request("POST", "/v1/keys/b/signal")
        assert (change.status, change.slug) == (503, "store-unavailable")
        there.request("POST", "/v1/keys/a/signal", {"value": 1})
        assert polling.join().json["value"] == 1
        here.ready()
        assert here.request("POST", "/v1/keys/a/signal").status == 200


def test_cut_connections_lose_and_double_nothing(worker, engine):
    patient = ("--store-timeout", "30s")  # a take that is given up has its item leased
    workers = [worker(url_of(engine), *patient).ready() for _ in range(2)]
    with cutting(engine):
        for number in range(10):
            pending = [
                Pending(each, "POST", "/v1/queues/q/items", {"item": [number, place]})
                for place, each in enumerate(workers)
            ]
            assert [each.join().status for each in pending] == [201, 201]
        taken = [
            workers[number % 2].request("POST", "/v1/queues/q/take").json["item"] for number in range(20)
        ]
    assert sorted(taken) == [[number, place] for number in range(10) for place in range(2)]


@contextmanager
def cutting(engine):
    """Cut all connections each 100 ms."""
    enough = threading.Event()

    def cut():
        while not enough.wait(0.1):
            asyncio.run(engine.cut())

    thread = threading.Thread(target=cut)
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join()
