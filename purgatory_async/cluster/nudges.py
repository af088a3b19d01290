"""Nudges between processes: after a commit, one byte to each Unix datagram socket of a folder.

A nudge is a hint. A lost one costs a follower the rest of its poll interval, nothing else.
"""

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path

__all__ = ["Nudges"]


class Nudges:
    """One process's socket in the folder, and the sockets of the others.

    Args:
        folder: Where the sockets are; made if it is missing.
        heard: Called on the running loop when another process nudges.
    """

    def __init__(self, folder: Path, heard: Callable[[], object]) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._heard = heard
        self._loop = asyncio.get_running_loop()
        # A socket's path has at most 107 bytes; through its descriptor the folder's is short.
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self._name = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            # Renamed once bound: earlier, a nudge would take it for the socket of a dead process.
            self._socket.bind(self._path(f".{self._name}"))
            os.rename(f".{self._name}", self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except OSError:
            self._socket.close()
            os.close(self._folder)
            raise
        self._loop.add_reader(self._socket.fileno(), self._drain)

    def send(self) -> None:
        """Nudge the others, from any thread. The socket of a process that has died is removed. O(processes)."""
        try:
            with os.scandir(self._folder) as entries:
                names = [entry.name for entry in entries]
        except OSError:
            return  # the polls go on
        for name in names:
            if name == self._name or name.startswith("."):
                continue
            try:
                self._socket.sendto(b"\0", self._path(name))
            except ConnectionRefusedError:
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=self._folder)
            except OSError:
                pass  # its buffer is full, so it has been nudged; or it has just left

    def close(self) -> None:
        """Remove the socket; no other thread may be in `send`."""
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        with contextlib.suppress(OSError):
            os.unlink(self._name, dir_fd=self._folder)
        os.close(self._folder)

    def _path(self, name: str) -> str:
        return f"/proc/self/fd/{self._folder}/{name}"

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._socket.recv(16):
                pass
        self._heard()
