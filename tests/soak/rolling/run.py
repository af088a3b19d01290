"""The run: four workers, restarted in turn each second, some of them killed; and the reading afterwards."""

import asyncio
import random
import signal
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count, cycle
from typing import Any, Final

from purgatory_async.durable import Durable
from tests.soak.chaos.answers import Faults
from tests.soak.chaos.reign import under
from tests.soak.chaos.witness import noted, witnessed
from tests.soak.promises.judge import End
from tests.soak.promises.killing import Process, until
from tests.soak.rolling.judge import Heard, Log, judge
from tests.soak.rolling.rounds import ANNOUNCED, ENDED, JOBS, WORKERS, asked_by

__all__ = ["Outcome", "run"]

RESTART_S: Final = 1.0
KILLED: Final = 0.25  # the share of restarts that are kills


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it.

    Attributes:
        faults: What was wrong, and what was restarted.
        interrupted: How many steps of each kind were under way when their worker ended.
        log: What the log says.
        entries: How many it has.
        seconds: How long it took.
    """

    faults: Faults
    interrupted: Counter[str]
    log: Log
    entries: int
    seconds: float


class _Process(Process):
    program = "tests.soak.rolling.worker"
    last = frozenset({"read", "answered", "delivered", "put", "ran", "moved", "unanswered"})


class _Workers:
    """The workers, and what each is to do at its next start.

    Args:
        url: The store.
        heard: Hears what they tell.
        interrupted: Counts the steps that were under way when they ended.
        seed: Seeds their choices.
        fault: What is wrong with them; empty for nothing.
    """

    def __init__(self, url: str, heard: Heard, interrupted: Counter[str], seed: int, fault: str) -> None:
        self.all: Final = [
            _Process(f"worker {place}", f"worker {place}", partial(self._job, place), self._hear, interrupted)
            for place in range(WORKERS)
        ]
        self.fresh = True
        self._url, self._seed, self._fault, self._heard = url, seed, fault, heard
        self._runs: Final = dict[str, str]()  # of each worker, the present one
        self._count: Final = count()

    def _job(self, place: int, who: str) -> dict[str, Any]:
        self._runs[who] = f"{self._seed} {next(self._count)}"
        mine = [name for name in self._heard.begun if place in asked_by(_number(name))]
        read = self._heard.read.get(who, set())
        return {
            "store": self._url,
            "place": place,
            "seed": self._runs[who],
            "names": [name for name in mine if name not in read],
            "next": max(map(_number, mine), default=-1) + 1 if self.fresh else None,
            "fault": self._fault,
        }

    def _hear(self, who: str, line: dict[str, Any]) -> None:
        self._heard.hear(who, line, self._runs[who])

    async def restart(self, worker: Process, faults: Faults, number: int) -> None:
        """End a worker with a signal, and start it again."""
        if number == signal.SIGKILL:
            self._heard.killed.add(self._runs[worker.role])
        ended = await worker.close(number)
        if ended not in {0, -signal.SIGKILL}:
            faults.wrong("different", f"{worker.role} ended with {ended}")
        await worker.start()


async def run(url: str, seconds: int, seed: int, fault: str = "") -> Outcome:
    """Let workers work on an empty store while they are restarted in turn, then let them finish; judge it.

    Args:
        url: The store.
        seconds: How long they are restarted.
        seed: Seeds the random choices.
        fault: One of `worker.FAULTS`, which the workers are to have; empty for none.
    """
    clock = asyncio.get_running_loop().time
    began, draw, faults, interrupted = clock(), random.Random(seed), Faults(), Counter[str]()
    heard = Heard(faults)
    async with AsyncExitStack() as stack:
        witness = await stack.enter_async_context(witnessed(url))
        workers = _Workers(url, heard, interrupted, seed, fault)
        for each in workers.all:
            await each.start()
            stack.push_async_callback(each.close)
        async with under(_roll(workers, faults, draw)):
            await asyncio.sleep(seconds)
        workers.fresh = False
        for each in workers.all:
            await workers.restart(each, faults, signal.SIGTERM)
        await until(partial(_all_read, heard))
        durable = await stack.enter_async_context(Durable(url))
        await until(partial(_emptied, durable))
        last = {name: await _read(durable, name) for name in heard.begun}
        await witness.caught_up()
    log = noted(witness.entries, Log())
    judge(faults, heard, log, last)
    return Outcome(faults, interrupted, log, len(witness.entries), clock() - began)


async def _roll(workers: _Workers, faults: Faults, draw: random.Random) -> None:
    """Restart a worker each second, in turn; a restart that has begun also ends."""
    restarting = dict[str, asyncio.Task[None]]()
    try:
        for each in cycle(workers.all):
            await asyncio.sleep(RESTART_S)
            if each.role in restarting:
                await asyncio.shield(restarting[each.role])
            number = signal.SIGKILL if draw.random() < KILLED else signal.SIGTERM
            faults.counts["killed" if number == signal.SIGKILL else "left"] += 1
            restarting[each.role] = asyncio.create_task(workers.restart(each, faults, number))
    finally:
        await asyncio.gather(*restarting.values())


def _number(name: str) -> int:
    return int(name.partition("-")[2])


async def _all_read(heard: Heard) -> tuple[bool, int]:
    """Whether both workers that ask a round have read its end, for all that were begun."""
    read = sum(
        name in heard.read.get(f"worker {place}", ())
        for name in heard.begun
        for place in asked_by(_number(name))
    )
    return read == 2 * len(heard.begun), read


async def _emptied(durable: Durable) -> tuple[bool, list[int]]:
    """Look whether all that was put or told is acknowledged."""
    shown = [each async for each in durable.queues() if each.queue in {ANNOUNCED, ENDED, JOBS}]
    left = [each.items + each.delayed + each.leased for each in shown]
    return not any(left), left


async def _read(durable: Durable, name: str) -> End:
    """Read a round, as one that comes much later."""
    found = await durable.status(name)
    return found.state, found.result, found.by
