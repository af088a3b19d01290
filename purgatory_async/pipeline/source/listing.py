"""Lists the segments of a journal, wherever it is."""

from pathlib import Path

from purgatory_async.journal.segments import Segment, list_segments, segments_among
from purgatory_async.pipeline.locations import Location

__all__ = ["segments_in"]


def segments_in(directory: Location) -> list[Segment]:
    """List the segments of a journal by run, node and number; those of a store without its name.

    Raises:
        OSError: The directory cannot be read.
    """
    if isinstance(directory, Path):
        return list_segments(directory)
    return sorted(segments_among(Path(entry.name) for entry in directory.iterdir()).values())
