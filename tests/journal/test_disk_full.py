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
from tests.journal.desk import Desk, Disk, fails_with, live_bytes, missing, until, until_async
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
    desk = Desk(tmp_path, when_full=when_full, sync=Sync.ALWAYS)
    assert desk.journal.accepting
    for number in range(100):
        desk.signal(number)
    until(lambda: desk.journal.trouble)
    assert desk.journal.accepting is accepting
    assert "cannot write to" in str(desk.journal.trouble)
    assert "No space left on device" in str(desk.journal.trouble)
    assert "cannot write" in repr(desk.journal)
    desk.signal("meanwhile")
    disk.on_write = bool
    until(lambda: desk.journal.trouble is None)
    assert desk.journal.accepting
    desk.signal("after")
    assert keys(desk.close()) == [*map(str, range(100)), "meanwhile", "after"]
    assert desk.journal.dropped == 0
    assert len(desk.messages) == 2
    assert desk.messages[1] == "the journal writes again; no buffered record was lost"


def test_records_held_meanwhile_are_bounded_and_drops_counted(tmp_path, disk):
    disk.on_write = FULL
    desk = Desk(tmp_path, sync=Sync.ALWAYS, max_buffered=1_000)
    for number in range(1_500):
        desk.signal(number)
        until(lambda: desk.journal.trouble)
    assert (desk.journal.buffered, desk.journal.dropped) == (1_000, 500)
    disk.on_write = bool
    until(lambda: desk.journal.buffered == 0)
    desk.signal("after")
    records = desk.close()
    assert keys(records) == [*map(str, range(1_000)), "after"]
    assert missing(records) == [*range(1_001, 1_501)]


def test_closing_on_a_full_disk_reports_the_loss(tmp_path, disk):
    disk.on_write = FULL
    desk = Desk(tmp_path, sync=Sync.ALWAYS)
    for number in range(10_000):  # several batches
        desk.signal(number)
    desk.journal.close()
    desk.journal.close()
    assert desk.journal.dropped == 10_000
    assert desk.messages[-1] == "10000 records were dropped: the journal was closed while it could not write"
    assert list(tmp_path.glob("*.jsonl")) == []


@pytest.mark.asyncio
async def test_commit_raises_on_a_full_disk_and_works_after(tmp_path, disk):
    disk.on_write = FULL
    with Desk(tmp_path, sync=Sync.ALWAYS) as desk:
        desk.signal("a")
        for _ in range(2):
            with pytest.raises(JournalError, match="No space left on device"):
                await desk.journal.commit()
        disk.on_write = bool
        await until_async(lambda: desk.journal.trouble is None)
        desk.signal("b")
        await desk.journal.commit()
        assert keys(read_journal(tmp_path)) == ["a", "b"]


def test_a_callback_that_raises_on_the_report_is_harmless(tmp_path, disk, caplog):
    def on_trouble(sentence):
        raise RuntimeError("not now")

    disk.on_write = FULL
    desk = Desk(tmp_path, sync=Sync.ALWAYS, on_trouble=on_trouble)
    desk.signal("a")
    until(lambda: desk.journal.trouble)
    disk.on_write = bool
    until(lambda: desk.journal.trouble is None)
    assert keys(desk.close()) == ["a"]
    assert [record.args[1].args for record in caplog.records] == [("not now",)] * 2
    assert "No space left on device" in caplog.text


def test_without_a_listener_trouble_goes_to_the_logger(tmp_path, disk, caplog):
    disk.on_write = FULL
    desk = Desk(tmp_path, sync=Sync.ALWAYS, on_trouble=None)
    desk.signal("a")
    until(lambda: desk.journal.trouble)
    disk.on_write = bool
    desk.close()
    assert {record.name for record in caplog.records} == {"purgatory_async.journal"}
    assert ["No space left" in caplog.messages[0], "writes again" in caplog.messages[1]] == [True, True]


