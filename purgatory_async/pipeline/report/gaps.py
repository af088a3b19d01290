"""Finds the records that a journal lost, by the gaps in their numbers.

Sorting all numbers of a node would sort the whole journal. So each reader of a part reports ranges without gaps, which
are few, and only those are sorted. ``seq`` begins with 1, so if the first segment of a node exists, the numbers before
its first record are missing. Each damaged line had a number, so those after the last record of a node are missing, too.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from pyspark.sql import DataFrame

from purgatory_async.journal.segments import Segment
from purgatory_async.pipeline.locations import Location
from purgatory_async.pipeline.source.extent import Extent


def missing(covered: DataFrame) -> DataFrame:
    """Find the missing numbers between the first and the last record of each run and node.

    Takes what `cover` found in all parts of a journal. Returns ``run_id, node, first, last``, a row for each maximal
    missing range.
    """
    # The greatest so far, because ranges nest where a number exists twice.
    before = """max(last_seq) over (partition by run_id, node order by first_seq
                rows between unbounded preceding and 1 preceding) as before"""
    ranges = covered.where("first_seq is not null").selectExpr("run_id", "node", "first_seq", before)
    gaps = ranges.where("first_seq > before + 1")
    return gaps.selectExpr("run_id", "node", "before + 1 as first", "first_seq - 1 as last")


@dataclass(frozen=True, slots=True)
class Edges:
    """The edges of one run and node."""

    from_start: bool  # whether its first segment exists
    damaged_after: int  # the number of damaged lines after its last record


def find_edges(extent: Extent, damage: Mapping[str, Collection[int]]) -> dict[tuple[str, str], Edges]:
    """Find the edges by run and node, given the offsets of damaged lines by file; a deleted one counts as undamaged."""
    files = [(piece.lines, 0 if piece.end is None else piece.end.offset) for piece in extent.pieces]
    files += [(path, 0) for paths in extent.parquet.values() for path in paths]
    named = [(Segment.of(Path(path.name)), end, path) for path, end in files]
    segments = [(segment, end, path) for segment, end, path in named if segment is not None]
    segments.sort(key=lambda each: each[:2])
    edges = {}
    for node, found in groupby(segments, key=lambda each: (each[0].run_id, each[0].node)):
        own = list(found)
        (first, _, _), (_, end, path) = own[0], own[-1]
        offsets = damage.get(path.name)
        edges[node] = Edges(first.number == 1, _damaged_end(path, end, offsets) if offsets else 0)
    return edges


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
