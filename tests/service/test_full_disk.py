"""A full disk under ``--journal-sync always``: a refused request leaves nothing, a retry doubles nothing."""

import asyncio
import errno
import json
import os
import random
import resource
import signal
import threading

import pytest

from purgatory_async.durable.state import Guard
from purgatory_async.journal import _writer_thread, read_journal
from purgatory_async.journal.schema import Outcome, Signal, Submit
from purgatory_async.journal.segments import SegmentFile
from tests import processes
from tests.disks import small_file_system
from tests.processes import Served
from tests.service.wire import PATIENCE, until

JOBS = "/v1/queues/jobs"
CHANGES = [
    pytest.param("POST", "/v1/operations", {"keys": ["a"], "id": "new"}, id="submit"),
    pytest.param("POST", "/v1/operations?wait=5s", {"keys": ["a"], "id": "new"}, id="submit and wait"),
    pytest.param("POST", "/v1/keys/a/signal", {"value": 1}, id="signal"),
    pytest.param("POST", "/v1/operations/old/complete", {}, id="complete"),
    pytest.param("DELETE", "/v1/operations/old", None, id="cancel"),
]
READS = [
    *("/healthz", "/metrics", "/ui/", "/ui/app.js", "/openapi.json", "/v1/operations", "/v1/operations/old"),
    *("/v1/keys/a", "/v1/keys/a?index=0&wait=0", "/v1/wait?key=a", "/v1/admin/stats"),
]


class Disk:
    """A disk that accepts writes or is full; a write can be made to wait."""

    def __init__(self, monkeypatch):
        self.full = False
        self.ready = threading.Event()
        self.ready.set()
        append_lines = SegmentFile.append

        def append(book, lines):
            self.ready.wait()
            if self.full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            append_lines(book, lines)

        monkeypatch.setattr(SegmentFile, "append", append)
        monkeypatch.setattr(_writer_thread, "LOOK_S", 0.01)


class Flickering:
    """True about every other time that it is asked."""

    def __init__(self, seed):
        self._chance = random.Random(seed)

    def __bool__(self):
        return self._chance.random() < 0.5


@pytest.fixture
def disk(monkeypatch):
    disk = Disk(monkeypatch)
    yield disk
    disk.ready.set()


@pytest.fixture
def always(make_client, disk, tmp_path):
    return make_client(journal=tmp_path, journal_sync="always")


async def done(client, method, target, body=None, headers=()):
    exchange = client.start(method, target, body, headers)
    async with asyncio.timeout(PATIENCE):
        await exchange.over
    return exchange


async def fill(client, disk):
    """Fill the disk with the operation ``old`` pending, and let the journal find out."""
    assert (await done(client, "POST", "/v1/operations", {"keys": ["z"], "id": "old"})).status == 202
    disk.full = True
    assert (await done(client, "POST", "/v1/operations", {"keys": ["z"], "id": "first"})).status == 503


def state(client):
    """Everything that a request could leave behind."""
    service = client.service
    return (
        [operation.id for operation in service.listed(None)],
        service.fold.signals.index,
        service.held.feed.newest,
        service.metrics.submitted,
        len(service.fold.operations.by_id),
        service.timer.pending,
        (service.fold.queues.kept, len(service.fold.queues.leases)),
    )


@pytest.mark.asyncio
@pytest.mark.parametrize(("method", "target", "body"), CHANGES)
async def test_a_change_that_is_refused_leaves_nothing(always, disk, method, target, body):
    await fill(always, disk)
    before = state(always)
    for _ in range(3):
        refused = await done(always, method, target, body, [("idempotency-key", "k")])
        assert (refused.status, refused.slug) == (503, "overloaded")
        assert "No space left on device" in refused.json["detail"]
        assert "retry-after" in refused.headers
    assert state(always) == before
    disk.full = False
    await until(lambda: always.service.records.trouble is None)
    assert (await done(always, *_without_wait(method, target), body)).status < 300


def _without_wait(method, target):
    return method, target.partition("?")[0]


@pytest.mark.asyncio
@pytest.mark.parametrize("target", READS)
async def test_what_changes_nothing_is_answered(always, disk, target):
    await fill(always, disk)
    assert (await always.request("GET", target)).status in {200, 204, 304}


@pytest.mark.asyncio
async def test_changes_of_nothing_are_answered(always, disk):
    await done(always, "POST", "/v1/operations", {"keys": ["z"], "id": "ended", "timeout": 0})
    key = [("idempotency-key", "k")]
    await done(always, "POST", "/v1/operations", {"keys": ["z"]}, key)
    await fill(always, disk)
    assert (await always.request("DELETE", "/v1/operations/ended")).status == 200
    assert (await always.request("POST", "/v1/operations/ended/complete", {})).slug == "already-ended"
    replay = await always.request("POST", "/v1/operations", {"keys": ["z"]}, key)
    assert (replay.status, replay.headers["idempotency-replayed"]) == (202, "true")


