"""A full disk: operations go on or are refused, no line is torn, and once it has space writing resumes."""

import errno
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from purgatory_async.journal import JournalError, Sync, _alarms, _writer_thread, segments
from purgatory_async.journal.lines import whole_length
from purgatory_async.journal.reader import read_journal
from tests.disks import fill, small_file_system
from tests.journal.journaled import (
    Disk,
    JournaledPurgatory,
    fails_with,
    live_bytes,
    missing,
    until,
    until_async,
)
from tests.source_tree import ROOT

FULL = fails_with(errno.ENOSPC)


@pytest.fixture
def disk(monkeypatch):
    monkeypatch.setattr(_writer_thread, "LOOK_S", 0.01)
    return Disk().seize(monkeypatch)


def keys(records):
    return [record.key for record in records]


@pytest.mark.parametrize(("when_full", "accepting"), [("drop", True), ("refuse", False)])
def test_a_full_disk_holds_records_until_there_is_space(tmp_path, disk, when_full, accepting):
    disk.on_write = FULL
    journaled = JournaledPurgatory(tmp_path, when_full=when_full, sync=Sync.ALWAYS)
    assert journaled.journal.accepting
    for number in range(100):
        journaled.signal(number)
    until(lambda: journaled.journal.trouble)
    assert journaled.journal.accepting is accepting
    assert "cannot write to" in str(journaled.journal.trouble)
    assert "No space left on device" in str(journaled.journal.trouble)
    assert "cannot write" in repr(journaled.journal)
    journaled.signal("meanwhile")
    disk.on_write = bool
    until(lambda: journaled.journal.trouble is None)
    assert journaled.journal.accepting
    journaled.signal("after")
    assert keys(journaled.close()) == [*map(str, range(100)), "meanwhile", "after"]
    assert journaled.journal.dropped == 0
    assert len(journaled.messages) == 2
    assert journaled.messages[1] == "the journal writes again; no buffered record was lost"


def test_records_held_meanwhile_are_bounded_and_drops_counted(tmp_path, disk):
    disk.on_write = FULL
    journaled = JournaledPurgatory(tmp_path, sync=Sync.ALWAYS, max_buffered=1_000)
    for number in range(1_500):
        journaled.signal(number)
        until(lambda: journaled.journal.trouble)
    assert (journaled.journal.buffered, journaled.journal.dropped) == (1_000, 500)
    disk.on_write = bool
    until(lambda: journaled.journal.buffered == 0)
    journaled.signal("after")
    records = journaled.close()
    assert keys(records) == [*map(str, range(1_000)), "after"]
    assert missing(records) == [*range(1_001, 1_501)]


def test_closing_on_a_full_disk_reports_the_loss(tmp_path, disk):
    disk.on_write = FULL
    journaled = JournaledPurgatory(tmp_path, sync=Sync.ALWAYS)
    for number in range(10_000):  # several batches
        journaled.signal(number)
    journaled.journal.close()
    journaled.journal.close()
    assert journaled.journal.dropped == 10_000
    assert (
        journaled.messages[-1]
        == "10000 records were dropped: the journal was closed while it could not write"
    )
    assert list(tmp_path.glob("*.jsonl")) == []


@pytest.mark.asyncio
async def test_commit_raises_on_a_full_disk_and_works_after(tmp_path, disk):
    disk.on_write = FULL
    with JournaledPurgatory(tmp_path, sync=Sync.ALWAYS) as journaled:
        journaled.signal("a")
        for _ in range(2):
            with pytest.raises(JournalError, match="No space left on device"):
                await journaled.journal.commit()
        disk.on_write = bool
        await until_async(lambda: journaled.journal.trouble is None)
        journaled.signal("b")
        await journaled.journal.commit()
        assert keys(read_journal(tmp_path)) == ["a", "b"]


def test_a_callback_that_raises_on_the_report_is_harmless(tmp_path, disk, caplog):
    def on_trouble(sentence):
        raise RuntimeError("not now")

    disk.on_write = FULL
    journaled = JournaledPurgatory(tmp_path, sync=Sync.ALWAYS, on_trouble=on_trouble)
    journaled.signal("a")
    until(lambda: journaled.journal.trouble)
    disk.on_write = bool
    until(lambda: journaled.journal.trouble is None)
    assert keys(journaled.close()) == ["a"]
    assert [record.args[1].args for record in caplog.records] == [("not now",)] * 2
    assert "No space left on device" in caplog.text


