"""Exact percentiles of any number of values, by narrowing the range of each.

A percentile is the value at a rank. A histogram gives the step in which a rank lies. A pass over the values counts them
in each of about ten thousand equal ranges of that step, which gives the range of the rank; the next pass counts inside
that range. After one or two passes a range is one value. Nothing is sorted, and each pass returns little.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

__all__ = ["nearest_ranks"]

RANGES: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class _Sought:
    """A rank, counted from 1, within `RANGES` ranges from ``low`` on; with a width of 0, ``low`` is the value."""

    name: str
    share: int
    rank: int
    low: int
    width: int


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
    raise AssertionError(f"the histogram of {name} is short by {rank} values")


def _width(span: int) -> int:
    return -(-span // RANGES)


def _narrowed(values: DataFrame, sought: Iterable[_Sought]) -> list[_Sought]:
    """Find the range of each rank."""
    grids = sorted({(each.name, each.low, each.width) for each in sought})
    cells = sf.array(
        *(sf.when(_inside(*grid), _place(number, *grid[1:])) for number, grid in enumerate(grids))
    )
    # Few values are in any grid, so those are filtered first.
    inside = values.where(reduce(or_, (_inside(*grid) for grid in grids)))
    found = (
        inside.select(sf.explode(sf.array_compact(cells)).alias("at")).groupBy("at.grid", "at.cell").count()
    )
    counts: dict[tuple[str, int, int], list[tuple[int, int]]] = {grid: [] for grid in grids}
    for row in found.collect():
        counts[grids[row["grid"]]].append((row["cell"], row["count"]))
    return [_cell(each, sorted(counts[each.name, each.low, each.width])) for each in sought]


def _place(number: int, low: int, width: int) -> Column:
    """The number of a value's grid, and that of its range: a whole division, as ``width_bucket`` rounds to doubles."""
    return sf.struct(sf.lit(number).alias("grid"), sf.expr(f"(value - ({low})) div {width}").alias("cell"))


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
    raise AssertionError(f"{sought.name} has fewer than {sought.rank} values from {sought.low} on")
