"""The run: workers, people and an engine, all of which are killed meanwhile; and the reading afterwards."""

import asyncio
import json
import random
import secrets
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

from bench.cluster.worker import Worker
from tests.cluster.servers import Server
from tests.ports import free_port
from tests.soak.chaos.answers import Faults
from tests.soak.chaos.client import Client
from tests.soak.chaos.reign import WORKERS, kill_workers, save_checkpoints, under
from tests.soak.chaos.witness import noted, witnessed
from tests.soak.promises.judge import End, Heard, Log, judge
from tests.soak.promises.person import ROLES
from tests.soak.promises.rounds import ANNOUNCED, ENDED, PUBLIC_URL, name_of

__all__ = ["Outcome", "Process", "run"]

PEOPLE: Final = 2  # processes of each role; both askers ask every question
KILL_PERSON_S: Final = 1.0
KILL_ENGINE_S: Final = 8.0
LOOK_S: Final = 0.2
PATIENCE_S: Final = 60.0
FLAGS: Final = ("--retention", "60m", "--max-wait", "10s", "--jitter", "0", "--public-url", PUBLIC_URL)


class Process:
    """A process of people, which is started again when it was killed.

    Args:
        role: What its people are.
        who: Its name.
        job: What it is given at a start.
        hear: Hears of each of its lines.
        interrupted: Counts the steps that were under way when it was killed.

    Attributes:
        program: Its module.
        last: The steps with which something is over.
    """

    program = "tests.soak.promises.person"
    last = frozenset({"read", "acknowledged", "unanswered"})

    def __init__(
        self,
        role: str,
        who: str,
        job: Callable[[str], Any],
        hear: Callable[[str, Any], None],
        interrupted: Counter[str],
    ) -> None:
        self.role: Final = role
        self._command: Final = (sys.executable, "-m", self.program, role)
        self._who, self._job, self._hear = who, job, hear
        self._interrupted: Final = interrupted
        self._runs: Final = count(1)
        self._steps: Final[dict[str, str]] = {}

    async def start(self) -> None:
        """Start it, and wait until its people are at work: on a slow machine each kill has something to interrupt."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(
            json.dumps({**self._job(self._who), "seed": f"{self._who} {next(self._runs)}"}).encode()
        )
        self._process.stdin.close()
        if not await self._process.stdout.readline():
            raise RuntimeError(f"{self._who} ended with {await self._process.wait()}")
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for text in self._process.stdout:
            if text.endswith(b"\n"):  # else it was killed meanwhile
                line = json.loads(text)
                self._steps[line["name"]] = line["step"]
                if line["step"] in self.last:
                    del self._steps[line["name"]]
                self._hear(self._who, line)

    async def close(self, number: int = signal.SIGKILL) -> int:
        """Let it end by a signal, and hear what it told before; return its exit code."""
        with suppress(ProcessLookupError):  # it has ended by itself
            self._process.send_signal(number)
        await self._reading
        ended = await self._process.wait()
        self._interrupted.update(self._steps.values())
        self._steps.clear()
        return ended


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it.

    Attributes:
        faults: What was wrong, and what was killed.
        interrupted: How many rounds were at which step when the process was killed that made it.
        ends: How many rounds ended in which state.
        entries: How many the log has.
        seconds: How long it took.
    """

    faults: Faults
    interrupted: Counter[str]
    ends: Counter[str]
    entries: int
    seconds: float


