"""A full segment becomes Parquet with the same records; killed at any moment, it is one or the other, never neither."""

import stat
import subprocess
import sys
import threading

import pyarrow.parquet as pq
import pytest

from purgatory_async.journal import Sync, read_journal, rotation
from purgatory_async.journal.columns import arrow_schema
from purgatory_async.journal.lines import encode_record
from purgatory_async.journal.reader import read_segment
from purgatory_async.journal.rotation import main, seal
from purgatory_async.journal.schema import Outcome, Stats, Submit
from purgatory_async.journal.segments import Segment, list_segments
from tests.journal.journaled import JournaledPurgatory, until
from tests.source_tree import ROOT


def fill(directory, count=40, **settings):
    """Leave one segment of JSON lines, as a process that was killed; returns it and its records."""
    journaled = JournaledPurgatory(directory, **settings)
    journaled.journal.gauge(journaled.purgatory)
    for number in range(count):
        journaled.watch(f"order:{number}", ("Tür", number), timeout=None if number % 5 else 0.5)
        journaled.clock.advance(0.1)
        if number % 2:
            journaled.signal(f"order:{number}")
    journaled.purgatory.close()
    records = journaled.close()
    (segment,) = [found for found in list_segments(directory) if found.run_id == journaled.journal.run_id]
    return segment, records


@pytest.fixture
def filled(tmp_path):
    return fill(tmp_path)


def names(directory):
    return sorted(path.name for path in directory.iterdir() if path.name != ".lock")


def test_parquet_holds_exactly_the_records_of_the_lines(filled, tmp_path):
    segment, records = filled
    assert {Submit, Outcome, Stats} < {type(record) for record in records}
    assert seal(segment)
    assert names(tmp_path) == [segment.parquet.name]
    assert list(read_journal(tmp_path)) == records
    table = pq.read_table(segment.parquet)
    assert table.schema.equals(arrow_schema())
    assert table.num_rows == len(records)


def test_no_record_is_lost_where_one_block_of_the_file_ends(filled, tmp_path, monkeypatch):
    segment, records = filled
    for block in (1_000, 1_001, 1_777):
        monkeypatch.setattr(rotation, "BLOCK", block)
        seal(segment)
        assert list(read_journal(tmp_path)) == records
        buffer = bytearray()
        for record in records:
            encode_record(record, buffer)
        segment.path.write_bytes(buffer)
        segment.parquet.unlink()


def test_a_parquet_file_is_for_its_owner_only(filled):
    segment, _ = filled
    seal(segment)
    assert stat.S_IMODE(segment.parquet.stat().st_mode) == 0o600


def test_what_follows_the_last_newline_is_torn_and_goes(filled, tmp_path):
    segment, records = filled
    with segment.path.open("ab") as file:
        file.write(b'{"kind":"signal"')
    assert seal(segment)
    assert list(read_journal(tmp_path)) == records


def test_a_segment_with_damage_stays_as_it_is(filled, tmp_path):
    segment, _ = filled
    data = bytearray(segment.path.read_bytes())
    data[100] ^= 1
    segment.path.write_bytes(data)
    assert not seal(segment)
    assert names(tmp_path) == [segment.path.name]
    assert segment.path.read_bytes() == data


@pytest.mark.parametrize("name", ["_write", "_sync"])
def test_a_disk_failing_meanwhile_leaves_only_the_lines(filled, tmp_path, monkeypatch, name):
    segment, records = filled
    acts = getattr(rotation, name)

    def fail(*arguments):
        acts(*arguments)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rotation, name, fail)
    with pytest.raises(OSError, match="No space"):
        seal(segment)
    assert names(tmp_path) == [segment.path.name]
    assert list(read_journal(tmp_path)) == records


# Killed at each step.


class Killed(BaseException):
    """Nothing after this happens, as after ``kill -9``."""


STEPS = ("half written", "written", "synced", "renamed", "directory synced")


def killed_at(monkeypatch, step, segment):
    def die(*_):
        raise Killed

    with monkeypatch.context() as patched:
        if step == "half written":
            patched.setattr(rotation, "record_batches", die)
        elif step == "written":
            patched.setattr(rotation, "_sync", die)
        elif step == "synced":
            patched.setattr("pathlib.Path.rename", die)
        elif step == "renamed":
            patched.setattr(rotation, "sync_directory", die)
        if step in STEPS[:4]:
            patched.setattr("pathlib.Path.unlink", lambda *_, **__: None)  # a killed process tidies nothing
        else:
            patched.setattr("pathlib.Path.unlink", die)
        with pytest.raises(Killed):
            seal(segment)


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_the_next_start_leaves_only_parquet(filled, tmp_path, monkeypatch, step):
    segment, records = filled
    killed_at(monkeypatch, step, segment)
    renamed = step in STEPS[3:]
    assert names(tmp_path) == sorted(
        [segment.path.name, segment.parquet.name if renamed else f".{segment.parquet.name}"]
    )
    assert [found.path for found in list_segments(tmp_path)] == [segment.parquet if renamed else segment.path]
    assert list(read_journal(tmp_path)) == records
    with JournaledPurgatory(tmp_path):
        until(
            lambda: [name for name in names(tmp_path) if "000001.jsonl" not in name] == [segment.parquet.name]
        )
        until(lambda: not segment.path.exists())
    assert names(tmp_path) == [segment.parquet.name]
    assert list(read_journal(tmp_path)) == records


