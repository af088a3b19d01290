"""Rows of a journal's tables, one piece at a time."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

import pyarrow as pa

from purgatory_async.journal.columns import arrow_schema
from purgatory_async.journal.lines import Damage
from purgatory_async.pipeline.sources.pieces import Piece, damage_in, everything_in, records_in

__all__ = ["DAMAGE_COLUMNS", "damage_rows", "read_table"]

DAMAGE_COLUMNS: Final = pa.schema([("file", pa.string()), ("offset", pa.int64()), ("reason", pa.string())])
"""The columns of damage: a line that is not a record."""

_SCHEMAS: Final = {"damage": DAMAGE_COLUMNS, "all": pa.schema([*arrow_schema(), *DAMAGE_COLUMNS])}


def read_table(piece: Piece, table: str) -> Iterator[pa.RecordBatch]:
    """Read a piece.

    Args:
        piece: Of a journal.
        table: ``records``, ``damage``, or ``all`` for the columns of both, one of them null in each row.

    Raises:
        SegmentGone: Its segment was deleted.
        OSError: Its segment cannot be read.
    """
    if table == "records":
        yield from records_in(piece)
    elif table == "damage":
        yield from damage_rows(piece, list(damage_in(piece)), table)
    else:
        for kind, found in groupby(everything_in(piece), type):
            if kind is Damage:
                yield from damage_rows(piece, list(found), table)
            else:
                yield from (_without_damage(batch) for batch in found)


def _without_damage(records: pa.RecordBatch) -> pa.RecordBatch:
    nothing = [pa.nulls(records.num_rows, field.type) for field in DAMAGE_COLUMNS]
    return pa.RecordBatch.from_arrays([*records.columns, *nothing], schema=_SCHEMAS["all"])


def damage_rows(piece: Piece, damage: Sequence[Damage], table: str) -> Iterator[pa.RecordBatch]:
    """Convert a piece's damage to one batch, or to none without damage; in ``all``, records' columns are null."""
    if damage:
        columns = {
            "file": [piece.lines.name] * len(damage),
            "offset": [found.offset for found in damage],
            "reason": [found.reason for found in damage],
        }
        nothing = [None] * len(damage)
        schema = _SCHEMAS[table]
        arrays = [pa.array(columns.get(field.name, nothing), field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
