"""The service's probe, asking a broker for its versions: ``python -m bench.kafka.probe PORT PID``."""

import socket
import sys

from bench.kafka.callers import frame
from bench.service.probe import run

__all__ = ["MODULE"]

MODULE = "bench.kafka.probe"
_ASKED = frame(18, 3, client_software_name="bench", client_software_version="1")
_LENGTH_BYTES = 4


def _ask(connection: socket.socket) -> bool:
    """Ask, and wait for the answer; false if the broker has closed the connection."""
    connection.sendall(_ASKED)
    with connection.makefile("rb") as answers:
        length = answers.read(_LENGTH_BYTES)
        return len(length) == _LENGTH_BYTES and bool(answers.read(int.from_bytes(length, "big")))


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[2]), _ask)
