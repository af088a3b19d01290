"""A terminal in which a page's blocks are pasted, as its reader does."""

import doctest
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

from tests.pages import Pasted, ports, steps
from tests.ports import free_port
from tests.processes import WHOLE_S, until
from tests.programs import plugin
from tests.source_tree import ROOT

OVER = "the block is over"
# What a shell says of a job that was killed; one that has a person before it prints it elsewhere.
JOB = re.compile(r"^(bash|.*: line \d+): .*\b(Killed|Terminated)\b.*\n", re.MULTILINE)


class Terminal:
    """A shell that finds the `purgatory` and `python` of this environment.

    Args:
        folder: Where it runs.
        appeared: Gets what appears in it, line by line.
        environment: More of its variables.
    """

    def __init__(self, folder, appeared, **environment):
        self._appeared = appeared
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}{os.pathsep}/usr/sbin"
        self._shell = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder,
            env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=lambda: appeared.extend(self._shell.stdout), daemon=True).start()

    def run(self, block, meanwhile=lambda: None):
        """Run a block to its end; returns what appeared."""
        before = len(self._appeared)
        self._shell.stdin.write(f"{block}\necho; echo {OVER}\n")
        self._shell.stdin.flush()
        until(lambda: meanwhile() or f"{OVER}\n" in self._appeared[before:], block, WHOLE_S)
        return "".join(self._appeared[before:])

    def close(self):
        os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.communicate()


class Reader:
    """Does what a page says, from top to bottom, in one terminal, on ports that are free.

    Args:
        markdown: The page.
        folder: Where files are saved and the terminal runs.

    Attributes:
        steps: What the page says, with other ports.
        appeared: The terminal's lines.
    """

    def __init__(self, markdown, folder):
        for port in ports(markdown):
            markdown = re.sub(rf"\b{port}\b", str(free_port()), markdown)
        self.steps, self.appeared = steps(markdown), []
        self._folder = folder
        # A reader's environment has no such plugin, which imports for seconds.
        self._terminal = Terminal(folder, self.appeared, PYTEST_ADDOPTS="-p no:schemathesis", **plugin())

    def does(self, step, meanwhile=lambda: None):
        """Save a file, or paste a block and compare what it prints; returns that."""
        if not isinstance(step, Pasted):
            path = self._folder / step.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(step.text, encoding="utf-8")
            return ""
        printed = JOB.sub("", self._terminal.run(step.text, meanwhile).removesuffix(f"\n{OVER}\n"))
        if step.printed is not None:
            assert prints(step.printed, printed), (
                f"line {step.line} printed:\n{printed}\nnot:\n{step.printed}"
            )
        return printed

    def does_all(self, meanwhile=lambda: None):
        """Do all but the first block, which makes the environment that the test runs in; returns what was printed."""
        return [self.does(step, meanwhile) for step in self.steps[1:]]

    def close(self):
        self._terminal.close()


def prints(shown, printed):
    """Whether what was printed is what a page shows; ``...`` stands for anything there."""
    return doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS)


@contextmanager
def reading(markdown, folder):
    """A reader of a page, whose programs end with the block."""
    reader = Reader(markdown, folder)
    try:
        yield reader
    finally:
        reader.close()
