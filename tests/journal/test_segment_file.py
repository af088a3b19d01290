"""The growing file has whole lines only, however the system splits a write."""

import errno
import os
import stat

import pytest

from purgatory_async.journal import segments
from purgatory_async.journal.segments import Segment, SegmentFile
from tests.journal.journaled import open_files


class System:
    """``os``, except that a write takes so many bytes, and what is listed fails."""

    def __init__(self):
        self.takes = []  # bytes that the next writes take; None: no space
        self.failing = set()

    def __getattr__(self, name):
        return self.fail if name in self.failing else getattr(os, name)

    def fail(self, *_args):
        raise OSError(errno.EIO, "Input/output error")

    def write(self, file, data):
        takes = self.takes.pop(0) if self.takes else len(data)
        if takes is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(file, data[:takes])


@pytest.fixture
def system(monkeypatch):
    system = System()
    monkeypatch.setattr(segments, "os", system)
    return system


@pytest.fixture
def segment(tmp_path):
    return Segment.named(tmp_path, "run", "n1", 1)


@pytest.fixture
def file(segment, system):
    file = SegmentFile(segment)
    yield file
    file.close()


def test_short_writes_are_gone_on_with(file, system):
    system.takes = [1, 3, 2]
    file.append(b"line one\nline two\n")
    assert file.segment.path.read_bytes() == b"line one\nline two\n"
    assert file.length == 18


@pytest.mark.parametrize("fits", range(13))
def test_a_full_disk_takes_whole_lines_as_far_as_they_fit(file, system, fits):
    file.append(b"first\n")
    system.takes = [fits, None] if fits else [None]
    with pytest.raises(OSError, match="No space left"):
        file.append(b"second\nthird\n")
    kept = b"first\nsecond\n"[: 6 if fits < 7 else 13]
    assert (file.segment.path.read_bytes(), file.length) == (kept, len(kept))
    file.append(b"fourth\n")
    assert file.segment.path.read_bytes() == kept + b"fourth\n"


def test_a_failed_rollback_is_repeated_before_the_next_line(file, system):
    file.append(b"first\n")
    system.takes = [11, None]
    system.failing = {"ftruncate"}
    with pytest.raises(OSError, match="Input/output"):
        file.append(b"second\nthird\n")
    # A torn tail, as after a kill.
    assert (file.segment.path.read_bytes(), file.length) == (b"first\nsecond\nthir", 13)
    with pytest.raises(OSError, match="Input/output"):
        file.append(b"third\n")
    assert file.length == 13
    system.failing = set()
    file.append(b"third\n")
    assert file.segment.path.read_bytes() == b"first\nsecond\nthird\n"


def test_a_segment_is_for_its_owner_only_and_never_taken_over(file, segment):
    assert stat.S_IMODE(segment.path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        SegmentFile(segment)


def test_only_an_empty_segment_is_removed_when_closed(segment, tmp_path):
    SegmentFile(segment).close()
    assert not segment.path.exists()
    file = SegmentFile(segment)
    file.append(b"line\n")
    file.close()
    assert segment.path.read_bytes() == b"line\n"


def test_a_segment_whose_name_cannot_be_synced_is_removed(segment, system):
    system.failing = {"fsync"}
    before = open_files()
    with pytest.raises(OSError, match="Input/output"):
        SegmentFile(segment)
    assert not segment.path.exists()
    assert open_files() == before


def test_a_failing_close_is_harmless(segment, system):
    file = SegmentFile(segment)
    system.failing = {"close"}
    file.close()
    assert not segment.path.exists()
    os.close(file._file)
