"""A terminal for a command: a real pseudo-terminal, and an emulator that shows what a person would see."""

import os
import re
import select
import subprocess
import sys
import termios
import time
from pathlib import Path

import pyte

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
CTRL_C = b"\x03"
THE_END = b"\x1b]0;the end\x07"  # sets a title, which changes nothing on the screen
# Only the terminal that controls a process turns ctrl-C into a signal, and a process takes it by itself.
TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, sys.argv[1:])
"""


class Terminal:
    """A command that runs in a terminal of its own; leaving the context ends both."""

    def __init__(self, *arguments, lines=50, columns=100):
        self._ours, self._its = os.openpty()
        self.modes = termios.tcgetattr(self._its)
        self._screen = pyte.Screen(columns, lines)
        self._emulator = pyte.ByteStream(self._screen)
        self.resize(lines, columns)
        self.written = b""
        command = [sys.executable, "-m", "purgatory_async", *arguments]
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKE_TERMINAL, *command],
            cwd=ROOT,
            env={**os.environ, "TERM": "xterm-256color"},
            stdin=self._its,
            stdout=self._its,
            stderr=self._its,
            start_new_session=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(PATIENCE)
        os.close(self._ours)
        os.close(self._its)

    def resize(self, lines, columns):
        self._screen.resize(lines, columns)
        termios.tcsetwinsize(self._ours, (lines, columns))

    def press(self, keys):
        os.write(self._ours, keys)

    @property
    def lines(self):
        """The text on the screen, without trailing spaces."""
        return [line.rstrip() for line in self._screen.display]

    def line(self, pattern):
        """The first line on the screen that matches; empty if none does."""
        return next((line for line in self.lines if re.search(pattern, line)), "")

    def until(self, holds):
        """Read output until a condition on the screen holds."""
        give_up = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < give_up, "\n".join(self.lines)
            self._read(0.05)

    def exit_code(self):
        """Read all output until the process has ended."""
        self.until(lambda: self.process.poll() is not None)
        while self._read(0):
            pass
        os.write(self._its, THE_END)  # a pseudo-terminal may hand the last of the output on later, in order
        self.until(lambda: self.written.endswith(THE_END))
        self.written = self.written.removesuffix(THE_END)
        return self.process.returncode

    @property
    def as_it_was(self):
        """Whether the terminal is left as it was found: the first screen, the cursor shown, the modes the same."""
        screens = re.findall(rb"\x1b\[\?1049([hl])", self.written)
        cursors = re.findall(rb"\x1b\[\?25([hl])", self.written)
        same = termios.tcgetattr(self._its) == self.modes
        return same and screens[-1:] in ([], [b"l"]) and cursors[-1:] in ([], [b"h"])

    def _read(self, seconds):
        ready, _, _ = select.select([self._ours], [], [], seconds)
        if ready:
            piece = os.read(self._ours, 65536)
            self.written += piece
            self._emulator.feed(piece)
        return bool(ready)
