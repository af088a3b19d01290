"""The service's journal: an answered change is recorded, and a failure to record is reported."""

import threading
from collections import Counter

import pytest

from purgatory_async.journal import read_journal
from purgatory_async.journal.schema import NO_SUM, Outcome, Signal, Stats, Submit
from purgatory_async.journal.segments import SegmentFile
from purgatory_async.service.service import Service
from purgatory_async.service.settings import Settings, SettingsError

pytestmark = pytest.mark.asyncio


def records(client, directory):
    """The records after the service has stopped."""
    client.service.close()
    return list(read_journal(directory))


async def test_records_have_what_operations_need_and_signals_weigh(make_client, tmp_path):
    client = make_client(journal=tmp_path)
    for need in ("any", "all", {"amount": 7}, {"voters": 2}):
        await client.submit("a", "b", need=need)
    await client.submit("late", timeout=5)
    await client.signal("a", amount=7)
    await client.advance(5)
    found = records(client, tmp_path)
    assert [record.seq for record in found] == list(range(1, len(found) + 1))
    assert [record.needed for record in found if isinstance(record, Submit)] == [1, NO_SUM, 7, NO_SUM, 1]
    assert [(record.key, record.n) for record in found if isinstance(record, Signal)] == [("a", 7)]
    outcomes = Counter(record.outcome for record in found if isinstance(record, Outcome))
    assert outcomes == {"completed": 2, "expired": 1, "closed": 2}
    [expired] = [record for record in found if isinstance(record, Outcome) and record.outcome == "expired"]
    assert (expired.keys, expired.latency_ns, expired.lateness_ns) == (["late"], 5_000_000_000, 0)
    assert found[-1].pending == 0
    assert isinstance(found[-1], Stats)


async def test_one_shot_waits_are_recorded_too(make_client, tmp_path):
    client = make_client(journal=tmp_path)
    held = await client.held("GET", "/v1/wait?key=a&wait=9")
    await client.signal("a")
    await held.task
    assert [type(record) for record in records(client, tmp_path)] == [Submit, Stats, Outcome, Signal, Stats]


async def test_waits_and_operations_share_no_id(make_client, tmp_path):
    client = make_client(journal=tmp_path)
    await client.submit("a")
    held = await client.held("GET", "/v1/wait?key=a&wait=9")
    await client.signal("a")
    await held.task
    found = [record.op_id for record in records(client, tmp_path) if isinstance(record, Submit | Outcome)]
    assert sorted(Counter(found).values()) == [2, 2]


class Disk:
    """Syncs when it is allowed to, or not at all."""

    def __init__(self, monkeypatch):
        self.ready = threading.Event()
        self.fault = None
        monkeypatch.setattr(SegmentFile, "sync", self.sync)

    def sync(self):
        self.ready.wait()
        if self.fault is not None:
            raise self.fault


@pytest.fixture
def disk(monkeypatch):
    disk = Disk(monkeypatch)
    yield disk
    disk.ready.set()


async def test_with_sync_always_answers_wait_for_the_disk(make_client, tmp_path, disk):
    client = make_client(journal=tmp_path, journal_sync="always")
    submission = await client.held("POST", "/v1/operations", {"keys": ["a"]})
    assert client.service.pending == 1
    disk.ready.set()
    await submission.task
    assert submission.status == 202


@pytest.mark.parametrize("sync", ["group", "os"])
async def test_with_other_policies_answers_do_not_wait_for_the_disk(make_client, tmp_path, disk, sync):
    client = make_client(journal=tmp_path, journal_sync=sync)
    await client.submit("a")
    disk.ready.set()


async def test_a_failing_disk_is_reported_instead_of_the_answer(make_client, tmp_path, disk):
    client = make_client(journal=tmp_path, journal_sync="always")
    disk.fault = OSError(5, "Input/output error")
    disk.ready.set()
    submission = client.start("POST", "/v1/operations", {"keys": ["a"]})
    await submission.task
    assert (submission.status, submission.slug) == (503, "overloaded")
    assert "cannot sync" in submission.json["detail"]
    assert submission.json["detail"].endswith("nothing was done")
    assert client.service.pending == 0


async def test_with_refuse_a_disk_that_fails_lets_nothing_new_in(make_client, tmp_path, disk):
    client = make_client(journal=tmp_path, journal_sync="always", journal_full="refuse")
    disk.fault = OSError(5, "Input/output error")
    disk.ready.set()
    await client.start("POST", "/v1/operations", {"keys": ["a"]}).task
    refused = client.start("POST", "/v1/operations", {"keys": ["a"]})
    await refused.task
    assert refused.slug == "overloaded"
    assert client.service.pending == 0


async def test_what_waits_for_the_disk_and_what_was_lost_is_shown(make_client, tmp_path):
    client = make_client(journal=tmp_path)
    reply = await client.request("GET", "/metrics")
    assert b"purgatory_journal_buffered 0.0" in reply.body
    assert b"purgatory_journal_dropped 0.0" in reply.body


async def test_two_services_do_not_share_a_directory(make_client, tmp_path):
    make_client(journal=tmp_path)
    with pytest.raises(SettingsError, match="another process"):
        Service(Settings(journal=tmp_path))


async def test_a_directory_that_cannot_be_used_refuses_the_start(tmp_path):
    (tmp_path / "file").touch()
    threads = threading.active_count()
    with pytest.raises(SettingsError, match=r"cannot keep a journal in .*file"):
        Service(Settings(journal=tmp_path / "file"))
    assert threading.active_count() == threads


async def test_closing_twice_closes_once(make_client, tmp_path):
    client = make_client(journal=tmp_path)
    await client.submit("a")
    client.service.close()
    recorded = list(read_journal(tmp_path))
    client.service.close()
    assert list(read_journal(tmp_path)) == recorded
