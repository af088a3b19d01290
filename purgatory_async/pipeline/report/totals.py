"""Sums a journal's operations in Spark: by time and by key, and where durations are ranked."""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from purgatory_async.pipeline.operations.between import ALWAYS, Between
from purgatory_async.pipeline.operations.prefixes import PREFIX
from purgatory_async.pipeline.report.sums import OUTCOMES
from purgatory_async.pipeline.windows import OUTCOMES as ENDS
from purgatory_async.pipeline.windows import start_of, steps


def ranked(chosen: DataFrame, wanted: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Find the values of some ranks in parts, given the values that `sums.chosen` picked and `Ranks.wanted`.

    Returns:
        The part, rank and value of each.
    """
    upto = "sum(times) over (partition by part order by value) as upto"
    counted = chosen.groupBy("part", "value").agg(sf.sum("times").alias("times")).selectExpr("*", upto)
    # Made of rows, the table would need Python workers of another kind, with a daemon of their own.
    table = pa.Table.from_pylist([{"part": part, "rank": rank} for part, rank in wanted])
    sought = chosen.sparkSession.createDataFrame(table)
    found = counted.join(sf.broadcast(sought), "part").where("rank <= upto and rank > upto - times")
    return [(row.part, row["rank"], row.value) for row in found.select("part", "rank", "value").collect()]


def timeline(operations: DataFrame, width_ns: int, between: Between = ALWAYS) -> DataFrame:
    """Count submissions and outcomes by time, those in a range.

    Returns:
        ``start_ns, submitted, completed, expired, cancelled, failed, closed``, a row for each stretch of ``width_ns``
        that is not empty.
    """
    start = start_of(sf.col("wall_ns"), width_ns).alias("start_ns")
    found = steps(operations).where(between.sql("wall_ns"))
    return found.groupBy(start).agg(*_counts("step", ("submitted", *ENDS)))


def by_key(operations: DataFrame, signals: DataFrame) -> DataFrame:
    """Count operations and signals, which have a ``key``; an operation counts under each of its keys.

    Returns:
        ``key, submitted, completed, expired, cancelled, failed, closed, pending, signals``, a row for each key.
    """
    watched = operations.selectExpr("explode(keys) as key", "coalesce(outcome, 'pending') as what")
    both = watched.union(signals.selectExpr("key", "'signals'"))
    counts = both.groupBy("key").agg(*_counts("what", (*OUTCOMES, "signals")))
    return counts.select("key", sf.expr(" + ".join(OUTCOMES)).alias("submitted"), *OUTCOMES, "signals")


def _counts(column: str, words: Iterable[str]) -> Iterator[Column]:
    """The columns of a pivot, in one pass: how often a column has each word."""
    return (sf.count_if(sf.col(column) == word).alias(word) for word in words)


def by_prefix(keys: DataFrame) -> DataFrame:
    """Sum the rows of `by_key` by prefix; returns ``prefix, keys, signals``, a row for each prefix."""
    found = keys.groupBy(sf.expr(PREFIX).alias("prefix"))
    return found.agg(sf.count("*").alias("keys"), sf.sum("signals").alias("signals"))
