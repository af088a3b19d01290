"""Fold a recorded log, and print the digests of the state and of the results.

With ``forbid`` whatever a pure function must not use raises. Lines of a log are ``LOG_TIME ENTRY``.
"""

import json
import os
import random
import secrets
import sys
import time
import uuid
from collections import Counter
from contextlib import closing
from pathlib import Path

from purgatory_async.clock import MonotonicClock
from purgatory_async.durable.fold.checkpoint import digest
from purgatory_async.durable.fold.codec import decode
from purgatory_async.durable.fold.fold import Fold


def read(path):
    """The (position, log time, entry) of each line."""
    for position, line in enumerate(path.read_bytes().splitlines(), 1):
        at_us, _, entry = line.partition(b" ")
        yield position, int(at_us), decode(entry)


def fold(path):
    """Return the digests, and how often each result and effect occurred."""
    found = Counter()
    with closing(Fold()) as state:
        for step in read(path):
            result, effects = state.apply(*step)
            found[getattr(result, "why", None) or type(result).__name__] += 1
            found.update(
                f"{type(effect).__name__} {getattr(effect, 'why', '')}".strip() for effect in effects
            )
        return {"state": digest(state), "running": state.running.hex(), "found": dict(sorted(found.items()))}


def forbid():
    """Let the machine's clocks and random numbers raise, under the names that Python code calls them by."""

    def forbidden(*arguments):
        raise AssertionError("a fold reads no clock and draws nothing at random")

    clocks = [
        name for name in dir(time) if name.startswith(("time", "monotonic", "perf_counter", "clock_get"))
    ]
    for owner, names in (
        (time, [name for name in clocks if callable(getattr(time, name))]),
        (MonotonicClock, ["time_ns"]),
        (random, ["random", "randrange", "randint", "choice", "shuffle"]),
        (secrets, ["token_bytes", "token_hex", "token_urlsafe", "randbelow"]),
        (uuid, ["uuid1", "uuid4"]),
        (os, ["urandom", "getrandom"]),
    ):
        for name in names:
            setattr(owner, name, forbidden)


if __name__ == "__main__":
    if "forbid" in sys.argv[2:]:
        forbid()
    sys.stdout.write(json.dumps(fold(Path(sys.argv[1]))))
