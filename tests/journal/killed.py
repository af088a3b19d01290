"""A process to be killed: a purgatory under load, with a journal that syncs always.

Prints the number of each operation when its submission is on the disk (``s``), and when its end is (``e``).

    python -m tests.journal.killed DIRECTORY SEED SEGMENT_BYTES
"""

import asyncio
import os
import random
import sys
from itertools import count

from purgatory_async import DelayedOperation, Purgatory, Timer
from purgatory_async.journal import Journal, Sync

CLIENTS = 8


async def main(directory: str, seed: int, segment_bytes: int) -> None:
    draw = random.Random(seed)
    timer = Timer()
    numbers = count(1)
    journal = Journal(directory, timer=timer, sync=Sync.ALWAYS, segment_bytes=segment_bytes)
    purgatory = Purgatory(timer=timer, observer=journal)

    async def client() -> None:
        while True:
            number = next(numbers)
            operation = DelayedOperation[None](draw.choice([None, 0.001, 5.0]))
            purgatory.try_complete_else_watch(operation, [f"order:{number}"])
            await journal.commit()
            say(f"s {number}")
            if operation.timeout != 0.001:
                purgatory.complete_for_key(f"order:{number}")
            await asyncio.wait([asyncio.ensure_future(ended(operation))])
            await journal.commit()
            say(f"e {number}")

    async def ended(operation: DelayedOperation[None]) -> None:
        try:
            await operation
        except TimeoutError:
            return

    await asyncio.gather(*(client() for _ in range(CLIENTS)))


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())  # one write: a line arrives complete or not at all


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
