"""Damage in a checkpoint is named before Spark starts, with the least that helps.

That Spark's files look like these, and that the remedies help, is tested with Spark in ``jobs/test_damage.py``.
"""

import json
import re
import shutil
from zipfile import ZipFile
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from purgatory_async.pipeline import Refused, damage
from purgatory_async.pipeline.damage import (
    BEGIN_ANEW,
    check_distributed_files,
    check_stream_files,
    drop_orphans,
)

NOT_BEGUN = "remove it and start again: its batch has no results yet, so nothing is lost"
REPEATED = "remove it and start again: its batch is repeated, and nothing is lost or doubled"

CONF = {"conf": {"spark.sql.shuffle.partitions": "2"}}
LINES = {
    "empty": b"",
    "cut short": b"v1\n",
    "torn": b'v1\n{"batchWater',
    "foreign": b"hello\n",
    "binary": b"\x89PNG\n\0\xff",
}


def write(path, content):
    """Write a file and its checksums, as Hadoop does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    sums = b"".join(crc32(content[at : at + 512]).to_bytes(4) for at in range(0, len(content), 512))
    path.with_name(f".{path.name}.crc").write_bytes(b"crc\0" + (512).to_bytes(4) + sums)


def log(path, *entries):
    lines = ["v1", *("-" if entry is None else json.dumps(entry) for entry in entries)]
    write(path, "\n".join(lines).encode())


class Stream:
    """Two batches of a stream, both done."""

    def __init__(self, directory):
        self.query = directory / "checkpoint" / "query"
        write(self.query / "metadata", b'{"id":"7"}')
        for batch in (0, 1):
            self.begin(batch)
            self.give(batch)
            log(self.query / "commits" / str(batch), {"nextBatchWatermarkMs": 0})

    def begin(self, batch):
        offset = {"run.n1": {"done": "", "live": {"1": {"offset": batch, "seq": batch}}}}
        log(self.query / "offsets" / str(batch), CONF, offset)

    def give(self, batch):
        self.result(batch).mkdir(parents=True)
        pq.write_table(pa.table({"seq": [1]}), self.result(batch) / "part-0.parquet")
        (self.result(batch) / "_SUCCESS").touch()

    def result(self, batch):
        return self.query.parent / "state" / f"{batch:09d}" / "records"

    def check(self):
        check_stream_files(self.query.parent)


class Distributed(Stream):
    """Two batches of a distributed purgatory, both done; one of its four states has a snapshot."""

    def __init__(self, directory):
        self.out = directory / "out"
        super().__init__(directory)

    def begin(self, batch):
        log(self.query / "offsets" / str(batch), CONF, {"logOffset": batch}, {"logOffset": 0}, None)
        for source in ("0", "1") if batch == 0 else ("0",):
            log(self.query / "sources" / source / str(batch), {"path": "file:///a", "batchId": batch})

    def give(self, batch):
        log(self.result(batch), {"path": "file:///b"})
        for stage in ("0", "1"):
            log(self.query / "state" / stage / "_metadata" / "v2" / "0", {})
            for partition in ("0", "1"):
                write(self.query / "state" / stage / partition / f"{batch + 1}.changelog", b"a change")
        store = self.query / "state" / "1" / "1"
        write(store / "SSTs" / "1-a.sst", b"a table")
        with ZipFile(store / "2.zip", "w") as archive:
            archive.writestr("metadata", 'v1\n{"sstFiles":[{"dfsSstFileName":"1-a.sst"}]}')

    def result(self, batch):
        return self.out / "outcomes" / "_spark_metadata" / str(batch)

    def check(self):
        check_distributed_files(self.query, self.out)


@pytest.fixture(params=[Stream, Distributed])
def made(request, tmp_path):
    return request.param(tmp_path)


@pytest.fixture
def distributed(tmp_path):
    return Distributed(tmp_path)


def refusal(made):
    with pytest.raises(Refused) as refused:
        made.check()
    return str(refused.value)


def test_whole_checkpoints_are_continued(made):
    made.check()
    made.begin(2)
    made.check()
    made.give(2)
    made.check()


def test_before_the_first_batch_there_is_nothing_to_check(made):
    shutil.rmtree(made.query)
    made.query.mkdir()
    if isinstance(made, Distributed):
        shutil.rmtree(made.out)
    else:
        shutil.rmtree(made.query.parent / "state")
    made.check()
    (made.query / "metadata").touch()
    assert refusal(made) == f"{made.query / 'metadata'} is empty; {NOT_BEGUN}"


@pytest.mark.parametrize("content", LINES.values(), ids=LINES)
@pytest.mark.parametrize(
    ("name", "remedy"),
    [("metadata", BEGIN_ANEW), ("offsets/1", BEGIN_ANEW), ("offsets/0", BEGIN_ANEW), ("commits/1", REPEATED)],
)
def test_a_damaged_log_is_named_with_what_to_do(made, name, remedy, content):
    path = made.query / name
    path.write_bytes(content)
    assert re.fullmatch(f"{re.escape(str(path))} is [^;]*; {remedy}", refusal(made))
    path.with_name(f".{path.name}.crc").unlink()
    assert refusal(made).endswith(remedy)


@pytest.mark.parametrize("content", LINES.values(), ids=LINES)
def test_the_newest_offsets_go_if_nothing_depends_on_them(made, content):
    made.begin(2)
    newest = made.query / "offsets" / "2"
    newest.write_bytes(content)
    assert refusal(made).endswith(NOT_BEGUN)
    made.give(
        2
    )  # the batch would be planned anew, with other records, and its result taken for the old one's
    assert refusal(made).endswith(BEGIN_ANEW)


@pytest.mark.parametrize("name", ["metadata", "offsets/1", "offsets/0"])
def test_a_lost_log_is_named(made, name):
    (made.query / name).unlink()
    assert refusal(made) == f"{made.query / name} is missing; {BEGIN_ANEW}"


def test_lost_results_are_not_taken_for_a_beginning(made):
    place = made.result(1)
    shutil.rmtree(place.parent) if place.is_dir() else place.unlink()
    assert refusal(made).endswith(f"is missing; {BEGIN_ANEW}")


def test_files_of_another_query_are_not_continued(made):
    log(made.query / "offsets" / "1", CONF, {"topic": {"0": 7}}, None)
    assert "is not of this command" in refusal(made)


def test_what_another_format_says_is_left_to_spark(made):
    write(made.query / "offsets" / "1", b'v2\n{"sources": {}}')
    made.check()


def test_what_spark_passes_over_is_passed_over(made):
    for name in ("offsets/notes.txt", "offsets/.2.tmp", "commits/.1.crc"):
        (made.query / name).write_bytes(b"")
    made.check()


def test_checksums_of_what_is_gone_go_too(made):
    (made.query / "offsets" / "1").unlink()
    drop_orphans(made.query)
    names = {path.name for path in (made.query / "offsets").iterdir()}
    assert names == {"0", ".0.crc"}
    assert (made.query / ".metadata.crc").exists()


def test_a_stream_s_state_is_repeated_unless_its_batch_is_done(tmp_path):
    made = Stream(tmp_path)
    made.begin(2)
    made.give(2)
    (made.result(2) / "part-0.parquet").write_bytes(b"PAR1")
    assert refusal(made) == f"{made.result(2).parent} has a damaged file part-0.parquet; {REPEATED}"
    log(made.query / "commits" / "2", {})
    assert refusal(made).endswith(BEGIN_ANEW)
    (made.result(2) / "_SUCCESS").unlink()
    assert refusal(made) == f"{made.result(2).parent} is incomplete; {BEGIN_ANEW}"


@pytest.mark.parametrize("content", LINES.values(), ids=LINES)
def test_a_source_s_log_goes_beyond_what_was_planned(distributed, content):
    sources = distributed.query / "sources" / "0"
    write(sources / "2", b"v1\nwhole")
    (sources / "2").write_bytes(content)
    assert refusal(distributed).endswith(NOT_BEGUN)
    (sources / "2").unlink()
    (sources / "1").write_bytes(content)
    assert refusal(distributed).endswith(BEGIN_ANEW)
    (sources / "1").unlink()
    assert refusal(distributed) == f"{sources / '1'} is missing; {BEGIN_ANEW}"


def test_a_log_that_sums_up_replaces_those_before(distributed):
    sources = distributed.query / "sources" / "0"
    (sources / "0").unlink()
    (sources / "1").rename(sources / "1.compact")
    distributed.check()


def test_outcomes_are_listed_again_unless_their_batch_is_done(distributed):
    distributed.begin(2)
    distributed.give(2)
    for batch, remedy in ((2, REPEATED), (1, BEGIN_ANEW)):
        distributed.result(batch).write_bytes(b"")
        assert refusal(distributed) == f"{distributed.result(batch)} is empty; {remedy}"


@pytest.mark.parametrize(
    "name", ["0/0/2.changelog", "0/1/1.changelog", "1/1/2.zip", "1/1/SSTs/1-a.sst", "1/_metadata/v2/0"]
)
def test_damaged_state_is_named(distributed, name):
    path = distributed.query / "state" / name
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert re.fullmatch(f"{re.escape(str(path))} is [^;]*; {BEGIN_ANEW}", refusal(distributed))
    path.write_bytes(b"")
    assert refusal(distributed) == f"{path} is empty; {BEGIN_ANEW}"
    if path.suffix in {".changelog", ".sst"}:
        path.unlink()
        assert refusal(distributed) == f"{path} is missing; {BEGIN_ANEW}"


def test_state_that_nothing_needs_is_passed_over(distributed):
    state = distributed.query / "state"
    (state / "1" / "1" / "1.changelog").unlink()  # a snapshot came after it
    (state / "0" / "0" / "3.changelog").touch()  # of a batch that was not done
    distributed.check()


def test_of_a_large_file_only_the_size_is_compared(distributed, monkeypatch):
    monkeypatch.setattr(damage, "_SMALL", 3)
    distributed.check()
    write(path := distributed.query / "state" / "0" / "0" / "2.changelog", bytes(1000))
    path.write_bytes(bytes(512))
    assert refusal(distributed) == f"{path} is damaged: its checksums differ; {BEGIN_ANEW}"
