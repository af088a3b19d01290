"""What a stream reads of a journal that grows, is rotated and deleted: every record once, each node in order."""

import json
import random

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

from purgatory_async.journal.lines import encode_record
from purgatory_async.journal.segments import Segment
from purgatory_async.pipeline.source import stream
from purgatory_async.pipeline.source.extent import Position
from purgatory_async.pipeline.source.stream import JournalStreamReader, decode_offset, encode_offset
from tests.pipeline.journals import Node, append, lines, live, rotated


class Program:
    """One node that writes a journal: step by step, torn lines and all."""

    def __init__(self, directory, node, chance):
        self.directory, self.chance = directory, chance
        self.node = Node(node=node)
        self.number, self.begun, self.torn = 1, 0, b""
        self.closed = []
        live(directory, [], 1, node=node)

    @property
    def path(self):
        return Segment.named(self.directory, "run", self.node.node, self.number).path

    def write(self):
        """Some records, the last of which may be torn; what was torn before is completed first."""
        data = bytearray(self.torn)
        for _ in range(self.chance.randrange(4)):
            encode_record(self.node.signal("k", 0), data)
        kept = self.chance.choice([len(data), self.chance.randint(0, len(data))])
        self.torn = bytes(data[kept:])
        append(self.path, bytes(data[:kept]))

    def close(self):
        """Finish the segment and begin the next."""
        append(self.path, self.torn)
        self.torn = b""
        self.closed.append((self.number, self.node.records[self.begun :]))
        self.number, self.begun = self.number + 1, len(self.node.records)
        live(self.directory, [], self.number, node=self.node.node)

    def rotate(self):
        """Make Parquet of any segment that is closed: not always the oldest."""
        if self.closed:
            number, records = self.closed.pop(self.chance.randrange(len(self.closed)))
            rotated(self.directory, records, number, node=self.node.node)

    def finish(self):
        append(self.path, self.torn)
        self.torn = b""


class Query:
    """Spark as the source sees it: offsets go through JSON, a batch may be planned again after a restart."""

    def __init__(self, directory, files=None, table="records"):
        self.directory, self.files, self.table = directory, files, table
        self.start()
        self.offset = json.dumps(self.reader.initialOffset())

    def start(self):
        self.reader = JournalStreamReader(self.table, self.directory, self.files)

    def plan(self):
        end = self.reader.latestOffset(json.loads(self.offset), self.reader.getDefaultReadLimit())
        return None if json.dumps(end) == self.offset else json.dumps(end)

    def read(self, end):
        partitions = self.reader.partitions(json.loads(self.offset), json.loads(end))
        batches = [batch for partition in partitions for batch in self.reader.read(partition)]
        return sorted((r["node"], r["seq"]) for batch in batches for r in batch.to_pylist()), len(partitions)

    def batches(self):
        while (end := self.plan()) is not None:
            yield self.read(end)[0]
            self.offset = end


@pytest.mark.parametrize("seed", range(12))
def test_each_record_is_in_one_batch_whatever_its_file_becomes(tmp_path, seed):
    chance = random.Random(seed)
    programs = [Program(tmp_path, name, chance) for name in ("n1", "n2", "n.3".replace(".", "-"))]
    query = Query(tmp_path, files=chance.choice([None, 1, 2]))
    found = []
    for _ in range(40):
        for program in programs:
            chance.choice([program.write, program.write, program.close, program.rotate])()
        if chance.random() < 0.5 and (end := query.plan()) is not None:
            before = query.read(end)[0]
            chance.choice(programs).rotate()  # between two actions on one batch, and before its replay
            if chance.random() < 0.3:
                query.start()
            assert query.read(end)[0] == before
            found += before
            query.offset = end
            for program in programs:  # what was read of a node is all up to some seq
                read = [seq for node, seq in found if node == program.node.node]
                assert sorted(read) == list(range(1, len(read) + 1))
    for program in programs:
        program.finish()
    found += [row for batch in query.batches() for row in batch]
    assert sorted(found) == sorted((p.node.node, r.seq) for p in programs for r in p.node.records)


def test_a_batch_reads_from_no_more_segments_than_it_may(tmp_path):
    for number in range(1, 6):
        node = Node()
        node.next_seq = number
        node.signal("k", 0)
        (rotated if number % 2 else live)(tmp_path, node.records, number)
    query = Query(tmp_path, files=2)
    assert [len(batch) for batch in query.batches()] == [2, 2, 1]


