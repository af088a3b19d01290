"""A store put back to an earlier state, epoch included: a place of the history that was lost is a gap."""

import asyncio
import copy
import re
import shutil
import subprocess
from contextlib import closing

import pytest

from purgatory_async.cluster.log import LogReconnected
from purgatory_async.durable.fold.terms import KEPT, Terms
from tests.cluster.servers import Postgres, RedisServer, need_postgres, need_redis


class Backup:
    """What a store in memory had."""

    def __init__(self, store):
        self.store = store
        self.kept = copy.copy(vars(store))
        self.kept.update(entries=list(store.entries), parts=dict(store.parts), history=dict(store.history))

    def restore(self):
        vars(self.store).update(self.kept)
        self.store.wake()


async def lose_history(members, here):
    """Signal, go back to the state before that without a worker that could notice, and signal more."""
    backup = Backup(members.store)
    for value in range(20):
        newest = await here.signal("a", value=value)
    read = (await here.request("GET", f"/v1/wait?key=b&since={newest['index'] - 1}")).headers
    now = (await here.request("GET", "/v1/wait?key=a&since=now")).json
    await here.stop()
    backup.restore()
    there = await members.start()
    for value in range(100, 150):
        await there.signal("a", value=value)
    return there, now, read


@pytest.mark.asyncio(loop_factories=["virtual"])
@pytest.mark.parametrize("saved", [False, True])
async def test_a_place_of_a_lost_history_is_a_gap(members, saved):
    here = await members.start()
    before = await here.signal("a")
    shared = (await here.request("GET", "/v1/wait?key=a&since=now")).json["next"]
    there, now, empty = await lose_history(members, here)
    assert there.service.state.epoch == now["next"].partition(".")[0]
    if saved:
        members.trim(there)
        there = await members.start()
    for place in (now["next"], empty["x-purgatory-next"]):
        answer = (await there.request("GET", f"/v1/wait?key=a&since={place}")).json
        assert answer["gap"]
        assert answer["signals"][-1]["value"] == 149
    kept = (await there.request("GET", f"/v1/wait?key=a&since={shared}")).json
    assert not kept["gap"]
    assert [each["value"] for each in kept["signals"]] == list(range(100, 150))
    assert before["index"] < kept["signals"][0]["index"]


@pytest.mark.asyncio(loop_factories=["virtual"])
async def test_an_event_of_a_lost_history_is_a_gap(members):
    here = await members.start()
    streaming = await here.held("GET", "/v1/events")
    await here.signal("a")
    backup = Backup(members.store)
    await here.signal("a")
    await asyncio.sleep(1)
    first, last = re.findall(rb"id: (.+)", streaming.body)
    await here.stop()
    backup.restore()
    there = await members.start()
    await there.signal("a")
    await there.signal("a")
    for seen, events in (
        (last, [b"gap", b"signalled", b"signalled", b"signalled"]),
        (first, [b"signalled"] * 2),
    ):
        again = await there.held("GET", "/v1/events", headers=[("last-event-id", seen.decode())])
        assert re.findall(rb"event: (.+)", again.body) == events


@pytest.mark.asyncio(loop_factories=["virtual"])
async def test_a_worker_that_had_not_read_what_was_lost_tells(members):
    here, there = await members.start(), await members.start()
    await there.signal("a")
    backup = Backup(members.store)
    there.link.away = True
    for value in range(20):
        await here.signal("a", value=value)
    place = (await here.request("GET", "/v1/wait?key=a&since=now")).json["next"]
    await here.stop()
    backup.restore()
    append, there.link.away = there.link.append, False

    async def over_a_new_connection(entries):
        there.link.append = append
        raise LogReconnected("the connection was lost")

    there.link.append = over_a_new_connection
    for value in range(100, 150):
        await there.signal("a", value=value)
    assert (await there.request("GET", f"/v1/wait?key=a&since={place}")).json["gap"]


