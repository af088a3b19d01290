"""The service as a process of its own, and what can be seen of it from outside."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Self

from bench.service.channel import Channel, open_channel
from bench.service.dialects import request
from bench.service.processes import children

__all__ = ["Served", "processor_lost_ms", "stats_over"]

PATIENCE_S = 30.0
LOOK_S = 0.02
FREE_PORT = (sys.executable, "-m", "purgatory_async", "serve", "--port", "0")
_STATS = request("GET", "/v1/admin/stats")


class Served:
    """A ``purgatory serve`` process; a context manager that kills it at the end.

    Args:
        flags: The flags of the command; a free port is taken unless they have another.
        command: Starts it.
        descriptors: The descriptors of sockets that it inherits.

    Attributes:
        port: Where it listens.
        process: The process.
    """

    def __init__(
        self, *flags: str, command: Sequence[str] = FREE_PORT, descriptors: Sequence[int] = ()
    ) -> None:
        self._command = [*command, *flags]
        self._descriptors = descriptors

    def __enter__(self) -> Self:
        command = self._command
        self._log = TemporaryFile()
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._log, text=True, pass_fds=self._descriptors
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.strip():
            code = self.process.wait()
            self._log.seek(0)
            raise RuntimeError(f"{' '.join(command)} ended with {code}: {self._log.read().decode()}")
        self.port = int(line.rpartition(":")[2])
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()

    def resident_kib(self) -> int:
        """The memory it has, in KiB."""
        return self._memory_kib("VmRSS")

    def peak_kib(self) -> int:
        """The most memory that it has had so far, in KiB."""
        return self._memory_kib("VmHWM")

    def _memory_kib(self, name: str) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(name))

    def processor_lost_ms(self) -> float:
        """For how long it was ready to run and had no processor, in milliseconds, since its start."""
        return processor_lost_ms(self.process.pid)

    def files(self) -> int:
        """How many files, so how many connections and a few more, it has open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def children(self) -> list[int]:
        """The processes that it has started and that still run, oldest first."""
        return children(self.process.pid)

    def logged(self, message: str) -> int:
        """How many records of its log have a message."""
        text = os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0)
        return text.count(f'"message": "{message}"'.encode())

    def terminate(self) -> None:
        """Ask it to stop."""
        self.process.send_signal(signal.SIGTERM)

    async def exited(self) -> float:
        """Wait for its end.

        Returns:
            When that was seen, by `time.perf_counter`; it is looked for every 20 ms.
        """
        while self.process.poll() is None:  # noqa: ASYNC110 - a process that ends sets no event
            await asyncio.sleep(LOOK_S)
        return time.perf_counter()

    async def stats(self) -> dict[str, Any]:
        """Its figures, over a connection of their own."""
        channel = await open_channel(self.port)
        try:
            return await stats_over(channel)
        finally:
            channel.close()

    async def held(self) -> int:
        """How many requests it holds."""
        counts = (await self.stats())["counts"]
        return int(counts["held"]) + int(counts["takers"])


async def stats_over(channel: Channel) -> dict[str, Any]:
    """Ask a service for its figures over a connection that stands."""
    found: dict[str, Any] = json.loads((await channel.ask(_STATS)).body)
    return found


def processor_lost_ms(pid: int) -> float:
    """Return for how long the first thread of a process was ready to run and had no processor, in milliseconds.

    Raises:
        OSError: There is no such process.
    """
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[1]) / 1e6
