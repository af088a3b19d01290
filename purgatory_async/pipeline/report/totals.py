"""Sums a journal's operations: by outcome, by duration, by time and by key."""

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from purgatory_async.pipeline.windows import OUTCOMES as ENDS
from purgatory_async.pipeline.windows import start_of, steps

__all__ = [
    "OUTCOMES",
    "STEPS",
    "by_key",
    "by_prefix",
    "durations",
    "histogram",
    "nearest_ranks",
    "timeline",
    "totals",
]

OUTCOMES: Final = (*ENDS, "pending")
"""The states of operations in a report, in the order of listing."""

STEPS: Final = 8
"""Of a histogram, for each factor of two."""


def totals(operations: DataFrame, nodes: DataFrame) -> DataFrame:
    """Sum operations by outcome, given the nodes of the same journal.

    Returns:
        ``outcome, operations, held_ns``: the last is the sum of the times pending, up to a node's last record.
    """
    until = operations.join(sf.broadcast(nodes.select("run_id", "node", "last_ns")), ["run_id", "node"])
    # Ten million operations that are pending for an hour exceed 64 bits.
    held_ns = "cast(coalesce(end_ns, last_ns) - submit_ns as decimal(20)) as held_ns"
    held = until.selectExpr("coalesce(outcome, 'pending') as outcome", held_ns)
    return held.groupBy("outcome").agg(sf.count("*").alias("operations"), sf.sum("held_ns").alias("held_ns"))


def durations(operations: DataFrame) -> DataFrame:
    """List ``name, value``: the latency of completed operations and the lateness of expired ones, in nanoseconds."""
    value = "case outcome when 'completed' then latency_ns when 'expired' then lateness_ns end as value"
    return operations.selectExpr("outcome as name", value).where("value is not null")


def histogram(durations: DataFrame) -> DataFrame:
    """Count durations on a logarithmic scale; what is below a nanosecond counts as one.

    Returns:
        ``name, step, count, least, greatest``: step *i* starts at ``2 ** (i / STEPS)`` nanoseconds, and the last two
        are the extreme values in it.
    """
    step = sf.expr(f"floor(log2(greatest(value, 1)) * {STEPS}) as step")
    extremes = sf.min("value").alias("least"), sf.max("value").alias("greatest")
    return durations.groupBy("name", step).agg(sf.count("*").alias("count"), *extremes)


def nearest_ranks(
    values: DataFrame, steps: Mapping[str, Sequence[tuple[int, int, int]]], shares: Sequence[int]
) -> dict[str, dict[int, int]]:
    """Find exact percentiles by nearest rank: the smallest value that at least ``share`` percent do not exceed.

    Args:
        values: ``name string, value long``: several sets of values, distinguished by name.
        steps: An ascending histogram of each set: the count, least and greatest value of each step.
        shares: In percent, from 1 to 100.

    Returns:
        The value for each set and share.

    One pass over the values; those in a step with a percentile are sorted.
    """
    found: dict[str, dict[int, int]] = {name: {} for name in steps}
    parts: list[str] = []
    sought: dict[tuple[str, int], tuple[int, int]] = {}  # by set and share: the part and the rank in it
    for name, counts in steps.items():
        total = sum(count for count, _, _ in counts)
        below = 0
        for count, least, greatest in counts:
            ranks = {share: -(-share * total // 100) - below for share in shares}
            here = {share: rank for share, rank in ranks.items() if 0 < rank <= count}
            found[name] |= dict.fromkeys(here, least)
            if here and least < greatest:
                sought |= {(name, share): (len(parts), rank) for share, rank in here.items()}
                inside = f"name = '{name}' and value between {least} and {greatest}"
                parts.append(f"when {inside} then {len(parts)}")
            below += count
    if sought:
        kept = values.selectExpr(f"case {' '.join(parts)} end as part", "value").where("part is not null")
        upto = "sum(count) over (partition by part order by value) as upto"
        ranked = kept.groupBy("part", "value").count().selectExpr("*", upto)
        exact = "min(value) filter (where part = {} and upto >= {})"
        (row,) = ranked.agg(*(sf.expr(exact.format(*place)) for place in sought.values())).collect()
        for (name, share), value in zip(sought, row, strict=True):
            found[name][share] = value
    return found


def timeline(operations: DataFrame, width_ns: int) -> DataFrame:
    """Count submissions and outcomes by time.

    Returns:
        ``start_ns, submitted, completed, expired, cancelled, failed, closed``, a row for each stretch of ``width_ns``
        that is not empty.
    """
    start = start_of(sf.col("wall_ns"), width_ns).alias("start_ns")
    return steps(operations).groupBy(start).pivot("step", ["submitted", *ENDS]).count().fillna(0)


def by_key(operations: DataFrame, signals: DataFrame) -> DataFrame:
    """Count operations and signals, which have a ``key``; an operation counts under each of its keys.

    Returns:
        ``key, submitted, completed, expired, cancelled, failed, closed, pending, signals``, a row for each key.
    """
    watched = operations.selectExpr("explode(keys) as key", "coalesce(outcome, 'pending') as what")
    both = watched.union(signals.selectExpr("key", "'signals'"))
    counts = both.groupBy("key").pivot("what", [*OUTCOMES, "signals"]).count().fillna(0)
    return counts.select("key", sf.expr(" + ".join(OUTCOMES)).alias("submitted"), *OUTCOMES, "signals")


def by_prefix(keys: DataFrame) -> DataFrame:
    """Sum the rows of `by_key` by prefix, the part before the first ``:`` or ``/``; null without such a sign.

    Returns:
        ``prefix, keys, submitted, completed, expired, cancelled, failed, closed, pending, signals``, a row for each
        prefix; an operation counts once for each of its keys with it.
    """
    prefix = sf.expr("if(key rlike '[:/]', split(key, '[:/]', 2)[0], null) as prefix")
    sums = (sf.sum(name).alias(name) for name in ("submitted", *OUTCOMES, "signals"))
    return keys.groupBy(prefix).agg(sf.count("*").alias("keys"), *sums)
