"""A worker in a process of its own: it echoes the signals that it applies.

Prints ``ready``, then ``KEY POSITION`` for each signal, until ``last``. It signals COUNT keys itself, and prints
``done NAME-NUMBER POSITION`` for each that returned.

    python -m tests.cluster.signalling PATH NAME COUNT
"""

import asyncio
import os
import sys

from purgatory_async import Purgatory
from purgatory_async.cluster import Cluster, Signalled, SqliteLog


async def main(path: str, name: str, count: int) -> None:
    seen: set[str] = set()

    def note(signalled: Signalled) -> None:
        seen.add(signalled.key)
        say(f"{signalled.key} {signalled.position}")

    async with Purgatory() as purgatory, Cluster(purgatory, SqliteLog(path), apply=note) as cluster:
        last = asyncio.ensure_future(purgatory.wait("last", until=lambda: "last" in seen))
        await asyncio.sleep(0)
        say("ready")
        await purgatory.wait("go", until=lambda: "go" in seen)
        for number in range(count):
            position = await cluster.signal(f"{name}-{number}", timeout=60)
            say(f"done {name}-{number} {position}")
        await last


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())  # one write: a line arrives complete or not at all


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