@pytest.mark.asyncio
async def test_queues_are_not_recorded_and_go_on(always, disk):
    await fill(always, disk)
    for number in range(2):
        assert (await always.request("POST", f"{JOBS}/items", {"item": number})).status == 201
    for verb in ("ack", "return"):
        lease = (await always.request("POST", f"{JOBS}/take", {})).json["lease"]
        assert (await always.request("POST", f"/v1/leases/{lease}/{verb}")).status == 204
    assert (always.service.fold.queues.kept, len(always.service.fold.queues.leases)) == (1, 0)


@pytest.mark.asyncio
async def test_it_is_not_ready_and_says_why(always, disk):
    await fill(always, disk)
    unready = await always.request("GET", "/readyz")
    assert (unready.status, unready.slug, unready.json["reasons"]) == (503, "not-ready", ["disk"])
    always.service.begin_drain(Guard())
    unready = await always.request("GET", "/readyz")
    assert (unready.status, unready.slug) == (503, "draining")
    assert unready.json["reasons"] == ["draining", "disk"]


@pytest.mark.asyncio
async def test_it_is_ready_again_when_there_is_room(always, disk):
    await fill(always, disk)
    disk.full = False
    await until(lambda: always.service.records.trouble is None)
    assert (await always.request("GET", "/readyz")).status == 200
    assert (await done(always, "POST", "/v1/operations", {"keys": ["a"]})).status == 202


@pytest.mark.asyncio
@pytest.mark.parametrize(("full", "status"), [("drop", 200), ("refuse", 503)])
async def test_it_is_ready_as_long_as_it_takes_operations(make_client, disk, tmp_path, full, status):
    client = make_client(journal=tmp_path, journal_full=full)
    disk.full = True
    await client.submit("a")
    await until(lambda: client.service.records._journal.trouble)
    assert (await client.request("GET", "/readyz")).status == status
    assert (await done(client, "POST", "/v1/operations", {"keys": ["a"]})).status in {202, status}


@pytest.mark.asyncio
async def test_a_submission_the_disk_did_not_take_is_withdrawn(always, disk, tmp_path):
    disk.full = True
    before = state(always)
    submit = ("POST", "/v1/operations?wait=5s", {"keys": ["a"], "id": "op"}, [("idempotency-key", "k")])
    refused = await done(always, *submit)
    assert (refused.status, refused.slug) == (503, "overloaded")
    assert list(always.service.listed(None)) == []
    assert len(always.service.fold.operations.by_id) == before[4]
    assert (await always.request("GET", "/v1/operations/op")).slug == "unknown-operation"
    disk.full = False
    await until(lambda: always.service.records.trouble is None)
    again = always.start(*submit)
    await until(lambda: always.service.held.requests.count)
    assert (await done(always, "POST", "/v1/keys/a/signal")).json["completed"] == 1
    await again.over
    assert (again.status, "idempotency-replayed" in again.headers) == (200, False)
    always.service.close()
    ends = [record.outcome for record in read_journal(tmp_path) if isinstance(record, Outcome)]
    assert ends == ["cancelled", "completed"]


@pytest.mark.asyncio
async def test_a_replay_waits_for_the_first_and_falls_with_it(always, disk):
    disk.ready.clear()
    disk.full = True
    submit = ("POST", "/v1/operations", {"keys": ["a"]}, [("idempotency-key", "k")])
    first, second = await always.held(*submit), await always.held(*submit)
    disk.ready.set()
    await first.over
    await second.over
    assert [first.status, second.status] == [503, 503]
    assert list(always.service.listed(None)) == []


@pytest.mark.asyncio
@pytest.mark.parametrize(("method", "target", "body"), CHANGES[2:])
async def test_what_cannot_be_taken_back_is_answered_as_done(always, disk, method, target, body):
    await done(always, "POST", "/v1/operations", {"keys": ["a"], "id": "old"})
    disk.full = True
    reply = await done(always, method, target, body)
    assert (reply.status, reply.headers["x-purgatory-recorded"]) == (200, "false")
    status = await always.request("GET", "/v1/operations/old")
    assert status.json["state"] in {"completed", "cancelled"}
    disk.full = False
    await until(lambda: always.service.records.trouble is None)
    always.service.close()
    found = read_journal(always.service.settings.journal)
    kinds = [type(record) for record in found if isinstance(record, Submit | Outcome)]
    assert kinds == [Submit, Outcome]


