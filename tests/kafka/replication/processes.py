"""Three brokers, each a process that can be stopped, killed and started again."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Self

from tests.kafka.plain_client import PlainClient
from tests.kafka.protocol import FETCH, LIST_OFFSETS, METADATA
from tests.ports import free_port
from tests.processes import purgatory

BROKERS = range(3)
PATIENCE_S = 60
DEBUGGER = -2
LATEST = -1


class Processes:
    """The brokers of one cluster; leaving it kills those that run."""

    def __init__(self, *options: str) -> None:
        self._options = options
        self.ports = {number: free_port() for number in BROKERS}
        self._nodes = ",".join(f"{number}@127.0.0.1:{port}" for number, port in self.ports.items())
        self._running: dict[int, subprocess.Popen[str]] = {}

    def __enter__(self) -> Self:
        try:
            for number in BROKERS:
                self.start(number)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        for number in tuple(self._running):
            self.kill(number)

    @property
    def addresses(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def start(self, number: int) -> None:
        """Returns once it listens."""
        flags = ("--id", number, "--nodes", self._nodes, *self._options)
        started = self._running[number] = purgatory("kafka", *flags, stderr=None)
        line = started.stdout.readline()
        assert "serves at" in line, line

    def kill(self, number: int) -> None:
        process = self._running.pop(number)
        process.kill()
        process.wait()
        process.stdout.close()

    def stop(self, number: int) -> None:
        """Returns once it stands still."""
        process = self._running[number]
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)

    def resume(self, number: int) -> None:
        self._running[number].send_signal(signal.SIGCONT)

    async def ask(self, number: int, key: int, version: int, **values: Any) -> Any:
        address = SimpleNamespace(host="127.0.0.1", port=self.ports[number])
        async with PlainClient(address) as client:
            return await client.ask(key, version, **values)

    async def partition(self, number: int, topic: str, index: int = 0) -> Any:
        """What a broker's metadata tell of a partition; None if it knows no such topic."""
        answer = await self.ask(
            number, METADATA, 12, topics=[{"name": topic}], allow_auto_topic_creation=False
        )
        return next((part for part in answer.topics[0].partitions if part.partition_index == index), None)

    async def brokers(self, number: int) -> set[int]:
        return {broker.node_id for broker in (await self.ask(number, METADATA, 12, topics=[])).brokers}

    async def in_sync(self, number: int, topic: str) -> set[int]:
        return set((await self.partition(number, topic)).isr_nodes)

    async def high_watermark(self, number: int, topic: str) -> int:
        """Of partition 0, also on a follower."""
        part = {"partition_index": 0, "timestamp": LATEST}
        answer = await self.ask(
            number, LIST_OFFSETS, 7, replica_id=DEBUGGER, topics=[{"name": topic, "partitions": [part]}]
        )
        return answer.topics[0].partitions[0].offset

    async def records(self, number: int, topic: str) -> bytes:
        """All of partition 0 up to the high watermark, also on a follower."""
        part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 30}
        answer = await self.ask(
            number,
            FETCH,
            12,
            replica_id=DEBUGGER,
            max_bytes=1 << 30,
            max_wait=0,
            min_bytes=0,
            topics=[{"topic": topic, "partitions": [part]}],
        )
        return bytes(answer.responses[0].partitions[0].records)


async def eventually(condition: Callable[[], Any], what: str) -> Any:
    """Ask until it is true."""
    give_up_at = time.monotonic() + PATIENCE_S
    while not (found := await condition()):
        assert time.monotonic() < give_up_at, f"not in {PATIENCE_S} s: {what}"
    return found
