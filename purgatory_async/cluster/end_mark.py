"""How far a SQLite log reaches for its readers: a mark in the file whose lock gives its writers their turn.

A writer commits, writes the mark, and only then gives up its turn and answers. So what any append was answered with is
at or before the mark. The other way round, readers hand out nothing behind it: an entry that was committed but is not
counted yet is not in the log. If its writer was killed in between, the next one to have a turn counts it, and a reader
that finds it while no turn is taken takes one. So no worker ever showed what another one that asks the mark would miss.
"""

import fcntl
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from purgatory_async.cluster.sqlite_lock import take_lock

__all__ = ["EndMark", "EndMarkFile"]

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_MARK: Final = struct.Struct("<24sq40s?")
_CHECKSUM: Final = struct.Struct("<I")
_BYTES: Final = _MARK.size + _CHECKSUM.size


class EndMark(NamedTuple):
    """How far the log went.

    Attributes:
        epoch: The log's epoch.
        position: The newest position that readers may have; it lags behind while a turn is taken, or after a kill.
        boot: The boot during which it was written.
        safe: Whether what it counts survives a power loss.
    """

    epoch: str
    position: int
    boot: str
    safe: bool

    def pack(self) -> bytes:
        """Return it as bytes of a fixed size."""
        packed = _MARK.pack(self.epoch.encode(), self.position, self.boot.encode(), self.safe)
        return packed + _CHECKSUM.pack(zlib.crc32(packed))

    @classmethod
    def unpack(cls, packed: bytes) -> "EndMark | None":
        """Read it; None if these bytes are none."""
        body, checksum = packed[: _MARK.size], packed[_MARK.size : _BYTES]
        if len(packed) < _BYTES or _CHECKSUM.pack(zlib.crc32(body)) != checksum:
            return None
        epoch, position, boot, safe = _MARK.unpack(body)
        return cls(epoch.rstrip(b"\0").decode(), position, boot.rstrip(b"\0").decode(), safe)


class EndMarkFile:
    """The file ``PATH.lock``; each object is another one for its lock. Its errors are `OSError`.

    Args:
        path: The SQLite file.
        create: Whether to create it if it is missing.

    Attributes:
        boot: The present boot of the machine.
        inode: The number of the file that is open.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.boot = _BOOT_ID.read_text(encoding="ascii").strip()
        self._path = path
        self._file = os.open(f"{path}.lock", os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o600)
        self.inode = os.fstat(self._file).st_ino

    def close(self) -> None:
        """Close it."""
        os.close(self._file)

    @property
    def removed(self) -> bool:
        """Whether another file has its place, so that this mark is not written any more."""
        return os.fstat(self._file).st_nlink == 0

    def read(self) -> EndMark | None:
        """Return the mark; None if there is none, or it is being written. Blocks no other call."""
        return EndMark.unpack(os.pread(self._file, _BYTES, 0))

    def write(self, epoch: str, position: int, *, safe: bool, durable: bool = False) -> None:
        """Write the mark, in a turn. A durable one survives a power loss."""
        os.pwrite(self._file, EndMark(epoch, position, self.boot, safe).pack(), 0)
        if durable:
            os.fsync(self._file)

    def wait(self, wait_s: float) -> None:
        """Wait some seconds for a turn that ends at once; raises `LogUnavailable`."""
        take_lock(self._file, self._path, wait_s)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for this object's turn to write."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    @contextmanager
    def turn_if_free(self) -> Iterator[bool]:
        """Take a turn unless another one has it; yields whether."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        try:
            yield True
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
