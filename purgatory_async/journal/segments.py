"""The files of a journal: flat, named ``<run_id>.<node>.<000001>.jsonl``, later ``….parquet``.

A segment is JSON lines while it grows. A full one becomes Parquet: written under a name that starts with a dot, then
renamed; then the JSON lines are removed. So while both exist, the Parquet file is complete and counts. Names that
start with ``.`` or ``_`` are never read.
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
    """One file of a journal; ``number`` counts from 1 in each run and node."""

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
        """The file's name without its ending; it stays the same in Parquet."""
        return self.path.stem

    @classmethod
    def of(cls, path: Path) -> "Segment | None":
        """The segment that a path names; None for any other file."""
        match = _NAME.fullmatch(path.name)
        if match is None:
            return None
        return cls(match["run_id"], match["node"], int(match["number"]), path)

    @classmethod
    def named(cls, directory: Path, run_id: str, node: str, number: int) -> "Segment":
        """A segment of JSON lines, whether or not its file exists."""
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
    """List the segments of a journal by run, node and number; one that exists in both forms counts as Parquet.

    The kernel lists a long directory in several steps, and can miss a segment that is renamed between two of them.
    The next listing has it, so this takes two.

    Raises:
        OSError: The directory cannot be read.
    """
    return sorted((_listed(directory) | _listed(directory)).values())


def _listed(directory: Path) -> dict[str, Segment]:
    found = [segment for path in directory.iterdir() if (segment := Segment.of(path)) is not None]
    # Of two segments with one name the latter stays: Parquet.
    return {segment.name: segment for segment in sorted(found, key=lambda segment: not segment.live)}
