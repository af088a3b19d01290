"""Nudges between processes: what was just appended, to each Unix datagram socket of a folder.

A nudge is a hint that saves a read. It carries the batch with its place, and a checksum. One that is lost, cut or too
large, or comes twice or late, costs a follower a read or the rest of its poll interval, nothing else.
"""

import asyncio
import contextlib
import os
import secrets
import socket
import struct
import zlib
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Final

from purgatory_async.cluster.log import Appended

__all__ = ["Nudges", "pack", "tell", "unpack"]

LARGEST: Final = 60_000
"""Bytes of a nudge; a larger batch is read."""
AT_ONCE: Final = 64  # nudges heard before other tasks run

_HEAD: Final = struct.Struct("<8s24sqqI")
_CHECKSUM: Final = struct.Struct("<I")
_KIND: Final = b"purg\0\0\0\1"
_BARE: Final = b"\0"  # carries nothing

Told = Callable[[str, Appended, Sequence[bytes]], object]


def pack(epoch: str, appended: Appended, entries: Sequence[bytes]) -> bytes:
    """Return the nudge of a batch.

    >>> unpack(pack("e", Appended(7, 1_000), [b"a", b""]))
    ('e', Appended(first=7, at_us=1000), [b'a', b''])
    """
    lengths = [len(entry) for entry in entries]
    if sum(lengths) + 4 * len(lengths) + _HEAD.size + _CHECKSUM.size > LARGEST:
        return _BARE
    head = _HEAD.pack(_KIND, epoch.encode(), *appended, len(entries))
    body = b"".join((head, struct.pack(f"<{len(lengths)}I", *lengths), *entries))
    return body + _CHECKSUM.pack(zlib.crc32(body))


def unpack(nudge: bytes) -> tuple[str, Appended, Sequence[bytes]] | None:
    """Return the batch of a nudge; None if these bytes are not a whole one."""
    body, checksum = nudge[: -_CHECKSUM.size], nudge[-_CHECKSUM.size :]
    if len(body) < _HEAD.size or _CHECKSUM.pack(zlib.crc32(body)) != checksum:
        return None
    kind, epoch, first, at_us, count = _HEAD.unpack_from(body)
    start = _HEAD.size + 4 * count
    if kind != _KIND or not count or start > len(body):
        return None
    places = list(accumulate(struct.unpack_from(f"<{count}I", body, _HEAD.size), initial=start))
    if places[-1] != len(body):
        return None
    return epoch.rstrip(b"\0").decode(), Appended(first, at_us), [body[a:b] for a, b in pairwise(places)]


class Nudges:
    """One process's socket in the folder, and the sockets of the others.

    Args:
        folder: Where the sockets are; made if it is missing.
        told: Called on the running loop with each batch that another process tells.
        heard: Called instead if a nudge carries none.
    """

    def __init__(self, folder: Path, told: Told, heard: Callable[[], object]) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._told = told
        self._heard = heard
        self._loop = asyncio.get_running_loop()
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self._name = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            # Renamed once bound: earlier, a nudge would take it for the socket of a dead process.
            self._socket.bind(_path(self._folder, f".{self._name}"))
            os.rename(f".{self._name}", self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except OSError:
            self._socket.close()
            os.close(self._folder)
            raise
        self._loop.add_reader(self._socket.fileno(), self.drain)

    def send(self, epoch: str, appended: Appended, entries: Sequence[bytes]) -> None:
        """Nudge the others, from any thread. The socket of a process that has died is removed. O(processes)."""
        _tell(self._folder, self._socket, (epoch, appended, entries), but=self._name)

    def drain(self) -> None:
        """Hear what has come so far, at most 64 nudges; the loop calls it, too."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(AT_ONCE):
                batch = unpack(self._socket.recv(LARGEST))
                if batch is None:
                    self._heard()
                else:
                    self._told(*batch)

    def close(self) -> None:
        """Remove the socket; no other thread may be in `send`."""
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        with contextlib.suppress(OSError):
            os.unlink(self._name, dir_fd=self._folder)
        os.close(self._folder)


def tell(folder: Path, epoch: str, appended: Appended, entries: Sequence[bytes]) -> None:
    """Nudge all processes of a folder once, from one that has no socket there. O(processes)."""
    with contextlib.suppress(OSError):  # none has ever been there
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
                _tell(descriptor, sender, (epoch, appended, entries))
        finally:
            os.close(descriptor)


def _tell(
    folder: int, sender: socket.socket, batch: tuple[str, Appended, Sequence[bytes]], *, but: str = ""
) -> None:
    try:
        with os.scandir(folder) as found:
            names = [each.name for each in found]
    except OSError:
        return  # the polls go on
    others = [name for name in names if name != but and not name.startswith(".")]
    nudge = pack(*batch) if others else _BARE
    for name in others:
        try:
            sender.sendto(nudge, _path(folder, name))
        except ConnectionRefusedError:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
        except OSError:
            pass  # its buffer is full, so it has been nudged; or it has just left


def _path(folder: int, name: str) -> str:
    # A socket's path has at most 107 bytes; through its descriptor the folder's is short.
    return f"/proc/self/fd/{folder}/{name}"
