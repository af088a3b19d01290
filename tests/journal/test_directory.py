"""One process writes to a directory, private to its owner; a forked child writes nothing."""

import os
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from purgatory_async import Timer
from purgatory_async.journal import Journal, JournalError, Sync, read_journal, segments
from purgatory_async.testing import ManualClock
from tests.forks import in_child
from tests.journal.journaled import JournaledPurgatory, live_bytes, until
from tests.processes import python

OPEN = """
import sys
from purgatory_async import Timer
from purgatory_async.journal import Journal, JournalError
from purgatory_async.testing import ManualClock
try:
    journal = Journal(sys.argv[1], timer=Timer(clock=ManualClock()))
except JournalError as error:
    sys.exit(str(error))
print("writes", flush=True)
sys.stdin.read()
"""


def start(directory):
    return python("-c", OPEN, directory, stdin=subprocess.PIPE)


def open_journal(directory):
    return Journal(directory, timer=Timer(clock=ManualClock()))


@pytest.mark.slow
def test_a_second_process_is_refused_with_the_id_of_the_first(tmp_path):
    with JournaledPurgatory(tmp_path) as journaled:
        journaled.signal("a")
        with start(tmp_path) as second:
            _, said = second.communicate()
        assert said.strip() == (
            f"another process (id {os.getpid()}) keeps its journal in {tmp_path}; give each its own directory"
        )
        assert second.returncode == 1
        assert [record.key for record in journaled.close()] == ["a"]


def test_a_second_journal_of_the_same_process_is_refused_too(tmp_path):
    with JournaledPurgatory(tmp_path), pytest.raises(JournalError, match=f"id {os.getpid()}"):
        open_journal(tmp_path)


@pytest.mark.slow
def test_after_the_first_ends_the_next_may_write(tmp_path):
    with start(tmp_path) as first:
        assert first.stdout.readline() == "writes\n"
        with pytest.raises(JournalError, match=f"id {first.pid}"):
            open_journal(tmp_path)
        first.send_signal(signal.SIGKILL)
        first.wait()
    open_journal(tmp_path).close()
    open_journal(tmp_path).close()


def test_written_files_are_private_to_their_owner(tmp_path):
    directory = tmp_path / "a" / "journal"
    with JournaledPurgatory(directory) as journaled:
        journaled.signal("a")
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert set(modes.values()) == {0o600}
    assert len(modes) == 2


def test_a_new_directory_is_synced_before_any_promise(tmp_path, monkeypatch):
    # After a power cut a file is there only if its directory is, and that only if the one above has its name.
    synced = []
    monkeypatch.setattr(segments, "sync_directory", synced.append)
    for _ in range(2):
        open_journal(tmp_path / "a" / "b").close()
    assert synced == [tmp_path / "a", tmp_path, tmp_path / "a" / "b", tmp_path / "a" / "b"]


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o702])
def test_a_world_writable_directory_is_refused_with_a_remedy(tmp_path, mode):
    tmp_path.chmod(mode)
    with pytest.raises(
        JournalError, match=f"must not be world-writable, got mode {mode:o}.*run: chmod o-w {tmp_path}"
    ):
        open_journal(tmp_path)
    assert list(tmp_path.iterdir()) == []
    tmp_path.chmod(mode & ~0o2)
    open_journal(tmp_path).close()


def test_a_directory_that_is_none_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for directory in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(
            JournalError, match=f"cannot keep a journal in {directory}: (File exists|Not a dir)"
        ):
            open_journal(directory)


@pytest.mark.parametrize("url", ["s3a://bucket/x", "hdfs://host/x", "file:///x", Path("s3://bucket")])
def test_a_url_is_refused_and_makes_no_directory(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(JournalError, match=r"must be in a local directory, got '(s3a?|hdfs|file):/"):
        open_journal(url)
    assert list(tmp_path.iterdir()) == []


def test_a_start_that_fails_lets_the_directory_go(tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError("no thread")

    with monkeypatch.context() as patched:
        patched.setattr("purgatory_async.journal._run.WriterThread.start", fail)
        with pytest.raises(RuntimeError, match="no thread"):
            open_journal(tmp_path)
    open_journal(tmp_path).close()


@pytest.mark.parametrize(
    ("given", "written"), [("n1", "n1"), ("a.b/c d", "a-b-c-d"), ("", "node"), ("é", "-")]
)
def test_a_nodes_name_is_made_fit_for_a_file(tmp_path, given, written):
    journaled = JournaledPurgatory(tmp_path, node=given)
    journaled.signal("a")
    assert [record.node for record in journaled.close()] == [written]
    assert [path.name.split(".")[1] for path in tmp_path.glob("*.jsonl")] == [written]


def test_a_journal_in_which_nothing_happened_leaves_no_segment(tmp_path):
    open_journal(tmp_path).close()
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


# Forks.


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_writes_nothing_and_closes_nothing(tmp_path):
    with JournaledPurgatory(tmp_path, sync=Sync.ALWAYS) as journaled:
        journaled.signal("parent's")
        until(lambda: journaled.journal._writer_thread.settled)
        before = live_bytes(tmp_path)

        def act():
            journaled.signal("child's")
            assert journaled.journal.buffered == 1
            with pytest.raises(JournalError, match=f"kept by process {os.getppid()}, which forked this one"):
                journaled.journal.flush().send(None)
            journaled.journal.close()
            assert live_bytes(tmp_path) == before

        assert in_child(act) == "None"
        journaled.signal("parent's again")
        with pytest.raises(JournalError, match="another process"):
            open_journal(tmp_path)
    assert [record.key for record in read_journal(tmp_path)] == ["parent's", "parent's again"]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_surviving_forked_child_does_not_keep_the_directory(tmp_path):
    # The lock belongs to the open file, which a fork shares: it stayed until the last child had ended.
    child_ends, parent_keeps = os.pipe()
    journaled = JournaledPurgatory(tmp_path)
    child = os.fork()
    if child == 0:
        os.close(parent_keeps)
        os.read(child_ends, 1)
        os._exit(0)
    try:
        journaled.journal.close()
        # The lock goes in the child as soon as it runs.
        until(lambda: not held_by(child, tmp_path / ".lock"))
        open_journal(tmp_path).close()
    finally:
        os.close(parent_keeps)
        os.close(child_ends)
        os.waitpid(child, 0)


def held_by(process, path):
    links = Path(f"/proc/{process}/fd").iterdir()
    return any(link.readlink() == path for link in links if link.is_symlink())
