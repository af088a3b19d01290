"""Finds missing records before the first and after the last record of a node.

``seq`` begins with 1, so if the first segment of a node exists, the numbers before its first record are missing. Each
damaged line had a number, so those after the last record of a node are missing, too.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from purgatory_async.journal.segments import Segment
from purgatory_async.pipeline.sources.extent import Extent

__all__ = ["Edges", "find_edges"]


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
    ends: dict[tuple[str, str, int], tuple[Path, int]] = {}
    for segment, end in _segments(extent):
        node = (segment.run_id, segment.node)
        numbers.setdefault(node, []).append(segment.number)
        if end is not None:
            place = (*node, segment.number)
            ends[place] = max(ends.get(place, (segment.path, 0)), (segment.path, end))
    edges = {}
    for node, known in numbers.items():
        last = ends.get((*node, max(known)))
        after = 0 if last is None else _damaged_end(*last, damage.get(last[0].name, ()))
        edges[node] = Edges(min(known) == 1, after)
    return edges


def _segments(extent: Extent) -> list[tuple[Segment, int | None]]:
    found: list[tuple[Segment | None, int | None]] = [
        (Segment.of(piece.lines), None if piece.end is None else piece.end.offset) for piece in extent.pieces
    ]
    found += [(Segment.of(path), None) for paths in extent.parquet.values() for path in paths]
    return [(segment, end) for segment, end in found if segment is not None]


def _damaged_end(path: Path, end: int, offsets: Collection[int]) -> int:
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
