"""A checksum of a whole Parquet file, inside the file: renamed with it, and ignored by every Parquet reader.

Parquet's own checksums cover its pages, not its metadata. Ours covers all bytes but its own, which lie right before
the footer: no offset points there, and a program that copies the records to another file leaves it behind.
"""

from pathlib import Path
from typing import IO, Final
from zlib import crc32

__all__ = ["add_checksum", "check_checksum"]

_MARK: Final = b"purgatory_crc32:"
_LENGTH: Final = len(_MARK) + 4
_TRAILER: Final = 8  # after the footer: its length and the magic
_BLOCK: Final = 1 << 20


def add_checksum(path: Path) -> None:
    """Insert a checksum into a Parquet file that has none. O(its length).

    Raises:
        OSError: The file cannot be read or written.
        ValueError: It is not a Parquet file.
    """
    with path.open("r+b") as file:
        place = _footer_start(file)
        if place < 0:
            raise ValueError(f"{path} is no Parquet file: cannot add a checksum")
        checksum = _crc32(file, place, place)
        file.seek(place)
        footer = file.read()
        file.seek(place)
        file.write(_MARK + checksum.to_bytes(4) + footer)


def check_checksum(path: Path) -> None:
    """Verify the checksum of a Parquet file, if it has one. O(its length).

    Raises:
        OSError: The file cannot be read.
        ValueError: It differs from what was written.
    """
    with path.open("rb") as file:
        end = _footer_start(file)
        begin = end - _LENGTH
        if begin < 0:
            return
        file.seek(begin)
        record = file.read(_LENGTH)
        if not record.startswith(_MARK):
            return
        written, found = int.from_bytes(record[len(_MARK) :]), _crc32(file, begin, end)
    if written != found:
        raise ValueError(f"its checksum must be {written:08x}, got {found:08x}")


def _footer_start(file: IO[bytes]) -> int:
    """The footer's offset, from the length at the file's end; negative if that length is impossible."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _TRAILER))
    return size - _TRAILER - int.from_bytes(file.read(4), "little")


def _crc32(file: IO[bytes], gap: int, resume: int) -> int:
    """The checksum of a file without the bytes from ``gap`` to ``resume``."""
    checksum = 0
    file.seek(0)
    while gap and (block := file.read(min(_BLOCK, gap))):
        checksum, gap = crc32(block, checksum), gap - len(block)
    file.seek(resume)
    while block := file.read(_BLOCK):
        checksum = crc32(block, checksum)
    return checksum
