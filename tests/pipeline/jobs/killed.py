"""Start a job as a user would, and kill it in the middle."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.source_tree import ROOT


@contextmanager
def started(directory: Path, job: str, *arguments: object) -> Iterator[subprocess.Popen]:
    """``purgatory pipeline JOB`` with a session of its own, so that a kill takes Java and all workers with it."""
    with (directory / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "purgatory_async", "pipeline", job, *map(str, arguments)],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                kill(process)
            process.communicate()


def kill(process: subprocess.Popen) -> None:
    """As ``kill -9`` of all that was started."""
    os.killpg(process.pid, signal.SIGKILL)


def wait_for_something_new(
    names: Callable[[], set[str]], known: set[str], process: subprocess.Popen, patience_s: float
) -> None:
    """Wait until there is a name that was not known, while the job runs."""
    deadline = time.monotonic() + patience_s
    while names() <= known:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline, f"nothing new beside {sorted(known)} for {patience_s} s"
        time.sleep(0.002)