def test_with_both_files_parquet_counts_and_records_read_once(filled, tmp_path):
    segment, records = filled
    lines = segment.path.read_bytes()
    seal(segment)
    segment.path.write_bytes(lines)
    assert list(read_journal(tmp_path)) == records


def test_a_partial_parquet_file_is_removed_at_the_next_start(filled, tmp_path):
    segment, records = filled
    (tmp_path / f".{segment.parquet.name}").write_bytes(b"PAR1")
    JournaledPurgatory(tmp_path).journal.close()
    assert names(tmp_path) == [segment.path.name]
    assert list(read_journal(tmp_path)) == records


def test_two_sealing_one_segment_take_turns(filled, tmp_path, monkeypatch):
    # The process that a killed writer has left, and the process of the next start. Writing to one file, the first would
    # put half of what the second writes under the final name.
    segment, records = filled
    writing, gate, acts = threading.Event(), threading.Event(), rotation._write
    calls = []

    def slow(source, target):
        calls.append(target)
        writing.set()
        assert gate.wait(30)
        acts(source, target)

    monkeypatch.setattr(rotation, "_write", slow)
    results = []
    first = threading.Thread(target=lambda: results.append(seal(segment)))
    first.start()
    assert writing.wait(30)
    second = threading.Thread(target=lambda: results.append(seal(segment)))
    second.start()
    second.join(0.05)
    assert second.is_alive()
    gate.set()
    first.join(30)
    second.join(30)
    assert results == [True, True]
    assert len(calls) == 1
    assert list(read_journal(tmp_path)) == records


def test_a_segment_sealed_before_it_is_opened_is_no_failure(filled, tmp_path):
    segment, records = filled
    assert seal(segment)
    assert seal(segment)
    assert list(read_journal(tmp_path)) == records
    segment.parquet.unlink()
    with pytest.raises(FileNotFoundError):
        seal(segment)


# The writer has it done.


@pytest.mark.slow
def test_a_full_segment_is_sealed_while_the_next_is_written(tmp_path):
    with JournaledPurgatory(tmp_path, segment_bytes=4096, sync=Sync.ALWAYS) as journaled:
        for number in range(100):
            journaled.signal(f"{number:0100}")
            until(lambda: not journaled.journal.buffered)
        until(lambda: len(list(tmp_path.glob("*.parquet"))) >= 2)
        records = list(read_journal(tmp_path))
        assert [record.key for record in records] == [f"{number:0100}" for number in range(100)]
    assert [record.seq for record in read_journal(tmp_path)] == [*range(1, 101)]
    assert journaled.messages == []
    assert len(list_segments(tmp_path)) > 4
    assert [segment.number for segment in list_segments(tmp_path)] == [
        *range(1, len(list_segments(tmp_path)) + 1)
    ]


@pytest.mark.slow
def test_segments_of_earlier_runs_are_sealed_but_damage_is_kept(tmp_path):
    left = [fill(tmp_path / f"made-{number}", node=f"n{number}") for number in range(3)]
    for path in tmp_path.glob("made-*/*.jsonl"):
        path.rename(tmp_path / path.name)
    left = [(Segment.of(tmp_path / segment.path.name), records) for segment, records in left]
    hurt = left[1][0].path
    data = bytearray(hurt.read_bytes())
    data[50] ^= 4
    hurt.write_bytes(data)
    with JournaledPurgatory(tmp_path):
        until(lambda: len(list(tmp_path.glob("*.parquet"))) == 2)
        until(lambda: not list(tmp_path.glob("*n[02]*.jsonl")))
    found = [name for name in names(tmp_path) if not name.startswith("made-")]
    assert found == sorted([left[0][0].parquet.name, hurt.name, left[2][0].parquet.name])
    assert len(list(read_journal(tmp_path))) == sum(len(records) for _, records in left) - 1


