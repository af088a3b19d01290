"""Old segments are removed, those that are too much as well, and what is left has no gap."""

import datetime as dt
import logging
import os
import time
from pathlib import Path

import pytest

from purgatory_async.journal import Sync, _writer_thread, read_journal, reading
from purgatory_async.journal.ages import Ages
from purgatory_async.journal.retention import Retention
from purgatory_async.journal.segments import Segment, list_segments
from tests.journal.journaled import JournaledPurgatory, until
from tests.pipeline.journals import Node, live, rotated

DAY = 86_400.0
DAY_NS = 86_400_000_000_000
SECOND = 1_000_000_000
BIG = 200


@pytest.fixture(autouse=True)
def _look_often(monkeypatch, caplog):
    monkeypatch.setattr(_writer_thread, "SURVEY_S", 0.005)
    caplog.set_level(logging.INFO, "purgatory_async.journal")


def keeping(directory, **settings):
    return JournaledPurgatory(directory, **{"sync": Sync.ALWAYS, "keep": 3 * DAY, **settings})


def settle(journaled):
    """Let the writer thread write everything, and look once more at what there is."""
    until(lambda: not journaled.journal.buffered)
    looks = []
    look = journaled.journal._run._retention.look
    journaled.journal._run._retention.look = lambda *segments: (look(*segments), looks.append(1))
    until(lambda: len(looks) > 2)
    journaled.journal._run._retention.look = look


def day(journaled, number):
    """A day's records, in a segment of their own."""
    journaled.signal(*(f"{number}:{each:0{BIG}}" for each in range(30)))
    settle(journaled)
    journaled.clock.advance(DAY)


def days(directory):
    return sorted({int(record.key.partition(":")[0]) for record in read_journal(directory)})


def earlier(directory, ages, run_id="20200101T000000-abcdef", write=live, node="n1"):
    """Segments of an earlier run with one record each, so many days old."""
    made, now = Node(run_id, node, epoch=0), int(dt.datetime.now(dt.UTC).timestamp()) * SECOND
    return [
        write(directory, [made.signal("a", int(now - age * DAY_NS))], number, run_id, node)
        for number, age in enumerate(ages, 1)
    ]


def removals(caplog):
    return [message for message in caplog.messages if message.startswith("removed ")]


@pytest.mark.parametrize("keep", [3 * DAY, dt.timedelta(days=3)])
def test_segments_go_once_their_newest_record_is_too_old(tmp_path, keep):
    with keeping(tmp_path, segment_bytes=4096, keep=keep) as journaled:
        for number in range(6):
            day(journaled, number)
        settle(journaled)
        assert days(tmp_path) == [3, 4, 5]
        journaled.signal("6:the present segment stays, however old")
        settle(journaled)
        journaled.clock.advance(100 * DAY)
        settle(journaled)
        (present,) = list_segments(tmp_path)
        assert (present.number, journaled.journal.usage.removed) == (7, 6)
        assert days(tmp_path) == [6]
    assert journaled.messages == []


def test_without_a_bound_everything_stays(tmp_path, caplog):
    paths = earlier(tmp_path, [4000, 3000])
    with keeping(tmp_path, segment_bytes=4096, keep=None) as journaled:
        for number in range(3):
            day(journaled, number)
        settle(journaled)
    assert all(path.exists() for path in paths)
    assert {segment.number for segment in list_segments(tmp_path)} == {1, 2, 3}
    assert removals(caplog) == []


def test_segments_of_earlier_runs_go_by_their_records_not_files(tmp_path, caplog):
    old, new = earlier(tmp_path, [9, 1])
    other = earlier(tmp_path, [8, 7], "20200202T000000-abcdef")
    os.utime(new, (0, 0))
    with keeping(tmp_path) as journaled:
        settle(journaled)
        assert [path.exists() for path in (old, new, *other)] == [False, True, False, False]
    (said,) = removals(caplog)
    assert "removed 3 segments (20200101T000000-abcdef.n1.000001 to 20200202T000000-abcdef.n1.000002)" in said
    assert said.endswith(
        f"of the journal in {tmp_path}, 0.0 MiB: their records are older than 3 days, 0:00:00"
    )


