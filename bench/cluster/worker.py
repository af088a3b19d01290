"""A worker: a ``purgatory serve`` process on a store, which can be killed and started again."""

import asyncio
import os
import signal
import sys
import tempfile
from typing import Final

from bench.service.channel import open_channel
from bench.service.dialects import request

__all__ = ["Worker"]

READY: Final = request("GET", "/readyz")
OK: Final = 200
LOOK_S: Final = 0.02
PATIENCE_S: Final = 60.0
SHOWN: Final = 2000  # bytes of a log


class Worker:
    """A worker.

    Args:
        flags: Of ``purgatory serve``, besides the port.

    Attributes:
        port: Where it listens; another one after each start.
    """

    def __init__(self, *flags: str) -> None:
        self.port = 0
        self._flags: Final = flags
        self._process: asyncio.subprocess.Process | None = None
        self._log: Final = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker

    async def start(self) -> None:
        """Start it, and wait until it takes connections; it may still load its state."""
        command = [sys.executable, "-m", "purgatory_async", "serve", "--port", "0", *self._flags]
        self._process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=self._log
        )
        assert self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode()
        if not line.strip():
            raise RuntimeError(f"{' '.join(command)} ended: {self.log()}")
        self.port = int(line.rpartition(":")[2])

    async def ready(self) -> None:
        """Wait until it is.

        Raises:
            RuntimeError: It has ended, or is not within a minute; with the end of its log.
        """
        clock = asyncio.get_running_loop().time
        give_up = clock() + PATIENCE_S
        while not await self.is_ready():
            if self.ended is not None or clock() > give_up:
                raise RuntimeError(
                    f"a worker must be ready within {PATIENCE_S:g} s, got exit code {self.ended}: {self.log()}"
                )
            await asyncio.sleep(LOOK_S)

    async def is_ready(self) -> bool:
        """Whether it would serve a request now."""
        try:
            channel = await open_channel(self.port)
        except OSError:
            return False
        try:
            async with asyncio.timeout(1):
                return (await channel.ask(READY)).status == OK
        except (OSError, TimeoutError):
            return False
        finally:
            channel.close()

    async def kill(self) -> None:
        """Kill it with SIGKILL, whatever it does."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)
            await self._process.wait()

    @property
    def ended(self) -> int | None:
        """The exit code, if it has ended."""
        return None if self._process is None else self._process.returncode

    def log(self) -> str:
        """The end of what it wrote to its log."""
        number = self._log.fileno()
        # The worker has the same place in the file: reading must not move it.
        return os.pread(number, SHOWN, max(0, os.fstat(number).st_size - SHOWN)).decode(errors="replace")

    async def close(self) -> None:
        """Kill it for good."""
        await self.kill()
        self._log.close()
