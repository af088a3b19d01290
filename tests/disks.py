"""Small file systems, which are soon full."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_file_system(where: Path, size: str) -> Iterator[Path]:
    """Mount a file system of ``size`` on a new folder; skips the test where that is not allowed."""
    where.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", where]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield where
    subprocess.run(["umount", "-l", where], check=True)
