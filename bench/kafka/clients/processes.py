"""Processes that checks start: what they print, line by line, and their end."""

import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from bench.kafka.clients.expect import PATIENCE_S, expect

__all__ = ["Member", "member", "until"]

_TAKE_S: Final = 0.05


class Member:
    """A process that reads in a group.

    Attributes:
        seen: The lines it has printed, to either of its outputs.
    """

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process: Final = process
        self._lines: Final[queue.SimpleQueue[str]] = queue.SimpleQueue()
        self.seen: Final[list[str]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)

    def look(self) -> None:
        """Take the next line into ``seen``, if one comes within 0.05 s."""
        try:
            self.seen.append(self._lines.get(timeout=_TAKE_S).strip())
        except queue.Empty:
            return

    def leave(self) -> None:
        """Ask it to leave its group, and wait until it has ended."""
        self._process.terminate()
        self._process.wait(PATIENCE_S)


@contextmanager
def member(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Iterator[Member]:
    """Start a member; it is killed at the end if it still runs."""
    pipe, out = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(command, stdout=pipe, stderr=out, text=True, env=environment) as process:
        try:
            yield Member(process)
        finally:
            process.kill()


def until(condition: Callable[[], Any], what: str, *members: Member) -> None:
    """Read what members print until a condition holds.

    Raises:
        AssertionError: It did not hold within 16 s.
    """
    end = time.monotonic() + 2 * PATIENCE_S
    while not condition():
        expect(what, time.monotonic() < end, wanted=True)
        for one in members:
            one.look()
