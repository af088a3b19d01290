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
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", where], check=True)


@contextmanager
def failing_file_system(where: Path) -> Iterator["FailingFileSystem"]:
    """Mount a file system on a new folder that can fail; skips the test where that is not allowed."""
    image = where.with_suffix(".img")
    image.write_bytes(bytes(16 << 20))
    where.mkdir()
    made = FailingFileSystem(where, image)
    try:
        subprocess.run(["mkfs.ext4", "-q", image], check=True, capture_output=True)
        made.mount()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no ext4 can be mounted here")
    try:
        yield made
    finally:
        subprocess.run(["umount", "-l", where], check=True)


class FailingFileSystem:
    """An ext4 in a file."""

    def __init__(self, where: Path, image: Path) -> None:
        self.where = where
        self._image = image

    def mount(self) -> None:
        """Mount it."""
        mount = ["mount", "-o", "loop,errors=remount-ro", self._image, self.where]
        subprocess.run(mount, check=True, capture_output=True)

    def fail(self) -> None:
        """Make it read-only, as the kernel does when its disk has errors; it stays so until it is mounted again."""
        find = ["findmnt", "-no", "SOURCE", self.where]
        device = Path(subprocess.run(find, check=True, capture_output=True, text=True).stdout.strip())
        Path(f"/sys/fs/ext4/{device.name}/trigger_fs_error").write_text("1")

    def mount_again(self) -> None:
        """Unmount it, and mount it as good as new."""
        subprocess.run(["umount", self.where], check=True)
        self.mount()


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
