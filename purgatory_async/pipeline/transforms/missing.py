"""Which records a journal lost, by the gaps in their numbers.

To put all numbers of a node next to each other would be a sort of the whole journal. So 64 of them become the bits of a
word first, which needs no order; then only words are put next to each other, and the bits of those that have gaps.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

__all__ = ["missing"]

_BITS: Final = 64
_FULL: Final = -1  # all bits of a long


def missing(records: DataFrame) -> DataFrame:
    """Find the numbers between the first and the last of each run and node that no record has.

    Args:
        records: Of a journal; of its columns ``run_id, node, seq``, each ``seq`` at least 0.

    Returns:
        ``run_id, node, first, last``, a row for each longest range that is missing.

    One pass, and a sort of a 64th of the records.
    """
    words = records.groupBy("run_id", "node", sf.expr(f"seq div {_BITS}").alias("word")).agg(
        sf.bit_or(sf.expr(f"shiftleft(1L, cast(seq % {_BITS} as int))")).alias("bits")
    )
    whole = sf.array(sf.struct(sf.lit(0).alias("first"), sf.lit(_BITS - 1).alias("last")))
    each = sf.transform(
        sf.filter(sf.sequence(sf.lit(0), sf.lit(_BITS - 1)), lambda bit: sf.getbit("bits", bit) == 1),
        lambda bit: sf.struct(bit.alias("first"), bit.alias("last")),
    )
    spans = words.select(
        "run_id",
        "node",
        "word",
        sf.explode(sf.when(sf.col("bits") == _FULL, whole).otherwise(each)).alias("span"),
    ).select(
        "run_id",
        "node",
        (sf.col("word") * _BITS + sf.col("span.first")).alias("from"),
        (sf.col("word") * _BITS + sf.col("span.last")).alias("to"),
    )
    before = sf.lag("to").over(Window.partitionBy("run_id", "node").orderBy("from"))
    return (
        spans.withColumn("before", before)
        .where(sf.col("from") > sf.col("before") + 1)
        .select("run_id", "node", (sf.col("before") + 1).alias("first"), (sf.col("from") - 1).alias("last"))
    )
