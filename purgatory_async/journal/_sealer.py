"""Has segments turned into Parquet, one after another, by processes of their own.

Only one thread asks it at a time: the one that opens the journal, then the writer thread, and at the end who closes it.
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
# The process gets the package that runs here, installed or not, and (-P) nothing from the working directory, where
# anybody may have put a pyarrow.py.
_ROOT: Final = str(Path(__file__).parents[2])


class Sealer:
    """Starts a process for each segment, and looks after it whenever it is asked to.

    Args:
        directory: Of the journal.
        on_trouble: Told in a sentence what did not work.
    """

    def __init__(self, directory: Path, on_trouble: Callable[[str], None]) -> None:
        # Without pyarrow segments stay JSON lines, which everybody can read too.
        self._possible = importlib.util.find_spec("pyarrow") is not None
        self._on_trouble = on_trouble
        self._waiting: deque[Segment] = deque()
        self._process: subprocess.Popen[str] | None = None
        _tidy(directory)

    @property
    def busy(self) -> bool:
        """Whether something is being sealed, or waits for it."""
        return self._process is not None or bool(self._waiting)

    def add(self, segment: Segment) -> None:
        """Have a segment sealed when those before it are."""
        if self._possible:
            self._waiting.append(segment)

    def look_after(self) -> None:
        """Start the next process if none runs."""
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
        """Wait for what runs, ten seconds at most; what is not sealed then is sealed at the next start."""
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
    """Remove what a killed process has left: half a Parquet file, or the lines beside a whole one."""
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
        start_new_session=True,  # a Ctrl-C in the terminal is for the service, which then waits for this
    )