# A node that never pauses would otherwise be all that is read, when a batch has one file.
def test_no_node_waits_for_one_that_always_has_something_new(tmp_path):
    busy, quiet = Node(node="busy"), Node(node="quiet")
    busy.signal("k", 0)
    quiet.signal("k", 0)
    path = live(tmp_path, busy.records, node="busy")
    live(tmp_path, quiet.records, node="quiet")
    query = Query(tmp_path, files=1)
    nodes = set()
    for _ in range(3):
        end = query.plan()
        nodes |= {node for node, _ in query.read(end)[0]}
        query.offset = end
        append(path, lines([busy.signal("k", 0)]))
    assert nodes == {"busy", "quiet"}


def test_additions_after_available_now_started_wait_for_the_next(tmp_path):
    node = Node()
    for _ in range(3):
        node.signal("k", 0)
    path = live(tmp_path, node.records)
    query = Query(tmp_path)
    query.reader.prepareForTriggerAvailableNow()
    append(path, lines([node.signal("k", 0)]))
    live(tmp_path, [node.signal("k", 0)], 2)
    rotated(tmp_path, node.records[:4])
    assert list(query.batches()) == [[("n1", 1), ("n1", 2), ("n1", 3)]]
    query.start()
    query.reader.prepareForTriggerAvailableNow()
    assert list(query.batches()) == [[("n1", 4), ("n1", 5)]]


# A rotation alone must not make batches: a quiet journal would keep Spark busy, and `batches` would count nothing.
def test_a_segment_read_as_lines_makes_no_batch_as_parquet(tmp_path):
    node = Node()
    node.signal("k", 0)
    live(tmp_path, node.records)
    query = Query(tmp_path)
    assert len(list(query.batches())) == 1
    rotated(tmp_path, node.records)
    assert query.plan() is None


def test_segments_that_were_read_may_be_deleted(tmp_path):
    node = Node()
    for _ in range(2):
        node.signal("k", 0)
    rotated(tmp_path, node.records[:1], 1)
    path = live(tmp_path, node.records[1:], 2)
    query = Query(tmp_path)
    assert len(list(query.batches())) == 1
    (tmp_path / "run.n1.000001.parquet").unlink()
    path.unlink()
    assert query.plan() is None
    node.signal("k", 0)
    live(tmp_path, node.records[2:], 3)
    assert list(query.batches()) == [[("n1", 3)]]


@pytest.mark.parametrize("became_parquet", [True, False])
def test_a_segment_changed_after_listing_is_read_as_it_is(tmp_path, monkeypatch, became_parquet):
    node = Node()
    path = live(tmp_path, [node.signal("k", 0)])
    monkeypatch.setattr(stream, "segments_in", lambda _: [Segment.of(path)])
    parquet = rotated(tmp_path, node.records)
    if not became_parquet:
        parquet.unlink()
    assert list(Query(tmp_path).batches()) == ([[("n1", 1)]] if became_parquet else [])


# The stream must go on, and report that something is missing.
def test_a_segment_deleted_before_it_was_read_is_damage(tmp_path):
    node = Node()
    node.signal("k", 0)
    path = live(tmp_path, node.records)
    query = Query(tmp_path, table="all")
    end = query.plan()
    path.unlink()
    (partition,) = query.reader.partitions({}, json.loads(end))
    (row,) = [row for batch in query.reader.read(partition) for row in batch.to_pylist()]
    assert (row["kind"], row["file"]) == (None, path.name)
    assert "was deleted before" in row["reason"]


def test_offsets_stay_short_however_many_segments_are_done():
    offset = {("run", "node", number): None for number in range(1, 5000)} | {
        ("run", "node", 5000): Position(9, 1)
    }
    assert len(json.dumps(encode_offset(offset))) < 100
    assert decode_offset(encode_offset(offset)) == offset


def test_all_available_is_all_whatever_the_options_say(tmp_path):
    for number in (1, 2):
        node = Node()
        node.next_seq = number
        live(tmp_path, [node.signal("k", 0)], number)
    reader = JournalStreamReader("records", tmp_path, 1)
    assert reader.getDefaultReadLimit() == ReadMaxFiles(1)
    assert len(reader.partitions({}, reader.latestOffset({}, ReadAllAvailable()))) == 2
