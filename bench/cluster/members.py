"""The processes of `bench.cluster.log_member`: several workers on one log, or one."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

__all__ = ["Burst", "Member", "members"]


@dataclass(frozen=True, slots=True)
class Burst:
    """What clients did at the same time, at one worker or several.

    Attributes:
        per_s: Calls a second, all clients together.
        took_ms: Milliseconds of each call.
    """

    per_s: float
    took_ms: list[float]

    @classmethod
    async def of(
        cls, verb: str, chosen: "list[Member]", clients: int, seconds: float, *where: object
    ) -> "Burst":
        """Let an equal share of the clients call at each of some workers."""
        share = clients // len(chosen)
        done = await asyncio.gather(*(member.do(verb, share, seconds, *where) for member in chosen))
        took_ms = [took for each in done for took in each["took_ms"]]
        return cls(len(took_ms) / max(each["seconds"] for each in done), took_ms)


class Member:
    """A worker's process.

    Args:
        process: It, with pipes.
    """

    def __init__(self, process: Process) -> None:
        self._process = process

    async def do(self, verb: str, *arguments: object) -> Any:
        """Return what a verb of `bench.cluster.log_member.Member` does.

        Raises:
            RuntimeError: The process has ended; its error stands on standard error.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([verb, arguments]).encode() + b"\n")
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker ended with {await self._process.wait()} while it was to {verb}")
        return json.loads(line)

    async def close(self) -> None:
        """Kill it."""
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def members(number: int) -> AsyncIterator[list[Member]]:
    """Start processes that have not joined a log; they end with the block."""
    started: list[Member] = []
    try:
        for _ in range(number):
            command = [sys.executable, "-m", "bench.cluster.log_member"]
            started.append(
                Member(await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, limit=2**26))
            )
        yield started
    finally:
        for member in started:
            await member.close()
