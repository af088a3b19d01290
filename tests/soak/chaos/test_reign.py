"""The chaos itself: what it kills, it starts again."""

import asyncio
import random

import pytest

from tests.soak.chaos import reign
from tests.soak.chaos.answers import Answers


class SlowToDie:
    """A worker whose end takes a while after SIGKILL."""

    ended = None

    def __init__(self, dying, dead):
        self.dying, self.dead = dying, dead
        self.kills = self.starts = 0

    async def is_ready(self):
        return True

    async def kill(self):
        self.kills += 1
        self.dying.set()
        await self.dead.wait()

    async def start(self):
        self.starts += 1


@pytest.mark.asyncio(loop_factories=["virtual"])
async def test_chaos_that_ends_during_a_kill_starts_the_worker():
    # The fault: one that was killed in the last moment stayed down, and the benchmark waited for it in vain.
    dying, dead = asyncio.Event(), asyncio.Event()
    workers = [SlowToDie(dying, dead), SlowToDie(dying, dead)]
    killing = asyncio.create_task(reign.kill_workers(workers, Answers(), random.Random(1)))
    await dying.wait()
    killing.cancel()
    asyncio.get_running_loop().call_soon(dead.set)
    await asyncio.wait([killing])
    assert sorted((worker.kills, worker.starts) for worker in workers) == [(0, 0), (1, 1)]
