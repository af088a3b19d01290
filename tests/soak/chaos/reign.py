"""Workers, clients and what is done to them, for a while; and the reading afterwards."""

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from bench.cluster.stores import Store
from bench.cluster.worker import Worker
from tests.soak.chaos.answers import Answers, Faults
from tests.soak.chaos.client import Client, Unanswered
from tests.soak.chaos.judge import judge
from tests.soak.chaos.load import KEYS, LEASE_S, QUEUES, Load
from tests.soak.chaos.witness import History, history_of, witnessed

__all__ = ["WORKERS", "Outcome", "kill_workers", "reign", "save_checkpoints", "under"]

WORKERS: Final = 3
CLIENTS: Final = 16
KILL_S: Final = 1.0
CUT_S: Final = 0.1
CHECKPOINT_S: Final = 7.0
DIGEST_S: Final = 11.0  # a worker tells its digest every 10 s
COMPARED: Final = 300  # operations that are read at every worker
FLAGS: Final = ("--retention", "60m", "--max-wait", "10s", "--jitter", "0")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it.

    Attributes:
        answers: All of them, with what was wrong.
        history: What the log says.
        entries: How many the log has.
        answered: How many requests were.
        repeated: How many attempts clients repeated.
    """

    answers: Answers
    history: History
    entries: int
    answered: int
    repeated: int


async def reign(store: Store, seconds: int, seed: int) -> Outcome:
    """Let chaos reign on an empty store, then look at what is left."""
    answers, draw = Answers(), random.Random(seed)
    async with witnessed(store.url) as witness:
        workers = [Worker(*FLAGS, "--store", store.url) for _ in range(WORKERS)]
        clients = [Client(workers, random.Random(f"{seed} {number}")) for number in range(CLIENTS)]
        try:
            await asyncio.gather(*(worker.start() for worker in workers))
            await asyncio.gather(*(worker.ready() for worker in workers))
            load = Load(answers, draw)
            await _under_attack(store, workers, clients, load, seconds, draw=draw)
            await _settle(clients, workers, load, seconds)
            await witness.caught_up()
        finally:
            for client in clients:
                client.close()
            await asyncio.gather(*(worker.close() for worker in workers))
    history = history_of(witness.entries)
    judge(answers, history)
    return Outcome(
        answers,
        history,
        len(witness.entries),
        sum(client.answered for client in clients),
        sum(client.repeated for client in clients),
    )


async def _under_attack(
    store: Store,
    workers: Sequence[Worker],
    clients: Sequence[Client],
    load: Load,
    seconds: int,
    *,
    draw: random.Random,
) -> None:
    """Let the clients work while workers and connections are killed; return when both have ended."""
    answers = load.answers
    until = asyncio.get_running_loop().time() + seconds
    attacks = [kill_workers(workers, answers, draw), save_checkpoints(store.url, answers, draw)]
    if store.cuts:
        attacks.append(_cut_connections(store, answers))
    async with under(*attacks):
        await asyncio.gather(*(_work(client, load, until) for client in clients))


@asynccontextmanager
async def under(*attacks: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run attacks meanwhile; raises what ends one of them."""
    attacking = [asyncio.create_task(attack) for attack in attacks]
    try:
        yield
    finally:
        for attack in attacking:
            attack.cancel()
        results = await asyncio.gather(*attacking, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result


async def _work(client: Client, load: Load, until: float) -> None:
    clock = asyncio.get_running_loop().time
    while clock() < until:
        try:
            await load.turn(client)
        except Unanswered as error:
            load.answers.counts["unanswered"] += 1
            load.answers.examples.append(f"unanswered: {error}")


async def kill_workers(workers: Sequence[Worker], faults: Faults, draw: random.Random) -> None:
    """Each second, kill a worker that is ready if another one is, too, and start it again at once."""
    # Tasks of their own: a kill that was cancelled before its start would leave a worker dead.
    restarting: set[asyncio.Task[None]] = set()
    try:
        while True:
            await asyncio.sleep(KILL_S)
            for worker in workers:
                if worker.ended is not None and worker.ended != -signal.SIGKILL:
                    faults.wrong("different", f"a worker ended with {worker.ended}: {worker.log()}")
                    restarting.add(asyncio.create_task(worker.start()))
            ready = [worker for worker in workers if await worker.is_ready()]
            if len(ready) > 1:
                restarting.add(asyncio.create_task(_restart(draw.choice(ready))))
                faults.counts["killed"] += 1
    finally:
        if restarting:
            await asyncio.wait(restarting)


async def _restart(worker: Worker) -> None:
    await worker.kill()
    await worker.start()


async def _cut_connections(store: Store, answers: Answers) -> None:
    while True:
        await asyncio.sleep(CUT_S)
        with suppress(OSError):
            answers.counts["cut"] += await store.cut()


async def save_checkpoints(url: str, faults: Faults, draw: random.Random) -> None:
    """Save checkpoints, so that workers start from them; some are killed meanwhile."""
    command = (sys.executable, "-m", "purgatory_async.durable.checkpoints.checkpointing", "always")
    while True:
        await asyncio.sleep(CHECKPOINT_S)
        saving = await asyncio.create_subprocess_exec(
            *command,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, "PURGATORY_STORE": url},
        )
        try:
            async with asyncio.timeout(draw.choice((0.5, 30.0))):
                faults.counts["saved"] += await saving.wait() == 0
        except TimeoutError:
            pass
        finally:
            if saving.returncode is None:
                saving.kill()
                await saving.wait()