def test_an_old_segment_behind_a_newer_one_stays_no_gap_arises(tmp_path):
    paths = earlier(tmp_path, [9, 1, 8, 0])  # the wall clock was set
    with keeping(tmp_path) as journaled:
        settle(journaled)
        assert [path.exists() for path in paths] == [False, True, True, True]


def test_a_segment_without_a_record_is_as_old_as_the_next(tmp_path):
    paths = earlier(tmp_path, [9, 8, 7, 1, 0])
    paths[0].write_bytes(b"")
    paths[1].write_bytes(b"damage\n")
    paths[3].write_bytes(b'{"kind":"signal"')
    with keeping(tmp_path) as journaled:
        settle(journaled)
        assert [path.exists() for path in paths] == [False, False, False, True, True]


def test_a_run_without_a_record_is_as_old_as_the_next_runs_start(tmp_path):
    runs = [f"{dt.datetime.now(dt.UTC) - dt.timedelta(days=age):%Y%m%dT%H%M%S}-abcdef" for age in (9, 8, 1)]
    paths = [path for run_id in runs for path in earlier(tmp_path, [0], run_id)]
    for path in paths:
        path.write_bytes(b"")
    foreign = earlier(tmp_path, [0], "000-named-by-another-program")[0]
    foreign.write_bytes(b"")
    with keeping(tmp_path) as journaled:
        settle(journaled)
        assert [path.exists() for path in (*paths, foreign)] == [False, True, True, True]


def test_the_segment_that_grows_stays_however_old_or_large(tmp_path):
    *old, present = earlier(tmp_path, [9, 8, 7])
    bounds = {"keep_ns": DAY_NS, "keep_bytes": 1}
    ages = Ages(tmp_path, "run", time.time_ns, pytest.fail)
    journal = Retention(tmp_path, ages, now_ns=time.time_ns, **bounds, on_trouble=pytest.fail)
    journal.look(Segment.of(present), sealing=Segment.of(old[1]))
    assert [path.exists() for path in (*old, present)] == [False, True, True]
    journal.look(Segment.of(present), None)
    assert [path.exists() for path in (*old, present)] == [False, False, True]


def test_a_segment_ends_before_its_first_record_is_too_old(tmp_path):
    with keeping(tmp_path, keep=10 * DAY) as journaled:
        for number in range(4):
            journaled.signal(number)
            settle(journaled)
            journaled.clock.advance(0.4 * DAY)
        assert [segment.number for segment in list_segments(tmp_path)] == [1, 2]
        assert [record.key for record in read_journal(tmp_path)] == ["0", "1", "2", "3"]
    assert journaled.messages == []


def test_a_journal_that_is_too_large_loses_its_oldest(tmp_path, caplog):
    paths = earlier(tmp_path, [9, 8])
    with keeping(tmp_path, segment_bytes=4096, keep=None, keep_bytes=30_000) as journaled:
        for number in range(12):
            day(journaled, number)
        settle(journaled)
        assert not any(path.exists() for path in paths)
        size = sum(path.stat().st_size for path in tmp_path.glob("*.jsonl"))
        assert 15_000 < size <= 30_000
        assert journaled.journal.usage.bytes == size
        found = days(tmp_path)
        assert found == list(range(found[0], 12))
    assert "and may have 0.0 MiB" in removals(caplog)[0]


def test_a_reader_has_what_it_began_with_for_an_hour(tmp_path, monkeypatch):
    paths = earlier(tmp_path, [9, 8])
    with reading.reading(tmp_path), reading.reading(tmp_path), keeping(tmp_path) as journaled:
        settle(journaled)
        assert all(path.exists() for path in paths)
        monkeypatch.setattr(reading, "PATIENCE_S", 0.0)
        until(lambda: not paths[-1].exists())
    assert journaled.messages == []


def test_a_removal_follows_once_the_readers_have_ended(tmp_path):
    paths = earlier(tmp_path, [9])
    with keeping(tmp_path) as journaled:
        with reading.reading(tmp_path):
            pass
        until(lambda: not paths[0].exists())
        settle(journaled)


