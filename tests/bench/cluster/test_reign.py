"""The chaos itself: what it kills, it starts again."""

import asyncio
import random
from contextlib import suppress

import pytest

from bench.cluster.chaos import reign
from bench.cluster.chaos.answers import Answers


class SlowToDie:
    """A worker whose end takes a while after SIGKILL."""

    ended = None

    def __init__(self):
        self.kills = self.starts = 0

    async def is_ready(self):
        return True

    async def kill(self):
        self.kills += 1
        await asyncio.sleep(1)

    async def start(self):
        self.starts += 1


@pytest.mark.asyncio(loop_factories=["virtual"])
async def test_chaos_that_ends_during_a_kill_starts_the_worker():
    # The fault: one that was killed in the last moment stayed down, and the benchmark waited for it in vain.
    workers = [SlowToDie(), SlowToDie()]
    killing = asyncio.create_task(reign._kill_workers(workers, Answers(), random.Random(1)))
    await asyncio.sleep(reign.KILL_S + 0.5)
    assert sum(worker.kills for worker in workers) == 1
    killing.cancel()
    with suppress(asyncio.CancelledError):
        await killing
    assert [worker.starts for worker in workers] == [worker.kills for worker in workers]