@pytest.mark.slow
def test_a_segment_that_cannot_be_sealed_stays_with_a_report(filled, tmp_path):
    segment, records = filled
    (tmp_path / f".{segment.parquet.name}").mkdir()
    journaled = JournaledPurgatory(tmp_path / "other")
    journaled.journal._run._sealer.add(segment)
    journaled.journal._writer_thread.wake()
    until(lambda: journaled.messages)
    assert f"was not turned into Parquet: {segment.path} stays as it is" in journaled.messages[0]
    assert list(read_journal(tmp_path)) == records


@pytest.mark.slow
def test_nothing_in_the_working_directory_is_taken_for_a_module(filled, tmp_path, monkeypatch):
    # It may be world-writable.
    segment, records = filled
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "pyarrow.py").write_text("from pathlib import Path; Path('taken').touch()")
    monkeypatch.chdir(elsewhere)
    with JournaledPurgatory(tmp_path):
        until(lambda: segment.parquet.exists() or (elsewhere / "taken").exists())
    assert not (elsewhere / "taken").exists()
    assert list(read_journal(tmp_path)) == records


def no_memory(*_, **__):
    raise OSError(12, "Cannot allocate memory")


@pytest.mark.slow
def test_without_room_for_a_process_the_writer_goes_on(filled, tmp_path, monkeypatch):
    segment, _ = filled
    monkeypatch.setattr("purgatory_async.journal.segments.subprocess.Popen", no_memory)
    with JournaledPurgatory(tmp_path, sync=Sync.ALWAYS) as journaled:
        until(lambda: journaled.messages)
        assert journaled.messages == [
            f"{segment.path} stays as it is until the next start, no process can be made: Cannot allocate memory"
        ]
        journaled.signal("a")
        until(lambda: not journaled.journal.buffered)
    assert segment.path.exists()


@pytest.mark.slow
def test_a_callback_that_raises_about_sealing_is_harmless(filled, tmp_path, monkeypatch):
    said = []

    def on_trouble(sentence):
        said.append(sentence)
        raise RuntimeError("not now")

    monkeypatch.setattr("purgatory_async.journal.segments.subprocess.Popen", no_memory)
    with JournaledPurgatory(tmp_path, sync=Sync.ALWAYS, on_trouble=on_trouble) as journaled:
        until(lambda: said)
        journaled.signal("a")
        until(lambda: not journaled.journal.buffered)


def test_a_segment_sealed_after_it_was_listed_is_still_read(filled, tmp_path):
    segment, records = filled
    (listed,) = list_segments(tmp_path)
    seal(segment)
    assert list(read_segment(listed)) == records
    segment.parquet.unlink()
    with pytest.raises(FileNotFoundError):
        list(read_segment(listed))


def test_a_damaged_parquet_file_is_read_or_refused_consistently(filled, tmp_path):
    segment, records = filled
    seal(segment)
    data = bytearray(segment.parquet.read_bytes())
    hurt = 0
    # Its pages have checksums; what describes them has none.
    for place in range(0, len(data), max(1, len(data) // 100)):
        data[place] ^= 1
        segment.parquet.write_bytes(data)
        data[place] ^= 1
        try:
            assert len(list(read_journal(tmp_path))) <= len(records)
        except OSError:
            hurt += 1
    assert hurt > 30


# The command.


def test_the_command_says_what_is_no_segment(capsys, tmp_path):
    for name in ("notes.txt", "run.n1.000001.parquet", ".run.n1.000001.jsonl"):
        assert main([str(tmp_path / name)]) == 2
        assert (
            "is no segment of a journal: it would be named run.node.000001.jsonl" in capsys.readouterr().err
        )


@pytest.mark.slow
def test_the_command_seals_in_a_process_of_its_own(filled, tmp_path):
    segment, records = filled
    command = [sys.executable, "-m", "purgatory_async.journal.rotation", segment.path]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0
    assert list(read_journal(tmp_path)) == records
    segment.parquet.unlink()
    finished = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert (finished.returncode, "stays as it is: [Errno 2]" in finished.stderr) == (1, True)


WITHOUT = """
import sys
sys.modules["pyarrow"] = None
from pathlib import Path
from purgatory_async.journal import Sync, read_journal
from tests.journal.journaled import JournaledPurgatory, until
directory = Path(sys.argv[1])
for _ in range(2):
    with JournaledPurgatory(directory, segment_bytes=4096, sync=Sync.ALWAYS) as journaled:
        for number in range(50):
            journaled.signal(f"{number:0100}")
            until(lambda: not journaled.journal.buffered)
        assert journaled.messages == []
print(len(list(read_journal(directory))), len(list(directory.glob("*.jsonl"))) > 4, list(directory.glob("*.parquet")))
"""


@pytest.mark.slow
def test_without_pyarrow_segments_stay_json_lines(tmp_path):
    finished = subprocess.run(
        [sys.executable, "-c", WITHOUT, tmp_path], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert finished.stdout == "100 True []\n", finished.stderr
