"""A process that appends to a SQLite log, to be killed or to be waited for.

Prints ``NAME NUMBER POSITION`` once a batch is in the log. If its standard input is a socket, it begins when the
process at the other end does.

    python -m tests.cluster.appending PATH NAME BATCHES SYNC
"""

import asyncio
import os
import sys

from purgatory_async.cluster import SqliteLog

CLIENTS = 4
SIZE = 3  # entries in a batch


async def main(path: str, name: str, batches: int, sync: str) -> None:
    log = SqliteLog(path, sync=sync)
    await log.open()
    os.write(0, b".")
    os.read(0, 1)
    numbers = iter(range(batches))

    async def client() -> None:
        for number in numbers:
            batch = [f"{name} {number} {index}".encode() for index in range(SIZE)]
            appended = await log.append(batch)
            say(f"{name} {number} {appended.first}")

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    await log.aclose()


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())  # one write: a line arrives complete or not at all


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]))