async def run(url: str, engine: Server | None, rounds: int, seed: int) -> Outcome:
    """Ask, answer and read, with kills of everything, on an empty store; then judge what was told.

    Args:
        url: The store.
        engine: Its server; None for one in the workers themselves.
        rounds: How many.
        seed: Seeds the random choices.
    """
    clock = asyncio.get_running_loop().time
    began, draw, faults, interrupted = clock(), random.Random(seed), Faults(), Counter[str]()
    heard, names = Heard(faults), [name_of(number) for number in range(rounds)]
    async with AsyncExitStack() as stack:
        witness = await stack.enter_async_context(witnessed(url))
        ports = [free_port() for _ in range(WORKERS)]
        flags = (*FLAGS, "--store", url, "--link-secret", _secret_file(stack))
        workers = [Worker(*flags, "--port", str(port)) for port in ports]

        def _job(who: str) -> dict[str, Any]:
            read = heard.read.get(who, set())
            return {"ports": ports, "names": [name for name in names if name not in read]}

        people = [
            Process(role, f"{role} {number}", _job, heard.hear, interrupted)
            for role in ROLES
            for number in range(PEOPLE)
        ]
        for each in (*workers, *people):
            stack.push_async_callback(each.close)
            await each.start()
        attacks = [
            kill_workers(workers, faults, draw),
            save_checkpoints(url, faults, draw),
            _each(KILL_PERSON_S, lambda: _restart_one(people, faults, draw)),
        ]
        if engine is not None:
            attacks.append(_each(KILL_ENGINE_S, lambda: _restart_engine(engine, faults)))
        async with under(*attacks):
            await until(partial(_all_read, heard, rounds))
        client = Client(workers, draw)
        stack.callback(client.close)
        await until(partial(_emptied, client))
        seconds, last = clock() - began, {name: await _read(client, name) for name in names}
        await witness.caught_up()
    log = noted(witness.entries, Log())
    judge(faults, heard, log, names, last)
    ends = Counter(of.ends[0][0] for of in log.rounds.values() if of.ends)
    return Outcome(faults, interrupted, ends, len(witness.entries), seconds)


def _secret_file(stack: AsyncExitStack) -> str:
    """Write a secret for links; removed with the stack."""
    path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "secret"
    path.touch(mode=0o600)
    path.write_text(secrets.token_hex(32), encoding="ascii")
    return str(path)


async def until(over: Callable[[], Awaitable[tuple[bool, Any]]]) -> None:
    """Wait until something is over, or is as far as it was a while ago: the rest is lost, and judged as that."""
    clock = asyncio.get_running_loop().time
    before, give_up = None, clock() + PATIENCE_S
    while clock() < give_up:
        done, far = await over()
        if done:
            break
        if far != before:
            before, give_up = far, clock() + PATIENCE_S
        await asyncio.sleep(LOOK_S)


async def _read(client: Client, name: str) -> End:
    """Read a round at any worker, as one that comes much later."""
    view = (await client.ask("GET", f"/v1/operations/{name}")).body
    return view.get("state", ""), view.get("result"), view.get("by")


async def _all_read(heard: Heard, rounds: int) -> tuple[bool, list[int]]:
    read = [len(names) for names in heard.read.values()]
    return read == [rounds] * PEOPLE, read


async def _emptied(client: Client) -> tuple[bool, list[int]]:
    """Look whether all that was told on the queues is acknowledged."""
    views = [(await client.ask("GET", f"/v1/queues/{queue}")).body for queue in (ANNOUNCED, ENDED)]
    left = [view["items"] + view["leased"] for view in views]
    return not any(left), left


async def _each(seconds: float, restart: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Restart something again and again; a restart that has begun also ends."""
    restarting = None
    try:
        while True:
            await asyncio.sleep(seconds)
            restarting = asyncio.create_task(restart())
            await asyncio.shield(restarting)
    finally:
        if restarting is not None:
            await asyncio.wait([restarting])


async def _restart_one(people: Sequence[Process], faults: Faults, draw: random.Random) -> None:
    process = draw.choice(people)
    faults.counts[f"killed {process.role}"] += 1
    await process.close()
    await process.start()


async def _restart_engine(engine: Server, faults: Faults) -> None:
    faults.counts["killed engine"] += 1
    await asyncio.to_thread(engine.kill)
    await asyncio.to_thread(engine.start)