def test_a_full_segment_goes_on_while_no_other_can_be_made(tmp_path, disk, monkeypatch):
    desk = Desk(tmp_path, sync=Sync.ALWAYS, segment_bytes=4096)
    opening = desk.journal._run._next_segment_file
    monkeypatch.setattr(desk.journal._writer_thread, "_open_segment", FULL)
    for number in range(60):
        desk.signal(f"{number:0200}")
    until(lambda: desk.messages)
    assert (
        desk.messages[0]
        == "the journal cannot create a new segment and keeps the full one: No space left on device"
    )
    assert desk.journal.trouble is None
    monkeypatch.setattr(desk.journal._writer_thread, "_open_segment", opening)
    for number in range(60, 120):
        desk.signal(f"{number:0200}")
    until(lambda: list(tmp_path.glob("*.000002.*")))
    assert keys(desk.close()) == [f"{number:0200}" for number in range(120)]


class NearlyFull:
    """``os`` on a disk with room for so many bytes."""

    def __init__(self):
        self.room = 0
        self.synced = 0  # the file's length at its last sync

    def __getattr__(self, name):
        return getattr(os, name)

    def write(self, file, data):
        if data and not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = os.write(file, data[: self.room])
        self.room -= written
        return written

    def ftruncate(self, file, length):
        self.room += os.fstat(file).st_size - length
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
    desk = Desk(tmp_path, sync=sync)
    for number in range(785):
        desk.signal(number)
    until(lambda: desk.journal.trouble)
    nearly_full.room = 100_000
    until(lambda: nearly_full.room < 1_000)
    records = desk.close()
    assert keys(records) == [*map(str, range(len(records)))]
    assert 99_000 < len(live_bytes(tmp_path)) <= 100_000
    assert nearly_full.synced == len(live_bytes(tmp_path))
    lost = 785 - len(records)
    assert (desk.journal.dropped, desk.journal.buffered) == (lost, 0)
    assert (
        desk.messages[-1] == f"{lost} records were dropped: the journal was closed while it could not write"
    )


def test_what_did_not_fit_is_written_once_when_there_is_space(tmp_path, nearly_full):
    desk = Desk(tmp_path, sync=Sync.ALWAYS)
    for number in range(100):
        desk.signal(number)
    until(lambda: desk.journal.trouble)
    for _ in range(7):
        buffered = desk.journal.buffered
        nearly_full.room += 1_000
        until(lambda: desk.journal.buffered < buffered)  # noqa: B023 - called before the next
        assert desk.journal.trouble
        desk.signal("meanwhile")
    assert len(read := list(read_journal(tmp_path))) == 107 - desk.journal.buffered
    nearly_full.room = 10**9
    until(lambda: desk.journal.trouble is None)
    records = desk.close()
    assert keys(records) == [*map(str, range(100)), *["meanwhile"] * 7]
    assert records[: len(read)] == read
    assert missing(records) == []
    assert len(desk.messages) == 2


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
        until(lambda: desk.journal.usage.free_bytes == room * MIB)

    with Desk(tmp_path, segment_bytes=segment_bytes) as desk:
        sees(least)
        assert (desk.messages, desk.journal.usage.warnings) == ([], ())
        for room in (least - 1, 0, least, least - 1):
            sees(room)
        until(lambda: desk.journal.usage.warnings == ("space",))
        sees(2 * least)
        until(lambda: not desk.journal.usage.warnings)
    begins, ends = desk.messages
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
    desk = Desk(tmp_path, **settings)
    desk.signal("a")
    until(lambda: desk.journal.trouble)
    figures = "1 of 200000 records wait in memory, 321 of 1000 MiB are free on the disk"
    assert desk.messages[0] == f"{desk.journal.trouble}; {figures}; {consequence}"
    assert desk.journal.usage.warnings == ("disk",)


# The real thing.