@pytest.mark.asyncio
async def test_an_operation_that_ended_before_the_disk_failed_stays(always, disk):
    disk.full = True
    reply = await done(always, "POST", "/v1/operations", {"keys": ["a"], "id": "op", "timeout": 0})
    assert (reply.status, reply.json["state"]) == (201, "expired")
    assert reply.headers["x-purgatory-recorded"] == "false"
    assert (await always.request("GET", "/v1/operations/op")).status == 200


@pytest.mark.asyncio
@pytest.mark.parametrize("seed", range(4))
async def test_retries_until_success_do_everything_once(always, disk, tmp_path, seed):
    chance = random.Random(seed)

    async def persist(method, target, body):
        async with asyncio.timeout(PATIENCE):
            while (reply := await done(always, method, target, body)).status == 503:  # noqa: ASYNC110 - it asks again
                await asyncio.sleep(0.001)
        return reply.status

    disk.full = Flickering(seed)
    requests = [("POST", "/v1/operations", {"keys": ["never"], "id": f"op{n}"}) for n in range(100)]
    requests += [("POST", "/v1/keys/a/signal", {})] * 100
    chance.shuffle(requests)
    statuses = []
    for start in range(0, len(requests), 10):
        statuses += await asyncio.gather(*(persist(*each) for each in requests[start : start + 10]))
    disk.full = False
    assert sorted(statuses) == [200] * 100 + [202] * 100  # never 409: what was refused is not there
    assert {each.id for each in always.service.listed(None)} == {f"op{n}" for n in range(100)}
    assert always.service.fold.shared.totals.signals == 100
    await until(lambda: always.service.records.trouble is None)
    always.service.close()
    records = list(read_journal(tmp_path))
    assert [record.seq for record in records] == [*range(1, len(records) + 1)]
    assert sum(isinstance(record, Signal) for record in records) == 100
    ends = [record.outcome for record in records if isinstance(record, Outcome)]
    assert ends.count("closed") == 100
    assert ends.count("cancelled") == sum(isinstance(record, Submit) for record in records) - 100


# The real thing.


@pytest.fixture
def served(tmp_path):
    with Served("--journal", tmp_path, "--journal-sync", "always") as served:
        yield served


@pytest.mark.slow
def test_a_process_whose_disk_fills_up_refuses_and_recovers(served, tmp_path):
    def limit_files(size):
        limits = (size, resource.RLIM_INFINITY)
        resource.prlimit(served.process.pid, resource.RLIMIT_FSIZE, limits)

    def submit(number):
        order = {"keys": ["never"], "id": f"op{number}"}
        return served.request("POST", "/v1/operations", order).status

    def pending():
        listed = served.request("GET", "/v1/operations?limit=1000").json["operations"]
        return {operation["id"] for operation in listed}

    def ready():
        reply = served.request("GET", "/readyz")
        return reply.status, reply.json.get("reasons")

    limit_files(5_000)
    statuses = {f"op{number}": submit(number) for number in range(50)}
    assert set(statuses.values()) == {202, 503}
    taken = {each for each, status in statuses.items() if status == 202}
    assert pending() == taken
    assert served.request("GET", "/healthz").status == 200
    assert ready() == (503, ["disk"])
    assert served.request("POST", "/v1/keys/never/signal").status == 503
    assert pending() == taken
    limit_files(resource.RLIM_INFINITY)
    processes.until(lambda: ready() == (200, None))
    assert {submit(number) for number in range(50) if f"op{number}" not in taken} == {202}
    assert pending() == set(statuses)
    assert served.stop()[0] == 0
    records = list(read_journal(tmp_path))
    assert [record.seq for record in records] == [*range(1, len(records) + 1)]
    ends = [record.outcome for record in records if isinstance(record, Outcome)]
    assert ends == ["cancelled"] + ["closed"] * 50


@pytest.fixture
def small_disk(tmp_path):
    with small_file_system(tmp_path / "disk", "256k") as where:
        yield where


@pytest.mark.slow
@pytest.mark.parametrize("flags", [["--journal-sync", "always"], ["--journal-full", "refuse"]])
def test_the_log_warns_before_a_change_is_refused(small_disk, flags):
    with Served("--journal", small_disk / "journal", "--journal-keep", "30d", *flags) as served:
        lines = []
        reader = threading.Thread(target=lambda: lines.extend(served.process.stderr))
        reader.start()
        order = {"keys": ["x" * 512], "data": "x"}
        while served.request("POST", "/v1/operations", order).status == 202:
            pass
        assert served.request("GET", "/v1/admin/stats").json["journal"]["warnings"] == ["disk", "space"]
        served.send(signal.SIGKILL)
        reader.join()
    begins, full = (json.loads(line)["message"] for line in lines if "warning" in line)
    assert "nearly full" in begins
    assert ["cannot write to" in full, "0 of 0 MiB are free on the disk" in full] == [True, True]
