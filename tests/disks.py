"""Small file systems, which are soon full, or read-only."""

import os
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


def fill(folder: Path) -> Path:
    """Take all space that is left; returns the file that has it, to be removed to give it back."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            os.fsync(file)
    return filler


def remount(where: Path, how: str) -> None:
    """Make a mounted file system ``"ro"`` or ``"rw"``; no file on it may be open for writing."""
    subprocess.run(["mount", "-o", f"remount,{how}", where], check=True)
