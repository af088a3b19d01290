"""A store that is damaged, removed or replaced while workers run: exit 3, and nothing is made up."""

import asyncio
import os
import shutil
import signal
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests.cluster.server_engines import PostgresEngine
from tests.cluster.servers import Postgres, RedisServer, need_postgres, need_redis, shared
from tests.processes import ended, purgatory, until

pytestmark = pytest.mark.slow

FILES = ("log.db", "log.db-wal", "log.db-shm", "log.db.lock")


def remove(folder, _, names=FILES):
    for name in names:
        (folder / name).unlink(missing_ok=True)


def remove_but_the_lock(folder, other):
    remove(folder, other, FILES[:3])


def replace(folder, other):
    remove(folder, other, FILES[:3])
    shutil.copy(other / "log.db", folder)


def replace_all(folder, other):
    remove(folder, other)
    for each in other.iterdir():
        if each.is_file():
            shutil.copy(each, folder)


def children(process):
    return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split()


@pytest.fixture
def other(worker, tmp_path):
    """The folder of another store, stopped, with a longer log."""
    folder = tmp_path / "other"
    folder.mkdir()
    made = worker(f"sqlite:///{folder}/log.db").ready()
    for value in range(30):
        made.request("POST", "/v1/keys/a/signal", {"value": value})
    made.stop()
    return folder


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("wreck", [remove, remove_but_the_lock, replace, replace_all])
def test_a_store_that_is_gone_ends_all_workers(worker, tmp_path, other, wreck, killed):
    one = worker(f"sqlite:///{tmp_path}/log.db", "--workers", "2").ready()
    assert one.request("POST", "/v1/keys/a/signal", {"value": "ours"}).status == 200
    workers = until(lambda: found if len(found := children(one.process)) == 2 else None, "two workers")
    wreck(tmp_path, other)
    if killed:
        for pid in workers:
            os.kill(int(pid), signal.SIGKILL)
    code, logged = one.end()
    assert code == 3
    assert "Traceback" not in logged
    assert "while in use" in logged
    if wreck is remove:
        assert not (tmp_path / "log.db").exists()


def test_a_read_does_not_come_from_a_removed_file(worker, file_store, tmp_path):
    one = worker(file_store).ready()
    one.request("POST", "/v1/keys/a/signal", {"value": "ours"})
    remove(tmp_path, None)
    try:
        status = one.request("GET", "/v1/keys/a").status
    except OSError:
        status = None  # it has ended meanwhile
    assert status in {503, None}
    assert one.end()[0] == 3


@pytest.fixture
def redis():
    need_redis()
    with closing(RedisServer()) as server:
        server.start()
        yield server


def do(server, *words):
    subprocess.run(["redis-cli", "-p", str(server.port), *words], check=True, capture_output=True)


def test_readers_of_an_emptied_redis_get_a_gap_and_go_on(worker, redis):
    one = worker(redis.url).ready()
    for value in range(5):
        newest = one.request("POST", "/v1/keys/a/signal", {"value": value}).json["index"]
    before = one.request("GET", "/v1/keys/a").headers["x-purgatory-epoch"]
    held = [one.hold("GET", f"/v1/wait?key=a&since={newest}&wait=40s") for _ in range(4)]
    following = purgatory("follow", "a", "--since", newest, env={**os.environ, "PURGATORY_URL": one.address})
    until(lambda: one.counts()["held"] == 5, "the follower")
    do(redis, "FLUSHALL")
    places = {each.join().json["next"] for each in held}
    assert all(each.join().json["gap"] for each in held)
    (place,) = places
    epoch = one.request("GET", "/v1/keys/a").headers["x-purgatory-epoch"]
    assert epoch not in {"", before}
    assert place.startswith(epoch)
    assert one.request("GET", f"/v1/wait?key=a&since={place}").status == 204
    one.request("POST", "/v1/keys/a/signal", {"value": "after"})
    assert one.request("GET", f"/v1/wait?key=a&since={place}").json["signals"][0]["value"] == "after"
    line = following.stdout.readline()
    following.kill()
    assert '"after"' in line
    assert "may be missing" in following.communicate()[1]


@pytest.mark.parametrize(
    "change",
    [("at_us", str(1 << 62)), ("level", "99")],
)
@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_absurd_head_ends_all_workers(worker, redis, change, workers):
    one = worker(redis.url, "--workers", workers).ready()
    one.request("POST", "/v1/keys/a/signal")
    do(redis, "HSET", "{purgatory}:head", *change)
    again, _, complaint = ended("serve", "--port", "0", "--store", redis.url, "--workers", workers)
    for code, logged in (one.end(), (again, complaint)):
        assert code == 3
        assert "Traceback" not in logged
        assert change[1][:8] in logged


@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_emptied_postgres_ends_all_workers(worker, workers):
    need_postgres()
    engine = PostgresEngine(shared(Postgres))
    one = worker(f"{engine.server.url}?name={engine.name}", "--workers", workers).ready()
    one.request("POST", "/v1/keys/a/signal")
    # As TRUNCATE does, whose locks could meet the workers' locks in another order.
    asyncio.run(engine.sql("WITH gone AS (DELETE FROM purgatory_log) DELETE FROM purgatory_head"))
    code, logged = one.end()
    assert code == 3
    assert "Traceback" not in logged
    assert "must have a head" in logged
