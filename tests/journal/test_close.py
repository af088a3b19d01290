"""Closing a journal: it writes what it can, takes nothing more, and reports what was lost."""

import errno
import threading

import pytest

from purgatory_async.journal import JournalError, Sync, read_journal
from tests.journal.desk import Desk, Disk, fails_with, open_files, until


def writers():
    return [thread for thread in threading.enumerate() if thread.name == "purgatory-journal"]


@pytest.mark.parametrize("sync", list(Sync))
def test_all_earlier_records_exist_and_the_thread_has_ended(tmp_path, sync):
    before = len(writers())
    desk = Desk(tmp_path, sync=sync)
    for number in range(10_000):
        desk.signal(number)
    records = desk.close()
    assert [record.key for record in records] == [str(number) for number in range(10_000)]
    assert len(writers()) == before
    assert repr(desk.journal) == f"<Journal {str(tmp_path)!r} closed buffered=0 dropped=0>"


def test_a_second_close_does_nothing(tmp_path):
    desk = Desk(tmp_path)
    desk.signal("a")
    files = open_files()
    desk.journal.close()
    desk.journal.close()
    assert open_files() < files
    with Desk(tmp_path) as other:  # the first does not release its lock
        desk.journal.close()
        assert not other.journal.closed
        with pytest.raises(JournalError, match="another process"):
            Desk(tmp_path)


def test_what_comes_after_the_end_is_dropped_and_counted(tmp_path):
    desk = Desk(tmp_path)
    desk.signal("a")
    desk.journal.close()
    desk.signal("b", "c")
    assert (desk.journal.dropped, desk.journal.buffered, desk.journal.accepting) == (2, 0, True)
    assert [record.key for record in read_journal(tmp_path)] == ["a"]


def test_a_close_in_trouble_returns_and_says_what_was_lost(tmp_path, monkeypatch):
    disk = Disk().seize(monkeypatch)
    disk.on_write = fails_with(errno.ENOSPC)
    desk = Desk(tmp_path)
    desk.signal("a", "b")
    desk.journal.close()
    assert desk.journal.dropped == 2
    assert desk.messages[-1] == "2 records were dropped: the journal was closed while it could not write"
    assert list(read_journal(tmp_path)) == []


def test_a_disk_that_has_space_again_just_then_gets_everything(tmp_path, monkeypatch):
    disk = Disk().seize(monkeypatch)
    disk.on_write = fails_with(errno.ENOSPC)
    desk = Desk(tmp_path, sync=Sync.ALWAYS)
    desk.signal("a")
    until(lambda: desk.journal.trouble)
    disk.on_write = bool
    assert [record.key for record in desk.close()] == ["a"]
    assert desk.journal.dropped == 0


def test_a_failing_final_sync_is_reported(tmp_path, monkeypatch):
    disk = Disk().seize(monkeypatch)
    disk.on_sync = fails_with(errno.EIO)
    desk = Desk(tmp_path, sync=Sync.OS)
    desk.signal("a")
    desk.journal.close()
    assert "Input/output error; unsynced records may be lost" in desk.messages[0]
    assert "may be lost" in str(desk.journal.trouble)


def test_an_exception_in_a_with_block_closes_the_journal(tmp_path):
    with pytest.raises(KeyError), Desk(tmp_path).journal as journal:
        raise KeyError
    assert journal.closed


def test_runs_are_distinguished_by_their_start(tmp_path):
    runs = []
    for _ in range(3):
        desk = Desk(tmp_path)
        desk.signal("a")
        (runs, _) = ([*runs, desk.journal.run_id], desk.journal.close())
    assert len(set(runs)) == 3
    assert [(record.run_id, record.seq) for record in read_journal(tmp_path)] == [
        (run, 1) for run in sorted(runs)
    ]
