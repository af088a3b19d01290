"""How old the segments of a journal are: when the newest record of each was written, by its own wall time.

The last line of JSON lines tells, and the footer of a Parquet file, which a separate process reads. What has no
readable record is as old as the segment after it, or as the start of the next run, which is in that run's name.
"""

import datetime as dt
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import IO, Final

from purgatory_async.journal.segments import RUN_FORMAT, Segment, has_pyarrow, list_segments, start_module
from purgatory_async.journal.tail import last_record

__all__ = ["Ages"]

_NS: Final = 1_000_000_000


class Ages:
    """The newest record of each segment that no longer grows. One thread uses it at a time.

    Args:
        directory: The journal's.
        run_id: The id of the run that writes there.
        now_ns: Returns the present on the clock of the records' ``wall_ns``.
        on_trouble: Called with one sentence when Parquet files cannot be read.
    """

    def __init__(
        self, directory: Path, run_id: str, now_ns: Callable[[], int], on_trouble: Callable[[str], None]
    ) -> None:
        self._directory: Final = directory
        self._run_id: Final = run_id
        self._now_ns: Final = now_ns
        self._on_trouble: Final = on_trouble
        self._newest: dict[str, int | None] = {}  # by the segment's name; None if it has no readable record
        self._asked: tuple[subprocess.Popen[str], IO[str]] | None = None

    @property
    def busy(self) -> bool:
        """Whether a process reads some."""
        return self._asked is not None

    def note(self, segment: Segment) -> None:
        """Note JSON lines that no longer grow, before they become Parquet. O(a line)."""
        try:
            with segment.lines.open("rb") as file:
                _, record = last_record(file, file.seek(0, os.SEEK_END))
        except FileNotFoundError:
            return  # they are Parquet, or removed
        except OSError:
            record = None
        self._newest[segment.name] = None if record is None else record.wall_ns

    def learn(self, segments: Sequence[Segment]) -> bool:
        """Read the newest records of some segments, forget others; returns False while a process reads them.

        Raises:
            OSError: No process can be made.
        """
        if self._asked is not None and not self._answered(*self._asked):
            return False
        self._newest = {each.name: self._newest[each.name] for each in segments if each.name in self._newest}
        for segment in segments:
            if segment.live and segment.name not in self._newest:
                self.note(segment)
        unknown = [segment.name for segment in segments if segment.name not in self._newest]
        if not unknown:
            return True
        if not has_pyarrow():
            self._take_as_new(unknown, "pyarrow is not installed")
            return True
        answer = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it outlives this call; a pipe could be too short
        self._asked = start_module("newest", self._directory, stdout=answer), answer
        return False

    def _answered(self, process: "subprocess.Popen[str]", answer: IO[str]) -> bool:
        """Take the process's answer if it has ended."""
        if process.poll() is None:
            return False
        self._asked = None
        _, said = process.communicate()
        found: dict[str, int | None] | None = None
        with answer, suppress(ValueError):
            answer.seek(0)
            found = None if process.returncode else json.load(answer)
        self._newest = (found or {}) | self._newest
        if found is None:
            names = [each.name for each in list_segments(self._directory) if not each.live]
            self._take_as_new([name for name in names if name not in self._newest], said.strip())
        return True

    def _take_as_new(self, names: Sequence[str], why: str) -> None:
        self._newest |= dict.fromkeys(names, self._now_ns())
        self._on_trouble(
            f"the journal takes {len(names)} Parquet segments in {self._directory} as new: it cannot tell how old they "
            f"are: {why}"
        )

    def of(self, segments: Iterable[Segment]) -> Iterator[tuple[Segment, int]]:
        """Yield each segment with a time not before its newest record, in their order.

        Args:
            segments: Sorted, and known by `learn`.
        """
        own = list(segments)
        ends = self._ends({segment.run_id for segment in own})
        for (run_id, _), group in groupby(own, key=lambda segment: (segment.run_id, segment.node)):
            newest, found = ends[run_id], []
            for segment in reversed(list(group)):
                known = self._newest.get(segment.name)
                newest = newest if known is None else known
                found.append((segment, newest))
            yield from reversed(found)

    def _ends(self, runs: Iterable[str]) -> dict[str, int]:
        """A time by which each run had ended: the start of the next, for one process at a time writes there."""
        later, ends = self._now_ns(), {}
        for run_id in sorted({*runs, self._run_id}, reverse=True):
            begun = _start_ns(run_id)
            ends[run_id] = self._now_ns() if begun is None else later
            later = later if begun is None else begun
        return ends

    def close(self) -> None:
        """End the process, if one still runs."""
        if self._asked is not None:
            process, answer = self._asked
            process.kill()
            process.communicate()
            answer.close()
            self._asked = None


def _start_ns(run_id: str) -> int | None:
    """When a run started, by its name; None for a name that another program gave."""
    try:
        begun = dt.datetime.strptime(run_id.partition("-")[0], RUN_FORMAT).replace(tzinfo=dt.UTC)
    except ValueError:
        return None
    return int(begun.timestamp()) * _NS
