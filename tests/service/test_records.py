"""The service's journal: an answered change is recorded, and a failure to record is reported."""

import threading
from collections import Counter
from functools import partial

import pytest
from msgspec import UNSET

from purgatory_async.journal import REASONS, Journal, read_journal
from purgatory_async.journal.schema import NO_SUM, Outcome, Reschedule, Signal, Stats, Submit
from purgatory_async.journal.segments import SegmentFile
from purgatory_async.service import records as records_module
from purgatory_async.service.http_service import HttpService
from purgatory_async.service.settings.settings import Settings, SettingsError
from tests.service.wire import until

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


async def test_a_rescheduled_operation_is_late_after_its_new_deadline(make_client, tmp_path):
    client = make_client(journal=tmp_path)
    await client.submit("a", id="ask", timeout=5)
    await client.advance(2)
    await client.request("POST", "/v1/operations/ask/reschedule", {"timeout": 10})
    await client.advance(60)
    found = [record for record in records(client, tmp_path) if not isinstance(record, Stats)]
    assert [type(record) for record in found] == [Submit, Reschedule, Outcome]
    submit, moved, outcome = found
    assert (submit.op_id, submit.timeout_ns) == (moved.op_id, 5_000_000_000)
    assert (moved.mono_ns - submit.mono_ns, moved.timeout_ns) == (2_000_000_000, 10_000_000_000)
    assert (outcome.outcome, outcome.latency_ns, outcome.lateness_ns) == ("expired", 12_000_000_000, 0)


async def test_an_answer_is_recorded_with_its_kind_and_who_gave_it(make_client, tmp_path):
    client = make_client(journal=tmp_path)
    answers = {
        "answer": {"choice": "ok", "by": "ann"},
        "complete": {"result": 1, "by": "b\ud800".encode("utf-8", "replace").decode()},
        "fail": {"error": "no"},
    }
    for verb, body in answers.items():
        await client.submit("a", id=verb, ask={"title": "Deploy?"})
        await client.request("POST", f"/v1/operations/{verb}/{verb}", body)
    await client.submit("a", id="signalled")
    await client.signal("a")
    await client.submit("b", id="gone", timeout=1)
    await client.advance(2)
    ends = [record for record in records(client, tmp_path) if isinstance(record, Outcome)]
    assert [(end.outcome, end.how, end.by) for end in ends] == [
        ("completed", "answer", "ann"),
        ("completed", "complete", "b?"),
        ("failed", "fail", UNSET),
        ("completed", UNSET, UNSET),
        ("expired", UNSET, UNSET),
    ]


async def test_one_shot_waits_are_recorded_too(make_client, tmp_path):
    client = make_client(journal=tmp_path)
    held = await client.held("GET", "/v1/wait?key=a&wait=9")
    await client.signal("a")
    await held.over
    assert [type(record) for record in records(client, tmp_path)] == [Submit, Stats, Outcome, Signal, Stats]


async def test_waits_and_operations_share_no_id(make_client, tmp_path):
    client = make_client(journal=tmp_path)
    await client.submit("a")
    held = await client.held("GET", "/v1/wait?key=a&wait=9")
    await client.signal("a")
    await held.over
    found = [record.op_id for record in records(client, tmp_path) if isinstance(record, Submit | Outcome)]
    assert sorted(Counter(found).values()) == [2, 2]


class Disk:
    """Syncs when it is allowed to, or not at all."""

    def __init__(self, monkeypatch):
        self.ready = threading.Event()
        self.asked = threading.Event()
        self.fault = None
        monkeypatch.setattr(SegmentFile, "sync", self.sync)

    def sync(self):
        self.asked.set()
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
    await submission.over
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
    await submission.over
    assert (submission.status, submission.slug) == (503, "overloaded")
    assert "cannot sync" in submission.json["detail"]
    assert submission.json["detail"].endswith("nothing was done")
    assert client.service.pending == 0


ASK = {"keys": ["a"], "id": "ask", "ask": {"title": "Deploy?"}, "announce": "asks", "deliver": "answers"}


async def withdrawn(client, disk):
    """What a submission is answered that cannot be recorded."""
    disk.fault = OSError(5, "Input/output error")
    disk.ready.set()
    submission = client.start("POST", "/v1/operations", ASK)
    await submission.over
    return submission


async def test_what_is_withdrawn_is_announced_to_nobody(make_client, tmp_path, disk):
    client = make_client(journal=tmp_path, journal_sync="always")
    for number in range(3):
        await client.request("POST", "/v1/queues/asks/items", {"item": number})
    refused = await withdrawn(client, disk)
    assert (refused.status, refused.slug) == (503, "overloaded")
    assert client.service.pending == 0
    left = (await client.request("GET", "/v1/queues/asks/items")).json["items"]
    assert [each["item"] for each in left] == [0, 1, 2]
    queues = client.service.fold.queues
    assert (queues.kept, [*queues.by_name]) == (3, ["asks"])
    assert (
        client.service.fold.shared.kept.pinned == sum(item.size for item in queues.by_name["asks"].ready) + 4
    )


async def test_what_a_taker_heard_of_stands_unrecorded(make_client, tmp_path, disk):
    client = make_client(journal=tmp_path, journal_sync="always")
    bot = await client.held("POST", "/v1/queues/asks/take?wait=30s", {})
    submission = await withdrawn(client, disk)
    await bot.over
    assert bot.json["item"] == {"operation": "ask", "event": "submitted"}
    assert (submission.status, submission.headers["x-purgatory-recorded"]) == (202, "false")
    assert (await client.request("GET", "/v1/operations/ask")).json["state"] == "pending"


