"""Runs the processes that turn segments into Parquet, one at a time.

One thread uses it at a time: the opening thread, then the writer thread, then the closing thread.
"""

import importlib.util
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from purgatory_async.journal.segments import Segment

__all__ = ["Sealer"]

LAST_SECONDS: Final = 10.0
# The process imports this package, installed or not, and (-P) nothing from the working directory, which may hold a
# hostile pyarrow.py.
_ROOT: Final = str(Path(__file__).parents[2])


class Sealer:
    """Queue segments and seal each in a process; `on_trouble` gets one sentence for each failure."""

    def __init__(self, directory: Path, on_trouble: Callable[[str], None]) -> None:
        # Without pyarrow segments stay JSON lines, which every reader takes as well.
        self._possible = importlib.util.find_spec("pyarrow") is not None
        self._on_trouble = on_trouble
        self._waiting: deque[Segment] = deque()
        self._process: subprocess.Popen[str] | None = None
        _tidy(directory)

    @property
    def busy(self) -> bool:
        """Whether a segment is being sealed or waits to be."""
        return self._process is not None or bool(self._waiting)

    def add(self, segment: Segment) -> None:
        """Queue a segment."""
        if self._possible:
            self._waiting.append(segment)

    def look_after(self) -> None:
        """Collect the process that has ended, and start the next one if none runs."""
        if self._process is not None and self._process.poll() is not None:
            self._end(self._process)
        if self._process is None and self._waiting:
            segment = self._waiting.popleft()
            try:
                self._process = _start(segment)
            except OSError as error:
                self._on_trouble(
                    f"{segment.path} stays as it is until the next start, no process can be made: {error.strerror}"
                )

    def finish(self) -> None:
        """Wait up to ten seconds for the running process; the next start seals what is left."""
        self._waiting.clear()
        if self._process is None:
            return
        try:
            self._process.wait(LAST_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._end(self._process)

    def _end(self, process: "subprocess.Popen[str]") -> None:
        _, said = process.communicate()
        if process.returncode > 0:
            self._on_trouble(f"a segment of the journal was not turned into Parquet: {said.strip()}")
        self._process = None


def _tidy(directory: Path) -> None:
    """Remove what a killed process left: a partial Parquet file, or the lines beside a complete one."""
    for path in directory.glob(".*.parquet"):
        path.unlink(missing_ok=True)
    for path in directory.glob("*.parquet"):
        segment = Segment.of(path)
        if segment is not None:
            segment.lines.unlink(missing_ok=True)


def _start(segment: Segment) -> "subprocess.Popen[str]":
    return subprocess.Popen(  # noqa: S603 - this interpreter, this package, a file that was listed
        [sys.executable, "-P", "-m", "purgatory_async.journal.rotation", str(segment.path)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH")))),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C must reach only the service, which then waits for this process
    )