def test_a_removal_that_fails_is_told_once(tmp_path, monkeypatch):
    paths = earlier(tmp_path, [9])
    unlink = Path.unlink

    def refuse(path, *, missing_ok=False):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)
    with keeping(tmp_path) as journaled:
        settle(journaled)
        assert journaled.messages == [f"the journal cannot remove segments in {tmp_path}: Permission denied"]
        monkeypatch.setattr(Path, "unlink", unlink)
        until(lambda: not paths[0].exists())


def test_without_pyarrow_parquet_counts_as_new(tmp_path):
    paths = earlier(tmp_path, [9, 8], write=rotated)
    with keeping(tmp_path) as journaled:
        settle(journaled)
        assert all(path.exists() for path in paths)
        (said,) = journaled.messages
        assert said.startswith(f"the journal takes 2 Parquet segments in {tmp_path} as new: ")
        assert said.endswith("pyarrow is not installed")
        journaled.clock.advance(3.1 * DAY)
        settle(journaled)
        assert not any(path.exists() for path in paths)


@pytest.mark.slow
def test_the_footer_of_a_parquet_file_tells_its_age(tmp_path):
    paths = earlier(tmp_path, [9, 8, 1, 7], write=rotated)
    hurt = earlier(tmp_path, [9, 8], "20200202T000000-abcdef", write=rotated)
    hurt[0].write_bytes(b"PAR1")
    os.utime(paths[2], (0, 0))
    with keeping(tmp_path) as journaled:
        until(lambda: not paths[1].exists())
        settle(journaled)
        assert [path.exists() for path in (*paths, *hurt)] == [False, False, True, True, False, False]
    assert journaled.messages == []


@pytest.mark.slow
def test_segments_that_became_parquet_go_like_others(tmp_path):
    with keeping(tmp_path, segment_bytes=4096) as journaled:
        for number in range(3):
            day(journaled, number)
        until(lambda: len(list(tmp_path.glob("*.parquet"))) == 3)
        journaled.clock.advance(9 * DAY)
        until(lambda: not list(tmp_path.glob("*.parquet")))
        settle(journaled)
        assert len(list_segments(tmp_path)) == 1
    assert journaled.messages == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    [pytest.param("raise SystemExit('no luck')", id="fails"), pytest.param("print('garbled')", id="garbled")],
)
def test_an_answer_that_does_not_come_leaves_everything(tmp_path, monkeypatch, module):
    (path,) = earlier(tmp_path, [9], write=rotated)
    (tmp_path / "sitecustomize.py").write_text(module)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with keeping(tmp_path) as journaled:
        until(lambda: journaled.messages)
        settle(journaled)
        assert path.exists()
    (said,) = journaled.messages
    assert said.startswith(f"the journal takes 1 Parquet segments in {tmp_path} as new: ")


@pytest.mark.parametrize(
    ("keep", "error"),
    [
        *((keep, ValueError) for keep in (0, -1.0, float("nan"), float("inf"), 1e12, dt.timedelta(0))),
        *((keep, TypeError) for keep in ("30d", True, [])),
    ],
)
def test_an_invalid_time_to_keep_is_refused_and_leaves_nothing(tmp_path, keep, error):
    with pytest.raises(error, match="keep must be"):
        JournaledPurgatory(tmp_path / "journal", keep=keep)
    assert not (tmp_path / "journal").exists()


@pytest.mark.parametrize("size", [0, 8191, 1.5, "1GiB"])
def test_an_invalid_size_to_keep_is_refused(tmp_path, size):
    with pytest.raises((ValueError, TypeError), match="keep_bytes must be"):
        JournaledPurgatory(tmp_path / "journal", segment_bytes=4096, keep_bytes=size)
    assert not (tmp_path / "journal").exists()


def test_a_reader_passes_over_what_was_removed_since_it_listed(tmp_path):
    paths = earlier(tmp_path, [9, 8, 1])
    records = read_journal(tmp_path)
    first = next(records)
    paths[1].unlink()
    assert [record.seq for record in (first, *records)] == [1, 3]
