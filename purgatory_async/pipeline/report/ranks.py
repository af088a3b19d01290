"""Exact percentiles of any number of values: a histogram tells which few of them must be sorted."""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

__all__ = ["nearest_ranks"]


def nearest_ranks(
    values: DataFrame, steps: Mapping[str, Sequence[tuple[int, int, int]]], shares: Sequence[int]
) -> dict[str, dict[int, int]]:
    """Find percentiles by nearest rank: the smallest value that at least ``share`` percent do not exceed.

    Args:
        values: ``name string, value long``: several sets of values, distinguished by name.
        steps: An ascending histogram of each set: the count, least and greatest value of each step.
        shares: In percent, from 1 to 100.

    Returns:
        The value for each set and share.

    One pass over the values; those in a step with a percentile are sorted.
    """
    found: dict[str, dict[int, int]] = {name: {} for name in steps}
    sorted_steps: list[Column] = []
    sought: list[tuple[str, int, int]] = []  # set, share, rank among its sorted values
    for name, counts in steps.items():
        total = sum(count for count, _, _ in counts)
        ranks = {share: -(-share * total // 100) for share in shares}
        below = skipped = 0
        for count, least, greatest in counts:
            here = [share for share, rank in ranks.items() if below < rank <= below + count]
            below += count
            if here and least < greatest:
                sorted_steps.append((sf.col("name") == name) & sf.col("value").between(least, greatest))
                sought += [(name, share, ranks[share] - skipped) for share in here]
            else:
                found[name] |= dict.fromkeys(here, least)
                skipped += count
    if sought:
        kept = values.where(reduce(or_, sorted_steps)).groupBy("name", "value").count()
        upto = sf.sum("count").over(Window.partitionBy("name").orderBy("value")).alias("upto")
        ranked = kept.select("name", "value", upto, "count").where(
            reduce(or_, (_is_at(name, rank) for name, _, rank in sought))
        )
        rows = ranked.collect()
        for name, share, rank in sought:
            found[name][share] = next(
                row.value for row in rows if row.name == name and row.upto - row["count"] < rank <= row.upto
            )
    return found


def _is_at(name: str, rank: int) -> Column:
    upto = sf.col("upto")
    return (sf.col("name") == name) & (upto >= rank) & (upto - sf.col("count") < rank)
