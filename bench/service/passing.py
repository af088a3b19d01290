"""Start ``purgatory serve`` with sockets as systemd passes them: from descriptor 3 on, and variables that say so.

Run as ``python -m bench.service.passing DESCRIPTOR[,DESCRIPTOR...] [FLAG...]``.
"""

import os
import sys

__all__ = ["PASSING"]

PASSING = (sys.executable, "-m", "bench.service.passing")
FIRST = 3


def main() -> None:
    """Become the service, which keeps this process's id."""
    listed, *flags = sys.argv[1:]
    given = [int(number) for number in listed.split(",")]
    # Out of the way first: a descriptor may have the number of another's place.
    while min(given) < FIRST + len(given):
        given = [os.dup(descriptor) for descriptor in given]
    for place, descriptor in enumerate(given, FIRST):
        os.dup2(descriptor, place)
    os.environ.update(LISTEN_FDS=str(len(given)), LISTEN_PID=str(os.getpid()))
    os.execv(sys.executable, [sys.executable, "-m", "purgatory_async", "serve", *flags])  # noqa: S606 - no shell


if __name__ == "__main__":
    main()
