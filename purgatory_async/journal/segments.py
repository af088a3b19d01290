"""The files of a journal: flat, named ``<run_id>.<node>.<000001>.jsonl``, later ``….parquet``.

A segment is JSON lines while it is written to. When it is full it becomes Parquet: under a name that starts with a
dot, then renamed, then the JSON lines are removed. So while both stand there, the Parquet file is whole and counts.
What starts with ``.`` or ``_`` is never read.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Segment", "list_segments"]

_NAME: Final = re.compile(
    r"(?P<run_id>[^._][^.]*)\.(?P<node>[^.]+)\.(?P<number>\d{6,})\.(?P<format>jsonl|parquet)"
)


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """One file of a journal.

    Attributes:
        run_id: Of the program's start.
        node: Where it ran.
        number: Counts from 1 in each run and node.
        path: The file.
    """

    run_id: str
    node: str
    number: int
    path: Path

    @property
    def live(self) -> bool:
        """Whether it is JSON lines, which may still grow."""
        return self.path.suffix == ".jsonl"

    @property
    def name(self) -> str:
        """What stays the same when it becomes Parquet: the file's name without its ending."""
        return self.path.stem

    @classmethod
    def of(cls, path: Path) -> "Segment | None":
        """The segment that a file is by its name; None for any other file."""
        match = _NAME.fullmatch(path.name)
        if match is None:
            return None
        return cls(match["run_id"], match["node"], int(match["number"]), path)

    @classmethod
    def named(cls, directory: Path, run_id: str, node: str, number: int) -> "Segment":
        """A segment that is JSON lines, whether or not its file is there."""
        return cls(run_id, node, number, directory / f"{run_id}.{node}.{number:06d}.jsonl")

    @property
    def lines(self) -> Path:
        """Its file while it is JSON lines."""
        return self.path.with_suffix(".jsonl")

    @property
    def parquet(self) -> Path:
        """Its file once it is Parquet."""
        return self.path.with_suffix(".parquet")


def list_segments(directory: Path) -> list[Segment]:
    """Find the segments of a journal, each once: as Parquet if it is there in both forms.

    A long directory is listed in several steps. A segment of which the new file came after the step that would have
    shown it, and the old file went before, is in no listing; but then it is in the next one. So there are two.

    Args:
        directory: Of the journal.

    Returns:
        The segments by run, node and number.

    Raises:
        OSError: The directory cannot be read.
    """
    return sorted((_listed(directory) | _listed(directory)).values())


def _listed(directory: Path) -> dict[str, Segment]:
    found = [segment for path in directory.iterdir() if (segment := Segment.of(path)) is not None]
    # Of two with a name the latter stays: the one that is Parquet.
    return {segment.name: segment for segment in sorted(found, key=lambda segment: not segment.live)}
