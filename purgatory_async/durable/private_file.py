"""Reads files of secrets: short ones, which only their owner may read."""

import os
import stat
from pathlib import Path
from typing import Final

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def read_private(path: Path, most: int) -> bytes:
    """Read a file of secrets.

    As ssh does with private keys, refuses the process's own file if group or others have any access. A file of
    another user passes: secrets mounted into a container belong to root.

    Args:
        path: The file.
        most: Bytes that it may have.

    Raises:
        ValueError: The file is unreadable, open to others, no regular file, or too long; the message names it.
    """
    try:
        with open(path, "rb", opener=_opened) as file:  # Path.open takes no opener
            _check_status(path, os.fstat(file.fileno()))
            text = file.read(most + 1)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    if len(text) > most:
        raise ValueError(f"{path} must have at most {most} bytes, got more")
    return text


def _opened(path: str, flags: int) -> int:
    # Opening a pipe without a writer would block for ever; a regular file ignores the flag.
    return os.open(path, flags | os.O_NONBLOCK)


def _check_status(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path} must be a regular file, got {stat.filemode(status.st_mode)}")
    if status.st_uid == os.getuid() and status.st_mode & _OTHERS:
        mode = stat.S_IMODE(status.st_mode)
        raise ValueError(f"{path} is open to other users (mode {mode:04o}): chmod 600 it")
