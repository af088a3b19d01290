"""Which numbers no record has, of parts that were read in any order."""

import pyarrow as pa

from purgatory_async.pipeline.operations.coverage import COVERED
from purgatory_async.pipeline.report.gaps import missing
from purgatory_async.pipeline.spark_tables import spark_schema


def test_what_no_part_has_is_missing_also_where_parts_overlap(spark):
    parts = [("n1", 30, 40), ("n1", 1, 20), ("n1", 4, 6), ("n1", 15, 24), ("n2", 5, 9), ("n2", 10, 12)]
    rows = [
        {"run_id": "run", "node": node, "first_seq": first, "last_seq": last} for node, first, last in parts
    ]
    rows.append({"run_id": "run", "node": "n1", "records": 3})
    covered = spark.createDataFrame(pa.Table.from_pylist(rows, COVERED), spark_schema(COVERED))
    assert [tuple(row) for row in missing(covered).collect()] == [("run", "n1", 25, 29)]
