"""A worker with a `Durable`, as a web application would have it, which tells each step on its standard output.

It asks questions and submits orders, and waits for their ends; it answers, pays and reads what the queues tell; it puts
jobs and does them. At SIGTERM it leaves: what runs may end, the rest goes back.

``python -m tests.soak.rolling.worker NAME`` reads its job as JSON from its standard input: the ``store``, its
``place`` among the workers, the ``seed`` of its choices, the ``names`` of rounds that were begun and that it has not
read, the ``next`` number of a new round (null for no new ones), and which ``fault`` it is to have.
"""

import asyncio
import json
import random
import signal
import sys
import time
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any, Final
from uuid import uuid4

from purgatory_async.client import Lease, Operation, RequestRefused
from purgatory_async.durable import Durable
from tests.soak.promises.rounds import MOVED_S
from tests.soak.rolling.rounds import (
    ANNOUNCED,
    CHOICES,
    ENDED,
    JOBS,
    asked_by,
    name_of,
    order_of,
    paid_by,
)

__all__ = ["FAULTS", "Worker"]

ASKERS: Final = 6
LEASE_S: Final = 3.0
GRACE_S: Final = 0.3
JOBS_S: Final = 0.1  # between two jobs that are put
PAUSE_S: Final = 0.2
UNAVAILABLE, CONFLICT = 503, 409
FAULTS: Final = ("forget", "twice")
FAULTY: Final = 0.1  # the share of jobs with a planted fault


class Worker:
    """What a worker does.

    Args:
        durable: Entered.
        job: What it was given.
    """

    def __init__(self, durable: Durable, job: dict[str, Any]) -> None:
        self._durable: Final = durable
        self._job: Final = job
        self._draw: Final = random.Random(job["seed"])

    async def run(self) -> None:
        """Do all of it until cancelled."""
        names = self._names()
        async with asyncio.TaskGroup() as group:
            for _ in range(ASKERS):
                group.create_task(self._ask_all(names))
            if self._job["next"] is not None:
                group.create_task(self._put_jobs())
            for queue, handler in ((ANNOUNCED, self._decide), (ENDED, self._resume), (JOBS, self._do)):
                group.create_task(
                    self._durable.work(
                        queue, handler, concurrency=4, lease=LEASE_S, grace=GRACE_S, on_error=self._report
                    )
                )

    def _names(self) -> Iterator[str]:
        """Iterate over the rounds that it asks: first those that it has begun, then new ones, paced by their ends."""
        yield from self._job["names"]
        if self._job["next"] is None:
            return
        number = self._job["next"]
        while True:
            if self._job["place"] in asked_by(number):
                yield name_of(number)
            number += 1

    # Rounds.

    async def _ask_all(self, names: Iterator[str]) -> None:
        for name in names:
            while not await self._told(name, self._ask(name)):
                pass

    async def _ask(self, name: str) -> None:
        order = order_of(name)
        tell(name, "ask")
        if name.startswith(("pay", "move")):
            found = await self._durable.attach(name, **order)
            if name.startswith("move") and found.pending:
                await self._move(name)
            found = await self._durable.follow(name)
        else:
            found = await self._durable.ask(name, **order.pop("ask"), **order)
        tell(name, "read", view=view_of(found))

    async def _move(self, name: str) -> None:
        tell(name, "move")
        sent = time.monotonic()
        try:
            await self._durable.reschedule(name, timeout=MOVED_S)
        except RequestRefused as refused:
            if refused.status != CONFLICT:
                raise
        else:
            tell(name, "moved", sent=sent)

    async def _decide(self, lease: Lease) -> None:
        """Answer or pay what is announced, or leave it alone; sometimes two answers at once differ."""
        name = lease.item["operation"]
        if name.startswith("pay"):
            await self._durable.signal(paid_by(name), lease.attempts)
        elif name.startswith(("ask", "race")):
            await asyncio.gather(*(self._answer(name) for _ in range(self._draw.choice((1, 1, 2)))))

    async def _answer(self, name: str) -> None:
        mine = {"choice": self._draw.choice(CHOICES), "comment": uuid4().hex}
        tell(name, "answer")
        try:
            found = await self._durable.answer(name, **mine, by=mine["comment"])
            tell(name, "answered", view=view_of(found), accepted=mine)
        except RequestRefused as refused:
            if refused.status != CONFLICT:
                raise
            tell(name, "answered", view=refused.document["operation"])

    async def _resume(self, lease: Lease) -> None:
        """Read what has ended."""
        name = lease.item["operation"]
        tell(name, "delivered", view=view_of(await self._durable.status(name)), state=lease.item["state"])

    # Jobs.

    async def _put_jobs(self) -> None:
        while True:
            number = self._draw.getrandbits(52)
            await self._told(str(number), self._put(number))
            await asyncio.sleep(JOBS_S)

    async def _put(self, number: int) -> None:
        if not self._faulty("forget"):
            await self._durable.put(JOBS, number)
        tell(str(number), "put", job=number)

    async def _do(self, lease: Lease) -> None:
        """Do a job, sometimes for longer than its first lease."""
        for _ in range(1 + self._faulty("twice")):
            tell(str(lease.item), "run", job=lease.item, lease=lease.id)
            await asyncio.sleep(
                self._draw.choice((0, 0.02, 0.1, 0.3, LEASE_S + 1) if lease.item % 16 == 0 else (0, 0.05))
            )
            tell(str(lease.item), "ran", job=lease.item, lease=lease.id)

    def _faulty(self, fault: str) -> bool:
        return self._job["fault"] == fault and self._draw.random() < FAULTY

    # Both.

    async def _told(self, name: str, call: Coroutine[Any, Any, None]) -> bool:
        """Make a call; tell what is wrong with it. Return whether it need not be repeated."""
        try:
            await call
        except RequestRefused as refused:
            away = refused.status == UNAVAILABLE
            tell(name, "unanswered" if away else "odd", what=str(refused))
            if away:
                await asyncio.sleep(PAUSE_S)
            return not away
        return True

    def _report(self, lease: Lease, error: Exception) -> None:
        away = isinstance(error, RequestRefused) and error.status == UNAVAILABLE
        tell(str(lease.item), "unanswered" if away else "odd", what=repr(error))


def view_of(operation: Operation) -> dict[str, Any]:
    """Return what is judged of an operation."""
    return {"state": operation.state, "result": operation.result, "by": operation.by}


def tell(name: str, step: str, **more: Any) -> None:
    """Tell a step, when it begins or what came of it."""
    sys.stdout.write(json.dumps({"name": name, "step": step, "at": time.monotonic(), **more}) + "\n")
    sys.stdout.flush()


async def _main() -> None:
    job = json.load(sys.stdin)
    working = asyncio.current_task()
    assert working is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, working.cancel)
    with suppress(asyncio.CancelledError):
        async with Durable(job["store"], retention="2h") as durable:
            tell("", "begin")
            await Worker(durable, job).run()


if __name__ == "__main__":
    asyncio.run(_main())