async def _settle(clients: Sequence[Client], workers: Sequence[Worker], load: Load, seconds: int) -> None:
    """Let all that is due happen, empty the queues, and read everything once more."""
    answers = load.answers
    for client in clients:
        client.hanging_up = 0.0  # an item that it takes and does not see would be leased for too long
    await asyncio.gather(*(worker.ready() for worker in workers))
    # Leases, and the timeouts of the load, end meanwhile.
    await asyncio.sleep(max(2 * LEASE_S, min(DIGEST_S, seconds)))
    for queue in QUEUES:
        while await load.take(clients[0], queue, "0s", surely=True):
            pass
    names = [known_as for known_as, operation in answers.operations.items() if operation.known]
    await asyncio.gather(
        *(
            _read_again(client, workers, names[place :: len(clients)], answers)
            for place, client in enumerate(clients)
        )
    )
    await _compare_keys(clients[0], workers, answers)


async def _read_again(
    client: Client, workers: Sequence[Worker], names: Sequence[str], answers: Answers
) -> None:
    clock = asyncio.get_running_loop().time
    for place, known_as in enumerate(names):
        everywhere = place < COMPARED // CLIENTS
        asked = workers if everywhere else [workers[place % len(workers)]]
        views = []
        for worker in asked:
            reply = await client.ask("GET", f"/v1/operations/{known_as}", worker=worker)
            if reply.status != 200:
                answers.wrong("lost", f"{known_as} is answered {reply.status} {reply.body}")
                continue
            answers.show(known_as, reply.body["state"], reply.began, clock())
            if reply.body["state"] == "pending":
                reply.body["elapsed"] = None
            views.append(reply.body)
        if any(view != views[0] for view in views):
            answers.wrong("different", f"{known_as} is shown as {views}")


async def _compare_keys(client: Client, workers: Sequence[Worker], answers: Answers) -> None:
    for key in KEYS:
        replies = [await client.ask("GET", f"/v1/keys/{key}", worker=worker) for worker in workers]
        if any(reply.body != replies[0].body for reply in replies):
            answers.wrong("different", f"{key} is shown as {[reply.body for reply in replies]}")
        if replies[0].body["index"] < answers.indexes.get(key, 0):
            answers.wrong("lost", f"{key} shows {replies[0].body}, was {answers.indexes[key]}")
