"""A journal that workers read themselves: the records that Spark reads, whatever its segments are."""

import pyarrow as pa
import pyarrow.parquet as pq

from purgatory_async.journal.columns import arrow_schema
from purgatory_async.journal.schema import FIELDS
from purgatory_async.pipeline.source.extent import survey
from purgatory_async.pipeline.source.tables import map_records, read_journal
from tests.pipeline.journals import MS, Node, append, lines, live, rotated

NAMES = [name for name, _ in FIELDS if name != "keys"]  # lists do not sort among nulls
SCHEMA = pa.schema([arrow_schema().field(name) for name in NAMES])


def some_records():
    node = Node()
    for number in range(20):
        node.submit(f"op-{number}", number * MS, timeout=None if number % 3 else MS)
        node.signal("ü", number * MS)
        node.outcome(f"op-{number}", number * MS, latency=7, checks=2)
    node.stats(30 * MS)
    return node.records


def read(spark, directory):
    frame = map_records(spark, survey(directory), lambda batches: batches, NAMES, SCHEMA)
    return sorted((row.asDict() for row in frame.collect()), key=lambda row: row["seq"])


def test_workers_read_the_rows_that_spark_reads(spark, tmp_path):
    records = some_records()
    table = pq.read_table(rotated(tmp_path, records[:30]))
    wide = table.drop_columns(["checks", "wheel_size"])
    wide = wide.set_column(wide.schema.get_field_index("seq"), "seq", wide["seq"].cast(pa.uint32()))
    pq.write_table(wide, tmp_path / "run.n1.000001.parquet", row_group_size=7)
    append(live(tmp_path, records[30:50], number=2), b"no record\n")
    pq.write_table(table.slice(0, 0), tmp_path / "run.n1.000003.parquet")
    found = read(spark, tmp_path)
    assert [row["seq"] for row in found] == list(range(1, 51))
    others = read_journal(spark, tmp_path).records.select(*NAMES).collect()
    assert found == sorted((row.asDict() for row in others), key=lambda row: row["seq"])


def test_workers_read_a_rotated_segment_up_to_the_survey(spark, tmp_path):
    records = some_records()
    path = live(tmp_path, records[:30])
    extent = survey(tmp_path)
    append(path, lines(records[30:]))
    rotated(tmp_path, records)
    frame = map_records(spark, extent, lambda batches: batches, NAMES, SCHEMA)
    assert sorted(row["seq"] for row in frame.collect()) == list(range(1, 31))
