"""Whether a file descriptor is left for the next connection."""

import errno
import resource
import socket
from typing import Final

from purgatory_async import Timer
from purgatory_async.service.logs import Log

PERIOD: Final = 1.0  # seconds between two probes

_LACKS: Final = frozenset({errno.EMFILE, errno.ENFILE})


class DescriptorProbe:
    """Log once a second while no file descriptor is left; uvloop resets new connections then, without a word.

    Args:
        timer: On the loop of the service.
        log: For the lack.
    """

    def __init__(self, timer: Timer, log: Log) -> None:
        self._timer = timer
        self._log = log

    def start(self) -> None:
        """Probe from now on, until the timer closes."""
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
