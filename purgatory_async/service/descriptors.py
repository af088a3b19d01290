"""Reports when the process has no file descriptor left for a new connection."""

import errno
import resource
import socket
from typing import Final

from purgatory_async import Timer
from purgatory_async.service.logs import Log

PERIOD: Final = 1.0  # seconds between two probes

_LACKS: Final = frozenset({errno.EMFILE, errno.ENFILE})


class DescriptorProbe:
    """Logs once a second while no file descriptor is left; uvloop then resets new connections silently."""

    def __init__(self, timer: Timer, log: Log) -> None:
        self._timer = timer
        self._log = log

    def start(self) -> None:
        """Probe until the timer closes."""
        self._timer.call_later(PERIOD, self._probe)

    def _probe(self) -> None:
        try:
            socket.socket(socket.AF_UNIX).close()
        except OSError as error:
            if error.errno in _LACKS:
                limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
                self._log.error(
                    "no file descriptor is left: cannot accept connections; raise LimitNOFILE",
                    reason=error.strerror,
                    limit=limit,
                )
        self.start()
