"""Exact percentiles of any number of values, by narrowing down where each lies.

A percentile is the value at a rank. A histogram tells in which of its steps a rank lies; a pass over the values counts
them in each of some ten thousand equal ranges of that step; then it is known in which range the rank lies, and the next
pass counts inside of that. After one or two passes a range is one value. Nothing is sorted, and what comes back from a
pass is small.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from purgatory_async.pipeline.kernels.ranges import COUNTED, RANGES, counting
from purgatory_async.pipeline.schemas import spark_schema

__all__ = ["nearest_ranks"]


@dataclass(frozen=True, slots=True)
class _Sought:
    """A rank whose value is somewhere in `RANGES` ranges from ``low`` on; ``rank`` counts from 1 in there.

    A width of 0 says that ``low`` is the value.
    """

    name: str
    share: int
    rank: int
    low: int
    width: int


def nearest_ranks(
    values: DataFrame, steps: Mapping[str, Sequence[tuple[int, int, int]]], shares: Sequence[int]
) -> dict[str, dict[int, int]]:
    """Find percentiles by nearest rank: the smallest value that at least so many of a hundred do not exceed.

    Args:
        values: ``name string, value long``: several sets of values, told apart by name.
        steps: Of each set a histogram, ascending: how many values are in a step, the least and the greatest.
        shares: In hundredths, from 1 to 100.

    Returns:
        For each set and share the value.

    O(values) for each 14 bits by which the extremes of a step differ.
    """
    sought = [_first(name, share, counts) for name, counts in steps.items() for share in shares]
    found: dict[str, dict[int, int]] = {name: {} for name in steps}
    while sought:
        for each in sought:
            if each.width == 0:
                found[each.name][each.share] = each.low
        sought = [each for each in sought if each.width]
        if sought:
            sought = _narrowed(values, sought)
    return found


def _first(name: str, share: int, steps: Sequence[tuple[int, int, int]]) -> _Sought:
    rank = -(-share * sum(count for count, _, _ in steps) // 100)
    for count, least, greatest in steps:
        if rank <= count:
            return _Sought(name, share, rank, least, _width(greatest - least + 1) if greatest > least else 0)
        rank -= count
    raise AssertionError(f"the steps of {name} are fewer by {rank} than they are")


def _width(span: int) -> int:
    return -(-span // RANGES)


def _narrowed(values: DataFrame, sought: Iterable[_Sought]) -> list[_Sought]:
    """Look in which of its ranges each lies."""
    counts: dict[tuple[str, int, int], list[tuple[int, int]]] = {}
    grids = sorted({(each.name, each.low, each.width) for each in sought})
    # Which the workers could do as well, but only few values are in any grid, and the rest need not go there.
    inside = reduce(or_, (_inside(*grid) for grid in grids))
    cells = values.where(inside).mapInArrow(counting(grids), spark_schema(COUNTED))
    cells = cells.groupBy("name", "low", "width", "cell").agg(sf.sum("count").alias("count"))
    for row in cells.collect():
        counts.setdefault((row["name"], row["low"], row["width"]), []).append((row["cell"], row["count"]))
    return [_cell(each, sorted(counts[each.name, each.low, each.width])) for each in sought]


def _inside(name: str, low: int, width: int) -> Column:
    value = sf.col("value")
    return (sf.col("name") == name) & (value >= low) & (value < low + width * RANGES)


def _cell(sought: _Sought, counts: Iterable[tuple[int, int]]) -> _Sought:
    rank = sought.rank
    for cell, count in counts:
        if rank <= count:
            low = sought.low + cell * sought.width
            width = 0 if sought.width == 1 else _width(sought.width)
            return replace(sought, rank=rank, low=low, width=width)
        rank -= count
    raise AssertionError(f"there are fewer than {sought.rank} values of {sought.name} from {sought.low} on")
