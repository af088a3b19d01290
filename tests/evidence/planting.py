"""Plant each fault of `promises` in a copy of the checkout, and see that the tests notice it."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.evidence.promises import Fault
from tests.source_tree import PACKAGE, ROOT

PATIENCE_S = 600.0


@dataclass(frozen=True)
class Copy:
    """A copy of what the checkout has committed, and of its uncommitted package and tests."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> "Copy":
        """Copy the package, the tests and what they read; the compiled core stays out."""
        for name in (PACKAGE, "tests", "pyproject.toml"):
            subprocess.run(["cp", "-R", ROOT / name, folder / name], check=True)
        for built in (folder / PACKAGE / "native").glob("_core*.so"):
            built.unlink()
        return cls(folder)

    def run(self, tests: str) -> tuple[int, str]:
        """Run some fast tests in pure Python; returns pytest's exit code, and what it said last."""
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            "-m",
            "not slow",
            tests,
        ]
        environment = os.environ | {
            "PURGATORY_ASYNC_PURE": "1",
            "PYTHONPATH": str(self.folder),
            "DRAWS": "fixed",
        }
        ran = subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        return ran.returncode, ran.stdout[-2000:]

    def run_with(self, fault: Fault) -> tuple[int, str]:
        """Run the tests that must see a fault, with it planted; the copy is then as before."""
        path = self.folder / PACKAGE / fault.file
        right = path.read_text(encoding="utf-8")
        path.write_text(right.replace(fault.right, fault.wrong), encoding="utf-8")
        try:
            return self.run(fault.seen_by)
        finally:
            path.write_text(right, encoding="utf-8")