@pytest.mark.asyncio(loop_factories=["virtual"])
async def test_workers_that_come_and_go_make_no_gap(members):
    here = await members.start()
    place = (await here.request("GET", "/v1/wait?key=a&since=now")).json["next"]
    sent = []
    for _ in range(5):
        sent.append((await here.signal("a"))["index"])
        await here.stop()
        here = await members.start()
        answer = (await here.request("GET", f"/v1/wait?key=a&since={place}&limit=2")).json
        assert not answer["gap"]
        # Each signal has the history of the answer that it is in.
        place = f"{answer['next'].rpartition('-')[0]}-{answer['signals'][0]['index']}"
        assert place.endswith(f"-{sent[-1]}")


def test_terms_are_bounded():
    terms = Terms()
    for position in range(1, 5 * KEPT):
        terms.begin(position, f"{position:024d}")
    assert KEPT <= len(terms.saved()) < 2 * KEPT
    assert terms.at(5 * KEPT) == f"{5 * KEPT - 1:024d}"[:8]


class Files:
    """A backup of the whole folder of a store that is not in use."""

    def __init__(self, folder, server=None):
        self.folder, self.copy, self.server = folder, folder.with_suffix(".backup"), server

    def in_use(self, used):
        if self.server is not None:
            (self.server.start if used else self.server.stop)()

    def save(self):
        self.in_use(False)
        subprocess.run(["cp", "-a", self.folder, self.copy], check=True)
        self.in_use(True)

    def restore(self):
        self.in_use(False)
        shutil.rmtree(self.folder)
        subprocess.run(["cp", "-a", self.copy, self.folder], check=True)
        self.in_use(True)


class InPlace(Files):
    """The same, but the files of a SQLite store are written over, so nothing but what is in them tells."""

    def restore(self):
        for kept in self.copy.iterdir():
            if kept.is_file():
                (self.folder / kept.name).write_bytes(kept.read_bytes())


class Dump(Files):
    """A backup of a Postgres by its own tools."""

    def program(self, name, *flags):
        words = [
            self.server.programs / name,
            "-U",
            "purgatory",
            "-h",
            "127.0.0.1",
            "-p",
            str(self.server.port),
        ]
        return subprocess.run([*words, *flags], check=True, capture_output=True).stdout

    def save(self):
        self.dump = self.program("pg_dump", "--clean", "--if-exists", "postgres")

    def restore(self):
        path = self.folder / "dump.sql"
        path.write_bytes(self.dump)
        self.program("psql", "-q", "-f", str(path), "postgres")


@pytest.fixture(
    params=[("sqlite", Files), ("sqlite", InPlace), ("postgres", Files), ("postgres", Dump), ("redis", Files)]
)
def backup(request, tmp_path):
    """The URL of a store, and what backs it up."""
    engine, kind = request.param
    if engine == "sqlite":
        folder = tmp_path / "store"
        folder.mkdir()
        yield f"sqlite:///{folder}/log.db", kind(folder)
        return
    (need_postgres if engine == "postgres" else need_redis)()
    with closing((Postgres if engine == "postgres" else RedisServer)()) as server:
        server.start()
        yield server.url, kind(server.folder, server)


@pytest.mark.slow
def test_a_restored_backup_loses_no_signal_in_silence(worker, backup):
    url, kept = backup
    one = worker(url).ready()
    for value in range(5):
        one.request("POST", "/v1/keys/a/signal", {"value": value})
    before = one.request("GET", "/v1/wait?key=a&since=now").json["next"]
    one.stop()
    kept.save()
    one = worker(url).ready()
    for value in range(5, 20):
        one.request("POST", "/v1/keys/a/signal", {"value": value})
    place = one.request("GET", "/v1/wait?key=a&since=now").json["next"]
    quiet = one.request("GET", f"/v1/wait?key=b&since={place}").headers["x-purgatory-next"]
    one.stop()
    kept.restore()
    two = worker(url).ready()
    for value in range(100, 150):
        two.request("POST", "/v1/keys/a/signal", {"value": value})
    for each in (place, quiet):
        assert two.request("GET", f"/v1/wait?key=a&since={each}").json["gap"]
    answer = two.request("GET", f"/v1/wait?key=a&since={before}").json
    # A gap too where the engine knows that it was restored.
    assert answer["gap"] == (
        not before.startswith(two.request("GET", "/v1/keys/a").headers["x-purgatory-epoch"])
    )
    two.stop()
