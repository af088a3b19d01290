"""Tells the service manager that started this process what it does, as ``sd_notify(3)``.

A message is one datagram to the socket that ``NOTIFY_SOCKET`` names. Without that variable nothing is sent.
"""

import os
import socket
from collections.abc import Mapping
from typing import Final

from purgatory_async.clock import MonotonicClock
from purgatory_async.service.logs import Log
from purgatory_async.service.settings.settings import SettingsError


class Manager:
    """The service manager of this process.

    Args:
        environment: The process's.
        log: For the first message that it does not take.

    Attributes:
        every: Seconds between two calls of `alive`, half of what it waits for one; None if it does not wait.

    Raises:
        SettingsError: A variable is none that a service manager sets.
    """

    def __init__(self, environment: Mapping[str, str], log: Log) -> None:
        self._address: Final = _address(environment.get("NOTIFY_SOCKET", ""))
        self._log: Final = log
        self._failed = False
        self.every: Final = _watchdog_s(environment) if self._address else None

    def ready(self, address: str) -> None:
        """Say that connections are accepted at an address."""
        self._tell("READY=1", f"STATUS=serving at {address}")

    def reloading(self) -> None:
        """Say that the configuration is read again; `reloaded` must follow."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={MonotonicClock.time_ns() // 1000}")

    def reloaded(self) -> None:
        """Say that the configuration was read again."""
        self._tell("READY=1")

    def stopping(self) -> None:
        """Say that the service drains."""
        self._tell("STOPPING=1", "STATUS=draining")

    def alive(self) -> None:
        """Say that the event loop turns."""
        self._tell("WATCHDOG=1")

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
                sock.setblocking(False)
                sock.sendto("\n".join(lines).encode(), self._address)
        except OSError as error:
            if not self._failed:
                self._failed = True
                self._log.warning("the service manager cannot be told", message=lines[0], reason=str(error))


def _address(text: str) -> bytes:
    if text[:1] not in {"", "/", "@"} or text == "@":
        raise SettingsError(f"NOTIFY_SOCKET must be an absolute path, or begin with @, got {text!r}")
    path = os.fsencode(text)
    return b"\0" + path[1:] if text.startswith("@") else path


def _watchdog_s(environment: Mapping[str, str]) -> float | None:
    """Half the watchdog's time in seconds; None if there is none, or it is another process's."""
    text = environment.get("WATCHDOG_USEC")
    if text is None or environment.get("WATCHDOG_PID") not in {None, str(os.getpid())}:
        return None
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 2**63):
        raise SettingsError(f"WATCHDOG_USEC must be a positive number of microseconds, got {text!r}")
    return int(text) / 2e6
