"""Follows a growing journal: a stream's progress, as a position in each segment, and its reader.

Files grow, are renamed when they become Parquet, and are deleted; run, node and number in their names stay. A node's
segments are read in the order of their numbers, so a stream has always read all of a node up to some ``seq``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, islice, zip_longest
from pathlib import Path
from typing import Any

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
    segments_in,
)
from purgatory_async.pipeline.source.parquet import holds_after

Place = tuple[str, str, int]
"""A segment by its run, node and number."""

Offset = dict[Place, Position | None]
"""How far each segment has been read; None for all of a Parquet file."""


def _available(directory: Location, start: Mapping[Place, Position | None]) -> Offset:
    """The newest position of each segment that has new records, or that became Parquet without any."""
    found: Offset = {}
    for segment in segments_in(directory):
        place = (segment.run_id, segment.node, segment.number)
        since = start.get(place, START)
        if since is not None and (end := _end(Piece(directory, segment.name, since), segment.live)) != since:
            found[place] = end
    return found


def _end(piece: Piece, live: bool) -> Position | None:
    if live:
        try:
            return last_position(piece.lines, piece.begin)
        except FileNotFoundError:
            if not piece.parquet.exists():
                return piece.begin  # deleted
    return None


def _between(directory: Location, start: Offset, end: Offset) -> Iterator[tuple[Place, Piece]]:
    for place, until in sorted(end.items()):
        since = start.get(place, START)
        if since is not None and until != since:
            yield place, Piece(directory, Segment.named(Path(), *place).name, since, until)


def _has_news(piece: Piece) -> bool:
    """Whether a piece has records, in whichever form its segment now exists."""
    if piece.end is not None:
        return piece.end.offset > piece.begin.offset
    try:
        return piece.begin == START or holds_after(piece.parquet, piece.begin.seq)
    except FileNotFoundError:
        return True  # so that the reader finds it deleted, and reports that


def _in_turns(places: Iterable[Place], turn: int) -> Iterator[Place]:
    """The nodes' segments in rotation, each node's own in order, beginning with another node each turn."""
    queues = [list(own) for _, own in groupby(places, lambda place: place[:2])]
    first = turn % max(1, len(queues))
    rounds = zip_longest(*queues[first:], *queues[:first])
    return (place for place in chain.from_iterable(rounds) if place is not None)


def encode_offset(offset: Mapping[Place, Position | None]) -> dict[str, Any]:
    """Encode an offset for Spark; its length does not grow with the number of finished segments.

    >>> encode_offset({("run", "node", 1): None, ("run", "node", 2): None, ("run", "node", 3): Position(80, 7)})
    {'run.node': {'done': '1-2', 'live': {'3': {'offset': 80, 'seq': 7}}}}
    """
    text: dict[str, Any] = {}
    for (run_id, node, number), position in sorted(offset.items()):
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
    """Reads one of `TABLES` from a growing journal, with the offsets of `encode_offset`.

    Spark keeps it in a separate process while a query runs. A batch reads at most ``files`` segments; None for all.
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
        self._target = _available(self._directory, {})

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Choose the end of the next batch; ``start`` if nothing is new.

        Raises:
            OSError: The journal cannot be read.
        """
        begin = decode_offset(start)
        target = _available(self._directory, begin) if self._target is None else self._target
        ahead = dict(_between(self._directory, begin, target))
        full = [place for place, piece in ahead.items() if _has_news(piece)]
        self._turn += 1  # or one busy node could keep all others waiting
        files = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        taken = {place: target[place] for place in islice(_in_turns(full, self._turn), files)}
        if not taken:
            return start
        # A segment that became Parquet without news makes no batch, and goes with the next one.
        done = {place: None for place in ahead.keys() - full if target[place] is None}
        return encode_offset(begin | done | taken)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One for each piece between two offsets: the same records each time, even if files became Parquet.

        Raises:
            OSError: The journal cannot be read.
        """
        found: list[Piece] = []
        for _, piece in _between(self._directory, decode_offset(start), decode_offset(end)):
            try:
                found += divide(piece) if piece.end is not None else (piece,)
            except FileNotFoundError:
                found.append(piece)
        return [InputPartition(piece) for piece in found]

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
