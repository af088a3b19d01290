"""Prints when the newest record of each Parquet segment was written, as JSON: nanoseconds by the segment's name.

Their footers tell. It runs in a separate process, because reading them takes pyarrow, whose import alone would stall
the event loop. A damaged segment, and one without records, has null.

    python -m purgatory_async.journal.newest DIRECTORY
"""

import json
import sys
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from purgatory_async.journal.columns import check_checksum
from purgatory_async.journal.segments import list_segments

__all__ = ["newest_ns"]

_COLUMN: Final = "wall_ns"


def newest_ns(path: Path) -> int | None:
    """Return the greatest ``wall_ns`` of a Parquet file; None if it is damaged or has no record. O(its length)."""
    try:
        check_checksum(path)
        with pq.ParquetFile(path) as file:
            return _from_footer(file.metadata) or max(file.read([_COLUMN])[_COLUMN].to_pylist(), default=None)
    except (ValueError, KeyError, OSError, pa.ArrowException):
        return None


def _from_footer(footer: pq.FileMetaData) -> int | None:
    """The greatest value in the statistics; None if the writer left some out, or there is no record."""
    names = [footer.schema.column(number).path for number in range(footer.num_columns)]
    groups = [
        footer.row_group(number).column(names.index(_COLUMN)).statistics
        for number in range(footer.num_row_groups)
    ]
    known = [group.max for group in groups if group is not None and group.has_min_max]
    return max(known, default=None) if len(known) == len(groups) else None


def main(arguments: list[str]) -> int:
    """Print it for the segments of a directory; returns the exit code."""
    (directory,) = arguments
    found = {
        segment.name: newest_ns(segment.path)
        for segment in list_segments(Path(directory))
        if not segment.live
    }
    sys.stdout.write(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