def test_without_a_listener_trouble_goes_to_the_logger(tmp_path, disk, caplog):
    disk.on_write = FULL
    journaled = JournaledPurgatory(tmp_path, sync=Sync.ALWAYS, on_trouble=None)
    journaled.signal("a")
    until(lambda: journaled.journal.trouble)
    disk.on_write = bool
    journaled.close()
    assert {record.name for record in caplog.records} == {"purgatory_async.journal"}
    assert ["No space left" in caplog.messages[0], "writes again" in caplog.messages[1]] == [True, True]


def test_a_full_segment_goes_on_while_no_other_can_be_made(tmp_path, disk, monkeypatch):
    journaled = JournaledPurgatory(tmp_path, sync=Sync.ALWAYS, segment_bytes=4096)
    opening = journaled.journal._run._next_segment_file
    monkeypatch.setattr(journaled.journal._writer_thread, "_open_segment", FULL)
    for number in range(60):
        journaled.signal(f"{number:0200}")
    until(lambda: journaled.messages)
    assert (
        journaled.messages[0]
        == "the journal cannot create a new segment and keeps the full one: No space left on device"
    )
    assert journaled.journal.trouble is None
    monkeypatch.setattr(journaled.journal._writer_thread, "_open_segment", opening)
    for number in range(60, 120):
        journaled.signal(f"{number:0200}")
    until(lambda: list(tmp_path.glob("*.000002.*")))
    assert keys(journaled.close()) == [f"{number:0200}" for number in range(120)]


class NearlyFull:
    """``os`` on a disk with room for so many bytes."""

    def __init__(self):
        self._given = self._used = 0  # each is changed by one thread: the test's, the journal's
        self.synced = 0  # the file's length at its last sync

    def __getattr__(self, name):
        return getattr(os, name)

    @property
    def room(self):
        return self._given - self._used

    def give(self, size):
        self._given += size

    def write(self, file, data):
        room = self.room
        if data and not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = os.write(file, data[:room])
        self._used += written
        return written

    def ftruncate(self, file, length):
        self._used -= os.fstat(file).st_size - length
        os.ftruncate(file, length)

    def fdatasync(self, file):
        self.synced = os.fstat(file).st_size


@pytest.fixture
def nearly_full(monkeypatch):
    monkeypatch.setattr(_writer_thread, "LOOK_S", 0.01)
    system = NearlyFull()
    monkeypatch.setattr(segments, "os", system)
    return system


@pytest.mark.parametrize("sync", list(Sync))
def test_a_nearly_full_disk_gets_what_fits_the_rest_is_counted(tmp_path, nearly_full, sync):
    journaled = JournaledPurgatory(tmp_path, sync=sync)
    for number in range(785):
        journaled.signal(number)
    until(lambda: journaled.journal.trouble)
    nearly_full.give(100_000)
    until(lambda: nearly_full.room < 1_000)
    records = journaled.close()
    assert keys(records) == [*map(str, range(len(records)))]
    assert 99_000 < len(live_bytes(tmp_path)) <= 100_000
    assert nearly_full.synced == len(live_bytes(tmp_path))
    lost = 785 - len(records)
    assert (journaled.journal.dropped, journaled.journal.buffered) == (lost, 0)
    assert (
        journaled.messages[-1]
        == f"{lost} records were dropped: the journal was closed while it could not write"
    )


def test_what_did_not_fit_is_written_once_when_there_is_space(tmp_path, nearly_full):
    journaled = JournaledPurgatory(tmp_path, sync=Sync.ALWAYS)
    for number in range(100):
        journaled.signal(number)
    until(lambda: journaled.journal.trouble)
    for _ in range(7):
        buffered = journaled.journal.buffered
        nearly_full.give(1_000)
        until(lambda: journaled.journal.buffered < buffered)  # noqa: B023 - called before the next
        assert journaled.journal.trouble
        journaled.signal("meanwhile")
    assert len(read := list(read_journal(tmp_path))) == 107 - journaled.journal.buffered
    nearly_full.give(10**9)
    until(lambda: journaled.journal.trouble is None)
    records = journaled.close()
    assert keys(records) == [*map(str, range(100)), *["meanwhile"] * 7]
    assert records[: len(read)] == read
    assert missing(records) == []
    assert len(journaled.messages) == 2


