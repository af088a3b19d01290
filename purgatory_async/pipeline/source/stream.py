"""Follows a growing journal: a stream's progress, as a position in each segment, and its reader.

Files grow, are renamed when they become Parquet, and are deleted; run, node and number in their names stay. A node's
segments are read in the order of their numbers, so a stream has always read all of a node up to some ``seq``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from purgatory_async.journal.lines import Damage
from purgatory_async.journal.segments import Segment
from purgatory_async.pipeline.locations import Location
from purgatory_async.pipeline.source.extent import (
    START,
    Piece,
    Position,
    SegmentGone,
    damage_rows,
    divide,
    last_position,
    read_table,
)
from purgatory_async.pipeline.source.listing import segments_in
from purgatory_async.pipeline.source.parquet import holds_after

__all__ = [
    "JournalStreamReader",
    "Offset",
    "advance",
    "available",
    "decode_offset",
    "encode_offset",
    "pieces_between",
]

Place = tuple[str, str, int]
"""A segment by its run, node and number."""

Offset = dict[Place, Position | None]
"""How far each segment has been read; None for all of a Parquet file."""

_NEW: Final = object()


def available(directory: Location, start: Mapping[Place, Position | None]) -> Offset:
    """Find the newest readable offset. Reads the ends of files that may have grown.

    Args:
        directory: Of the journal.
        start: The progress so far.

    Returns:
        The segments with new records, and those that became Parquet without any.

    Raises:
        OSError: The directory or a file cannot be read.
    """
    found: Offset = {}
    for segment in segments_in(directory):
        place = (segment.run_id, segment.node, segment.number)
        since = start.get(place, START)
        if since is not None and (end := _end(directory, segment, since)) != since:
            found[place] = end
    return found


def _end(directory: Location, segment: Segment, since: Position) -> Position | None:
    if segment.live:
        try:
            return last_position(directory / segment.lines.name, since)
        except FileNotFoundError:
            if not (directory / segment.parquet.name).exists():
                return since  # deleted
    return None


def advance(
    directory: Location,
    start: Offset,
    target: Mapping[Place, Position | None],
    *,
    files: int | None,
    turn: int,
) -> Offset:
    """Choose the end of the next batch.

    Args:
        directory: Of the journal.
        start: The progress so far.
        target: The newest readable offset.
        files: Most segments to read; None for all.
        turn: The node to start with; counting it up prevents starvation.

    Returns:
        The end of the batch; equal to ``start`` if there is nothing to read.

    Raises:
        OSError: A file cannot be read.
    """
    ahead = [
        (place, end) for place, end in sorted(target.items(), key=_place) if start.get(place, _NEW) != end
    ]
    full = [(place, end) for place, end in ahead if _has_news(directory, place, start.get(place, START), end)]
    taken = dict(islice(_in_turns(full, turn), files))
    if not taken:
        return start
    waiting = {place for place, _ in full}
    done = {place: end for place, end in ahead if end is None and place not in waiting}
    return start | done | taken


def _place(item: tuple[Place, Position | None]) -> Place:
    return item[0]


def _has_news(directory: Location, place: Place, since: Position | None, end: Position | None) -> bool:
    """Whether a segment has records between two positions, in whichever form it now exists."""
    if since is None:
        return False
    if end is not None:
        return end.offset > since.offset
    try:
        return since == START or holds_after(directory / _segment(place).parquet.name, since.seq)
    except FileNotFoundError:
        return True  # so that the reader finds it deleted, and reports that


def _in_turns(
    items: Iterable[tuple[Place, Position | None]], turn: int
) -> Iterator[tuple[Place, Position | None]]:
    """The nodes' segments in rotation, each node's own in order."""
    nodes: dict[tuple[str, str], list[tuple[Place, Position | None]]] = {}
    for item in items:
        nodes.setdefault(item[0][:2], []).append(item)
    queues = list(nodes.values())
    first = turn % max(1, len(queues))
    rounds = zip_longest(*queues[first:], *queues[:first])
    return (item for item in chain.from_iterable(rounds) if item is not None)


def pieces_between(directory: Location, start: Offset, end: Offset) -> Iterator[Piece]:
    """Plan the pieces of a batch; it yields the same records each time, even if files became Parquet.

    Args:
        directory: Of the journal.
        start: Of the batch.
        end: Of the batch.

    Yields:
        Pieces without common records.

    Raises:
        OSError: A file cannot be read.
    """
    for place, until in sorted(end.items(), key=_place):
        since = start.get(place, START)
        if since is None or until == since:
            continue
        piece = Piece(str(directory), _segment(place).name, since, until)
        try:
            yield from divide(piece) if until is not None else (piece,)
        except FileNotFoundError:
            yield piece


def _segment(place: Place) -> Segment:
    return Segment.named(Path(), *place)


def encode_offset(offset: Mapping[Place, Position | None]) -> dict[str, Any]:
    """Encode an offset for Spark; its length does not grow with the number of finished segments.

    >>> encode_offset({("run", "node", 1): None, ("run", "node", 2): None, ("run", "node", 3): Position(80, 7)})
    {'run.node': {'done': '1-2', 'live': {'3': {'offset': 80, 'seq': 7}}}}
    """
    text: dict[str, Any] = {}
    for (run_id, node, number), position in sorted(offset.items(), key=_place):
        entry = text.setdefault(f"{run_id}.{node}", {"done": "", "live": {}})
        if position is None:
            entry["done"] = _with_number(entry["done"], number)
        else:
            entry["live"][str(number)] = {"offset": position.offset, "seq": position.seq}
    return text


def _with_number(ranges: str, number: int) -> str:
    before, _, last = ranges.rpartition(",")
    first, _, end = last.partition("-")
    if ranges and int(end or first) == number - 1:
        return f"{before}{',' if before else ''}{first}-{number}"
    return f"{ranges}{',' if ranges else ''}{number}"


def decode_offset(text: Mapping[str, Any]) -> Offset:
    """Decode the result of `encode_offset`.

    >>> offset = {("run", "node", n): None for n in (1, 2, 4)} | {("run", "node", 3): Position(80, 7)}
    >>> decode_offset(encode_offset(offset)) == offset
    True
    """
    offset: Offset = {}
    for name, entry in text.items():
        run_id, _, node = name.partition(".")
        for numbers in filter(None, entry["done"].split(",")):
            first, _, last = numbers.partition("-")
            offset |= dict.fromkeys((run_id, node, n) for n in range(int(first), int(last or first) + 1))
        for number, position in entry["live"].items():
            offset[run_id, node, int(number)] = Position(**position)
    return offset


class JournalStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a growing journal, with the offsets of `encode_offset`.

    Spark keeps it in a separate process while a query runs.

    Args:
        table: One of `purgatory_async.pipeline.source.tables`.
        directory: Of the journal.
        files: Most segments that a batch reads; None for all.
    """

    def __init__(self, table: str, directory: Location, files: int | None) -> None:
        self._table = table
        self._directory = directory
        self._files = files
        self._turn = 0
        self._target: Offset | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - the interface's
        """The offset before the first batch."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - the interface's
        """The limit of segments in a batch."""
        return ReadAllAvailable() if self._files is None else ReadMaxFiles(self._files)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - the interface's
        """Ignore everything written from now on.

        Raises:
            OSError: The journal cannot be read.
        """
        self._target = available(self._directory, {})

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Choose the end of the next batch; ``start`` if nothing is new.

        Raises:
            OSError: The journal cannot be read.
        """
        begin = decode_offset(start)
        target = available(self._directory, begin) if self._target is None else self._target
        files = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        self._turn += 1
        end = advance(self._directory, begin, target, files=files, turn=self._turn)
        return start if end == begin else encode_offset(end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One for each piece between two offsets.

        Raises:
            OSError: The journal cannot be read.
        """
        pieces = pieces_between(self._directory, decode_offset(start), decode_offset(end))
        return [InputPartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a piece; a stream skips a segment that was deleted too early, and reports it as damage.

        Raises:
            OSError: Its segment cannot be read.
        """
        piece: Piece = partition.value
        try:
            yield from read_table(piece, self._table)
        except SegmentGone as error:
            if self._table != "records":
                yield from damage_rows(piece, [Damage(piece.begin.offset, str(error))], self._table)