CHILD = """
import json, resource, sys
from pathlib import Path
from purgatory_async.journal import Sync
from purgatory_async.journal import _writer_thread as _writer_thread
from tests.journal.desk import Desk, live_bytes, until
directory, size = Path(sys.argv[1]), int(sys.argv[2])
_writer_thread.LOOK_S = 0.01
unlimited = resource.RLIM_INFINITY
resource.setrlimit(resource.RLIMIT_FSIZE, (size, unlimited))
desk = Desk(directory, sync=Sync.ALWAYS)
number = 0
while desk.journal.trouble is None:
    desk.signal(number)
    number += 1
    until(lambda: not desk.journal.buffered or desk.journal.trouble)
whole = len(live_bytes(directory))
desk.signal("held")
resource.setrlimit(resource.RLIMIT_FSIZE, (unlimited, unlimited))
until(lambda: not desk.journal.trouble)
found = [record.key for record in desk.close()]
desk.purgatory.close()
print(json.dumps({"signals": number, "whole": whole, "found": found, "messages": desk.messages}))
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
    desk = Desk(small_disk / "journal", sync=Sync.ALWAYS)
    desk.signal("before")
    until(lambda: desk.journal._writer_thread.settled)
    filler = fill(small_disk)
    for number in range(100):
        desk.signal(f"{number:0200}")
    until(lambda: desk.journal.trouble)
    assert "No space left on device" in str(desk.journal.trouble)
    assert live_bytes(small_disk / "journal").endswith(b"\n")
    filler.unlink()
    until(lambda: desk.journal.trouble is None)
    assert keys(desk.close()) == ["before", *(f"{number:0200}" for number in range(100))]


@pytest.mark.slow
@pytest.mark.parametrize("when_full", ["drop", "refuse"])
def test_a_disk_that_fills_up_is_told_before_it_is_full(small_disk, monkeypatch, when_full):
    monkeypatch.setattr(_writer_thread, "LOOK_S", 0.01)
    desk = Desk(small_disk / "journal", sync=Sync.ALWAYS, segment_bytes=1 << 16, when_full=when_full)
    accepted = []
    while desk.journal.trouble is None:
        desk.signal("x" * 2000)
        until(lambda: not desk.journal.buffered or desk.journal.trouble)
        accepted.append((desk.journal.accepting, len(desk.messages)))
    assert [word for said in desk.messages for word in ("nearly full", "cannot write") if word in said] == [
        "nearly full",
        "cannot write",
    ]
    assert all(told for accepting, told in accepted if not accepting)
    assert desk.journal.usage.warnings == ("disk", "space")


@pytest.mark.slow
def test_a_disk_with_some_space_gets_what_fits(small_disk, monkeypatch):
    monkeypatch.setattr(_writer_thread, "LOOK_S", 0.01)
    desk = Desk(small_disk / "journal", sync=Sync.ALWAYS)
    filler = fill(small_disk)
    for number in range(785):
        desk.signal(f"{number:0200}")
    until(lambda: desk.journal.trouble)
    os.truncate(filler, filler.stat().st_size - 102_400)
    until(lambda: desk.journal.buffered < 785)
    records = desk.close()
    assert keys(records) == [f"{number:0200}" for number in range(len(records))]
    assert 102_400 - 500 < len(live_bytes(small_disk / "journal")) <= 102_400
    assert desk.journal.dropped == 785 - len(records) > 0


@pytest.mark.slow
def test_a_journal_that_starts_on_a_full_disk_waits_for_space(small_disk, monkeypatch):
    # Only the number of its process had no room in the lock; a service came not up for that.
    monkeypatch.setattr(_writer_thread, "LOOK_S", 0.01)
    filler = fill(small_disk)
    desk = Desk(small_disk / "journal", sync=Sync.ALWAYS)
    desk.signal("a")
    until(lambda: desk.journal.trouble)
    filler.unlink()
    until(lambda: desk.journal.trouble is None)
    assert keys(desk.close()) == ["a"]