MIB = 1 << 20


@pytest.fixture
def space(monkeypatch):
    """A disk of 1000 MiB, whose room a test sets, and a journal that looks at it often."""
    monkeypatch.setattr(_writer_thread, "SURVEY_S", 0.002)
    room = SimpleNamespace(f_frsize=MIB, f_blocks=1000, f_bavail=1000)
    monkeypatch.setattr(_alarms, "os", SimpleNamespace(statvfs=lambda _: room))
    return room


@pytest.mark.parametrize(
    ("segment_bytes", "least"),
    [pytest.param(MIB, 100, id="a tenth"), pytest.param(64 * MIB, 256, id="4 segments")],
)
def test_a_disk_is_nearly_full_once_and_has_room_once(tmp_path, space, segment_bytes, least):
    def sees(room):
        space.f_bavail = room
        until(lambda: journaled.journal.usage.free_bytes == room * MIB)

    with JournaledPurgatory(tmp_path, segment_bytes=segment_bytes) as journaled:
        sees(least)
        assert (journaled.messages, journaled.journal.usage.warnings) == ([], ())
        for room in (least - 1, 0, least, least - 1):
            sees(room)
        until(lambda: journaled.journal.usage.warnings == ("space",))
        sees(2 * least)
        until(lambda: not journaled.journal.usage.warnings)
    begins, ends = journaled.messages
    assert begins == (
        f"the disk of the journal in {tmp_path} is nearly full: {least - 1} of 1000 MiB are free; once it is full, "
        "records wait in memory: free some space, or keep less of the journal"
    )
    assert ends == f"the disk of the journal in {tmp_path} has room again: {2 * least} of 1000 MiB are free"


@pytest.mark.parametrize(
    ("settings", "consequence"),
    [
        ({"sync": "always"}, "no change can be promised"),
        ({"sync": "always", "when_full": "refuse"}, "no change can be promised"),
        ({"when_full": "refuse"}, "new operations are refused"),
        ({}, "records wait in memory"),
    ],
)
def test_a_failing_disk_is_told_with_figures_and_what_follows(tmp_path, disk, space, settings, consequence):
    disk.on_write = FULL
    space.f_bavail = 321
    journaled = JournaledPurgatory(tmp_path, **settings)
    journaled.signal("a")
    until(lambda: journaled.journal.trouble)
    figures = "1 of 200000 records wait in memory, 321 of 1000 MiB are free on the disk"
    assert journaled.messages[0] == f"{journaled.journal.trouble}; {figures}; {consequence}"
    assert journaled.journal.usage.warnings == ("disk",)


# The real thing.

CHILD = """
import json, resource, sys
from pathlib import Path
from purgatory_async.journal import Sync
from purgatory_async.journal import _writer_thread as _writer_thread
from tests.journal.journaled import JournaledPurgatory, live_bytes, until
directory, size = Path(sys.argv[1]), int(sys.argv[2])
_writer_thread.LOOK_S = 0.01
unlimited = resource.RLIM_INFINITY
resource.setrlimit(resource.RLIMIT_FSIZE, (size, unlimited))
journaled = JournaledPurgatory(directory, sync=Sync.ALWAYS)
number = 0
while journaled.journal.trouble is None:
    journaled.signal(number)
    number += 1
    until(lambda: not journaled.journal.buffered or journaled.journal.trouble)
whole = len(live_bytes(directory))
journaled.signal("held")
resource.setrlimit(resource.RLIMIT_FSIZE, (unlimited, unlimited))
until(lambda: not journaled.journal.trouble)
found = [record.key for record in journaled.close()]
journaled.purgatory.close()
print(json.dumps({"signals": number, "whole": whole, "found": found, "messages": journaled.messages}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("size", [5_000, 5_001, 5_050, 20_000])
def test_a_file_at_its_size_limit_ends_with_a_whole_line(tmp_path, size):
    finished = subprocess.run(
        [sys.executable, "-c", CHILD, tmp_path, str(size)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    seen = json.loads(finished.stdout)
    assert size - 400 < seen["whole"] <= size
    assert seen["found"] == [*map(str, range(seen["signals"])), "held"]
    assert "File too large" in seen["messages"][0]
    assert len([said for said in seen["messages"] if "the disk of the journal" not in said]) == 2
    written = b"".join(path.read_bytes() for path in tmp_path.glob("*.jsonl"))
    assert whole_length(written[: seen["whole"]]) == seen["whole"]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of a megabyte."""
    with small_file_system(tmp_path / "disk", "1m") as where:
        yield where


