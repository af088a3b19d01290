"""A journal as Spark's tables, whatever its segments are and whatever happens to them meanwhile."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError

from purgatory_async.journal.columns import add_checksum
from purgatory_async.journal.schema import FIELDS
from purgatory_async.pipeline.source.tables import PurgatoryJournal, read_journal
from tests.pipeline.journals import MS, Node, append, lines, live, rotated


def some_records():
    node = Node()
    for number in range(20):
        node.submit(f"op-{number}", number * MS, keys=("a", "ü"))
        node.signal("a", number * MS)
        node.outcome(f"op-{number}", number * MS, keys=("a", "ü"), latency=7, checks=2)
    node.stats(30 * MS)
    return node.records


def seqs(frame):
    return sorted(row.seq for row in frame.select("seq").collect())


def test_records_are_the_same_rotated_and_live(spark, tmp_path):
    records = some_records()
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    live(tmp_path / "a", records)
    rotated(tmp_path / "b", records)
    rows = [
        sorted(read_journal(spark, tmp_path / name).records.collect(), key=lambda r: r.seq) for name in "ab"
    ]
    assert rows[0] == rows[1]
    assert len(rows[0]) == len(records)
    assert list(rows[0][0].asDict()) == [name for name, _ in FIELDS]
    assert rows[0][0]["keys"] == ["a", "ü"]


def test_spark_reads_a_segment_with_a_checksum(spark, tmp_path):
    add_checksum(rotated(tmp_path, some_records()))
    assert seqs(read_journal(spark, tmp_path).records) == list(range(1, 62))


def test_spark_compares_the_checksums_of_pages(spark, tmp_path):
    path = rotated(tmp_path, some_records())
    pq.write_table(pq.read_table(path), path, compression="none", write_page_checksum=True)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"op-7", b"op-8", 1))
    with pytest.raises(Py4JJavaError, match=r"run\.n1\.000001\.parquet"):
        read_journal(spark, tmp_path).records.collect()


# Both tables, and every later action on them, must see one extent, or a report contradicts itself.
def test_neither_table_has_rows_written_after_the_survey(spark, tmp_path):
    records = some_records()
    path = live(tmp_path, records[:30])
    append(path, b"not JSON\n" + lines(records[30:31])[:-5])
    tables = read_journal(spark, tmp_path)
    append(path, lines(records[30:31])[-5:] + b"more damage\n" + lines(records[31:40]))
    assert seqs(tables.records) == list(range(1, 31))
    assert [tuple(row)[:2] for row in tables.damage.collect()] == [(path.name, len(lines(records[:30])))]
    rotated(tmp_path, records)
    assert seqs(tables.records) == list(range(1, 31))


def test_a_path_in_which_spark_sees_patterns_is_a_path(spark, tmp_path):
    directory = tmp_path / "_a [b] {c,d} %20 *?" / ".hidden"
    directory.mkdir(parents=True)
    rotated(directory, some_records()[:5])
    live(directory, some_records()[5:9], number=2)
    assert seqs(read_journal(spark, directory).records) == list(range(1, 10))


# Others' writers have their own ideas of integers, and leave out what they never fill.
def test_foreign_parquet_may_have_other_types_and_fewer_columns(spark, tmp_path):
    records = some_records()
    table = pq.read_table(rotated(tmp_path, records))
    wide = table.drop_columns(["checks", "inserts", "wheel_size"])
    for name, kind in (("needed", pa.int64()), ("seq", pa.uint32()), ("latency_ns", pa.float64())):
        wide = wide.set_column(wide.schema.get_field_index(name), name, wide[name].cast(kind))
    wide = wide.append_column("extra", pa.array(["x"] * wide.num_rows))
    pq.write_table(wide, tmp_path / "run.n2.000001.parquet")
    frame = read_journal(spark, tmp_path).records
    assert [field.simpleString() for field in frame.schema] == [
        f"{n}:{k.replace('long', 'bigint')}" for n, k in FIELDS
    ]
    rows = frame.orderBy("seq").collect()
    assert len(rows) == 2 * len(records)
    for one, other in zip(rows[::2], rows[1::2], strict=True):
        assert one.asDict() | {"checks": None, "inserts": None, "wheel_size": None} == other.asDict() | {
            "checks": None,
            "inserts": None,
            "wheel_size": None,
        }


def test_an_empty_journal_has_no_rows(spark, tmp_path):
    tables = read_journal(spark, tmp_path)
    assert tables.records.count() == tables.damage.count() == 0


@pytest.mark.parametrize("table", ["records", "damage"])
def test_the_source_reads_a_whole_journal_by_its_path(spark, tmp_path, table):
    records = some_records()
    rotated(tmp_path, records[:10])
    append(live(tmp_path, records[10:], number=2), b"\n")
    spark.dataSource.register(PurgatoryJournal)
    found = spark.read.format("purgatory_journal").option("table", table).load(str(tmp_path))
    assert found.count() == {"records": len(records), "damage": 1}[table]
