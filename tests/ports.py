"""Ports for servers that must be given one, as those that restart where they were."""

import random
import socket
from contextlib import closing

# Below those that Linux gives to outgoing connections and to servers that ask for any port: between the choice and
# its use no other program is given one of these.
CHOICE = range(20_000, 32_000)


def free_port() -> int:
    """A port of 127.0.0.1 on which nothing listens."""
    while True:
        port = random.SystemRandom().choice(CHOICE)
        with closing(socket.socket()) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