@pytest.mark.slow
def test_a_disk_that_fills_up_and_is_emptied_costs_nothing(small_disk, monkeypatch):
    monkeypatch.setattr(_writer_thread, "LOOK_S", 0.01)
    journaled = JournaledPurgatory(small_disk / "journal", sync=Sync.ALWAYS)
    journaled.signal("before")
    until(lambda: journaled.journal._writer_thread.settled)
    filler = fill(small_disk)
    for number in range(100):
        journaled.signal(f"{number:0200}")
    until(lambda: journaled.journal.trouble)
    assert "No space left on device" in str(journaled.journal.trouble)
    assert live_bytes(small_disk / "journal").endswith(b"\n")
    filler.unlink()
    until(lambda: journaled.journal.trouble is None)
    assert keys(journaled.close()) == ["before", *(f"{number:0200}" for number in range(100))]


@pytest.mark.slow
@pytest.mark.parametrize("when_full", ["drop", "refuse"])
def test_a_disk_that_fills_up_is_told_before_it_is_full(small_disk, monkeypatch, when_full):
    monkeypatch.setattr(_writer_thread, "LOOK_S", 0.01)
    journaled = JournaledPurgatory(
        small_disk / "journal", sync=Sync.ALWAYS, segment_bytes=1 << 16, when_full=when_full
    )
    accepted = []
    while journaled.journal.trouble is None:
        journaled.signal("x" * 2000)
        until(lambda: not journaled.journal.buffered or journaled.journal.trouble)
        accepted.append((journaled.journal.accepting, len(journaled.messages)))
    assert [
        word for said in journaled.messages for word in ("nearly full", "cannot write") if word in said
    ] == [
        "nearly full",
        "cannot write",
    ]
    assert all(told for accepting, told in accepted if not accepting)
    assert journaled.journal.usage.warnings == ("disk", "space")


@pytest.mark.slow
def test_a_disk_with_some_space_gets_what_fits(small_disk, monkeypatch):
    monkeypatch.setattr(_writer_thread, "LOOK_S", 0.01)
    journaled = JournaledPurgatory(small_disk / "journal", sync=Sync.ALWAYS)
    filler = fill(small_disk)
    for number in range(785):
        journaled.signal(f"{number:0200}")
    until(lambda: journaled.journal.trouble)
    os.truncate(filler, filler.stat().st_size - 102_400)
    until(lambda: journaled.journal.buffered < 785)
    records = journaled.close()
    assert keys(records) == [f"{number:0200}" for number in range(len(records))]
    assert 102_400 - 500 < len(live_bytes(small_disk / "journal")) <= 102_400
    assert journaled.journal.dropped == 785 - len(records) > 0


@pytest.mark.slow
def test_a_journal_that_starts_on_a_full_disk_waits_for_space(small_disk, monkeypatch):
    # Only the number of its process had no room in the lock; a service came not up for that.
    monkeypatch.setattr(_writer_thread, "LOOK_S", 0.01)
    filler = fill(small_disk)
    journaled = JournaledPurgatory(small_disk / "journal", sync=Sync.ALWAYS)
    journaled.signal("a")
    until(lambda: journaled.journal.trouble)
    filler.unlink()
    until(lambda: journaled.journal.trouble is None)
    assert keys(journaled.close()) == ["a"]
