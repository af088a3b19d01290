"""Finds the records that a journal lost, by the gaps in their numbers.

Sorting all numbers of a node would sort the whole journal. So each reader of a part reports ranges without gaps, which
are few, and only those are sorted. ``seq`` begins with 1, so if the first segment of a node exists, the numbers before
its first record are missing. Each damaged line had a number, so those after the last record of a node are missing, too.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from purgatory_async.journal.segments import Segment
from purgatory_async.pipeline.locations import Location
from purgatory_async.pipeline.source.extent import Extent

__all__ = ["Edges", "find_edges", "missing"]


def missing(covered: DataFrame) -> DataFrame:
    """Find the missing numbers between the first and the last record of each run and node.

    Args:
        covered: From `purgatory_async.pipeline.operations.coverage.cover`, of all parts of a journal.

    Returns:
        ``run_id, node, first, last``, a row for each maximal missing range.
    """
    ranges = covered.where(sf.col("first_seq").isNotNull())
    earlier = (
        Window.partitionBy("run_id", "node").orderBy("first_seq").rowsBetween(Window.unboundedPreceding, -1)
    )
    # The greatest so far, because ranges nest where a number exists twice.
    before = sf.max("last_seq").over(earlier)
    return (
        ranges.withColumn("before", before)
        .where(sf.col("first_seq") > sf.col("before") + 1)
        .select(
            "run_id", "node", (sf.col("before") + 1).alias("first"), (sf.col("first_seq") - 1).alias("last")
        )
    )


@dataclass(frozen=True, slots=True)
class Edges:
    """The edges of one run and node.

    Attributes:
        from_start: Whether its first segment exists.
        damaged_after: The number of damaged lines after its last record.
    """

    from_start: bool
    damaged_after: int


def find_edges(extent: Extent, damage: Mapping[str, Collection[int]]) -> dict[tuple[str, str], Edges]:
    """Read the first and the last segment of each run and node.

    Args:
        extent: The part of the journal that is read.
        damage: The offsets of damaged lines, by file name.

    Returns:
        The edges by run and node; a deleted file counts as undamaged.
    """
    numbers: dict[tuple[str, str], list[int]] = {}
    ends: dict[tuple[str, str, int], tuple[Location, int]] = {}
    for segment, path, end in _segments(extent):
        node = (segment.run_id, segment.node)
        numbers.setdefault(node, []).append(segment.number)
        if end is not None:
            place = (*node, segment.number)
            ends[place] = max(ends.get(place, (path, 0)), (path, end))
    edges = {}
    for node, known in numbers.items():
        last = ends.get((*node, max(known)))
        after = 0 if last is None else _damaged_end(*last, damage.get(last[0].name, ()))
        edges[node] = Edges(min(known) == 1, after)
    return edges


def _segments(extent: Extent) -> list[tuple[Segment, Location, int | None]]:
    found: list[tuple[Location, int | None]] = [
        (piece.lines, None if piece.end is None else piece.end.offset) for piece in extent.pieces
    ]
    found += [(path, None) for paths in extent.parquet.values() for path in paths]
    named = ((Segment.of(Path(path.name)), path, end) for path, end in found)
    return [(segment, path, end) for segment, path, end in named if segment is not None]


def _damaged_end(path: Location, end: int, offsets: Collection[int]) -> int:
    """The number of consecutive damaged lines before ``end``."""
    count = 0
    try:
        with path.open("rb") as file:
            for offset in sorted(offsets, reverse=True):
                file.seek(offset)
                if file.read(end - offset).count(b"\n") != 1:
                    break
                end = offset
                count += 1
    except FileNotFoundError:
        return 0
    return count