async def test_an_announcement_that_came_back_was_heard(make_client, tmp_path, disk):
    client = make_client(journal=tmp_path, journal_sync="always")
    disk.fault = OSError(5, "Input/output error")
    submission = await client.held("POST", "/v1/operations", ASK)  # the disk has yet to say that it fails
    lease = (await client.request("POST", "/v1/queues/asks/take", {})).json["lease"]
    await client.request("POST", f"/v1/leases/{lease}/return")
    disk.ready.set()
    await submission.over
    assert (submission.status, submission.headers["x-purgatory-recorded"]) == (202, "false")


async def test_with_refuse_a_disk_that_fails_lets_nothing_new_in(make_client, tmp_path, disk):
    client = make_client(journal=tmp_path, journal_sync="always", journal_full="refuse")
    disk.fault = OSError(5, "Input/output error")
    disk.ready.set()
    await client.start("POST", "/v1/operations", {"keys": ["a"]}).over
    refused = client.start("POST", "/v1/operations", {"keys": ["a"]})
    await refused.over
    assert refused.slug == "overloaded"
    assert client.service.pending == 0


async def figures(client):
    """The journal in the stats, and its metrics, which are the same."""
    shown = (await client.request("GET", "/v1/admin/stats")).json["journal"]
    lines = (await client.request("GET", "/metrics")).body.decode().splitlines()
    shown_once = [line.rsplit(" ", 1) for line in lines if line.startswith("purgatory_journal_")]
    samples = dict(shown_once)
    assert len(samples) == len(shown_once)
    assert float(samples["purgatory_journal_free_bytes"]) > 0
    for name in ("buffered", "dropped", "bytes", "disk_bytes"):
        assert float(samples[f"purgatory_journal_{name}"]) == shown[name]
    assert float(samples["purgatory_journal_removed_total"]) == shown["removed"]
    assert float(samples["purgatory_journal_buffer_ratio"]) == shown["buffered"] / shown["max_buffered"]
    warns = [
        reason for reason in REASONS if samples[f'purgatory_journal_warning{{reason="{reason}"}}'] == "1.0"
    ]
    assert warns == shown["warnings"]
    return shown


async def test_what_the_journal_uses_is_shown(make_client, tmp_path):
    client = make_client(journal=tmp_path)
    shown = await figures(client)
    assert (shown["buffered"], shown["max_buffered"], shown["dropped"], shown["removed"]) == (
        0,
        200_000,
        0,
        0,
    )
    assert 0 < shown["free_bytes"] < shown["disk_bytes"]


async def test_without_a_journal_none_is_shown(make_client):
    client = make_client()
    assert (await client.request("GET", "/v1/admin/stats")).json["journal"] is None
    assert b"purgatory_journal" not in (await client.request("GET", "/metrics")).body


async def test_no_change_is_refused_before_a_warning(make_client, tmp_path, disk, monkeypatch, caplog):
    monkeypatch.setattr(records_module, "Journal", partial(Journal, max_buffered=1000))
    client = make_client(journal=tmp_path, journal_full="refuse")

    def warnings():
        return [message for message in caplog.messages if "does not keep up" in message]

    await client.submit("a")
    await until(disk.asked.is_set)  # or the thread writes, which empties the buffer, when it is full
    accepted = 0
    while (await client.request("POST", "/v1/operations", {"keys": ["a"]})).status == 202:
        accepted += 1
        assert bool(warnings()) == (client.service.records.usage.warnings == ("buffer",))
    assert accepted > 400
    (warning,) = warnings()
    assert "from 500 on new operations are refused" in warning
    assert (await figures(client))["warnings"] == ["buffer"]
    assert (await client.request("GET", "/readyz")).json["reasons"] == ["disk"]
    disk.ready.set()
    await until(lambda: client.service.records.usage.warnings == ())
    assert [message for message in caplog.messages if "keeps up with the journal again" in message]
    assert (await client.request("POST", "/v1/operations", {"keys": ["a"]})).status == 202


async def test_old_segments_of_earlier_starts_are_removed(make_client, tmp_path):
    old = tmp_path / "20200101T000000-abcdef.n1.000001.jsonl"
    old.write_bytes(b"")
    (tmp_path / "20200102T000000-abcdef.n1.000001.jsonl").write_bytes(b"")
    client = make_client(journal=tmp_path, journal_keep="30d")
    await until(lambda: client.service.records.usage.removed)
    assert not old.exists()
    assert (await figures(client))["removed"] == 1


async def test_two_services_do_not_share_a_directory(make_client, tmp_path):
    make_client(journal=tmp_path)
    with pytest.raises(SettingsError, match="another process"):
        HttpService(Settings(journal=tmp_path))


async def test_a_directory_that_cannot_be_used_refuses_the_start(tmp_path):
    (tmp_path / "file").touch()
    threads = threading.active_count()
    with pytest.raises(SettingsError, match=r"cannot keep a journal in .*file"):
        HttpService(Settings(journal=tmp_path / "file"))
    assert threading.active_count() == threads


async def test_closing_twice_closes_once(make_client, tmp_path):
    client = make_client(journal=tmp_path)
    await client.submit("a")
    client.service.close()
    recorded = list(read_journal(tmp_path))
    client.service.close()
    assert list(read_journal(tmp_path)) == recorded
