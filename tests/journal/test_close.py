"""Closing a journal: it writes what it can, takes nothing more, and reports what was lost."""

import errno
import threading

import pytest

from purgatory_async.journal import JournalError, Sync, read_journal
from tests.journal.journaled import Disk, JournaledPurgatory, fails_with, open_files, until


def writers():
    return [thread for thread in threading.enumerate() if thread.name == "purgatory-journal"]


@pytest.mark.parametrize("sync", list(Sync))
def test_all_earlier_records_exist_and_the_thread_has_ended(tmp_path, sync):
    before = len(writers())
    journaled = JournaledPurgatory(tmp_path, sync=sync)
    for number in range(10_000):
        journaled.signal(number)
    records = journaled.close()
    assert [record.key for record in records] == [str(number) for number in range(10_000)]
    assert len(writers()) == before
    assert repr(journaled.journal) == f"<Journal {str(tmp_path)!r} closed buffered=0 dropped=0>"


def test_a_second_close_does_nothing(tmp_path):
    journaled = JournaledPurgatory(tmp_path)
    journaled.signal("a")
    files = open_files()
    journaled.journal.close()
    journaled.journal.close()
    assert open_files() < files
    with JournaledPurgatory(tmp_path) as other:  # the first does not release its lock
        journaled.journal.close()
        assert not other.journal.closed
        with pytest.raises(JournalError, match="another process"):
            JournaledPurgatory(tmp_path)


def test_what_comes_after_the_end_is_dropped_and_counted(tmp_path):
    journaled = JournaledPurgatory(tmp_path)
    journaled.signal("a")
    journaled.journal.close()
    journaled.signal("b", "c")
    assert (journaled.journal.dropped, journaled.journal.buffered, journaled.journal.accepting) == (
        2,
        0,
        True,
    )
    assert [record.key for record in read_journal(tmp_path)] == ["a"]


def test_a_close_in_trouble_returns_and_says_what_was_lost(tmp_path, monkeypatch):
    disk = Disk().seize(monkeypatch)
    disk.on_write = fails_with(errno.ENOSPC)
    journaled = JournaledPurgatory(tmp_path)
    journaled.signal("a", "b")
    journaled.journal.close()
    assert journaled.journal.dropped == 2
    assert journaled.messages[-1] == "2 records were dropped: the journal was closed while it could not write"
    assert list(read_journal(tmp_path)) == []


def test_a_disk_that_has_space_again_just_then_gets_everything(tmp_path, monkeypatch):
    disk = Disk().seize(monkeypatch)
    disk.on_write = fails_with(errno.ENOSPC)
    journaled = JournaledPurgatory(tmp_path, sync=Sync.ALWAYS)
    journaled.signal("a")
    until(lambda: journaled.journal.trouble)
    disk.on_write = bool
    assert [record.key for record in journaled.close()] == ["a"]
    assert journaled.journal.dropped == 0


def test_a_failing_final_sync_is_reported(tmp_path, monkeypatch):
    disk = Disk().seize(monkeypatch)
    disk.on_sync = fails_with(errno.EIO)
    journaled = JournaledPurgatory(tmp_path, sync=Sync.OS)
    journaled.signal("a")
    journaled.journal.close()
    assert "Input/output error; unsynced records may be lost" in journaled.messages[0]
    assert "may be lost" in str(journaled.journal.trouble)


def test_an_exception_in_a_with_block_closes_the_journal(tmp_path):
    with pytest.raises(KeyError), JournaledPurgatory(tmp_path).journal as journal:
        raise KeyError
    assert journal.closed


def test_runs_are_distinguished_by_their_start(tmp_path):
    runs = []
    for _ in range(3):
        journaled = JournaledPurgatory(tmp_path)
        journaled.signal("a")
        (runs, _) = ([*runs, journaled.journal.run_id], journaled.journal.close())
    assert len(set(runs)) == 3
    assert [(record.run_id, record.seq) for record in read_journal(tmp_path)] == [
        (run, 1) for run in sorted(runs)
    ]
