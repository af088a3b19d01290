"""Starts the process that saves checkpoints, for a worker that serves."""

import asyncio
import os
import sys
from asyncio import sleep
from collections.abc import Callable
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import TYPE_CHECKING, Final, Self

import msgspec

from purgatory_async.clock import monotonic
from purgatory_async.cluster import Log, LogError
from purgatory_async.durable.checkpoints.checkpointing import STORE_VARIABLE, Saved
from purgatory_async.durable.urls import Store, Sync

if TYPE_CHECKING:
    from purgatory_async.metrics import Metrics  # needs what only a service has

ENTRIES: Final = 100_000
BYTES: Final = 64 << 20
RETRY_S: Final = 30.0
"""Seconds until a failed process is tried again, or another worker's checkpoint is looked for."""

# The process imports this package, installed or not, and (-P) nothing from the working directory.
_ROOT: Final = str(Path(__file__).parents[3])


class Checkpointer:
    """Has a checkpoint saved after each 100 000 entries or 64 MiB; an async context manager.

    Every worker has one. They count the same entries, and of the processes that they start at once, one saves. A
    process that fails is reported and tried again after 30 s. Its work never delays the loop.

    Args:
        store: Where the log is.
        log: This worker's, open; it is asked for its newest checkpoint.
        failed: Called with the reason if a process has saved none.
        sync: As for `log_of`.

    Attributes:
        position: The position of the newest checkpoint known; 0 if there is none.
        seconds: How long the last process of this worker took that saved one; 0.0 before.
    """

    def __init__(
        self, store: Store, log: Log, failed: Callable[[str], object], *, sync: Sync = "always"
    ) -> None:
        self.position = 0
        self.seconds = 0.0
        self._store: Final = store
        self._log: Final = log
        self._failed: Final = failed
        # Without the URL: other users can read the arguments of a process.
        self._arguments: Final = (
            sys.executable,
            "-P",
            "-m",
            "purgatory_async.durable.checkpoints.checkpointing",
            sync,
        )
        self._newest = self._bytes = 0
        self._due: Final = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Checkpointer of {self._store.shown} position={self.position} newest={self._newest}>"

    async def __aenter__(self) -> Self:
        """Begin; a checkpoint may be due at once."""
        await self._look()
        self._running = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        """End, and the process under way with it: it leaves nothing visible."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    def note(self, position: int, size: int) -> None:
        """Note that entries up to a position were applied, and how many bytes they have. O(1)."""
        self._newest = position
        self._bytes += size
        if position - self.position >= ENTRIES or self._bytes >= BYTES:
            self._due.set()

    def show(self, metrics: "Metrics") -> None:
        """Export position and duration."""
        metrics.show(
            "purgatory_checkpoint_position", "Position of the newest checkpoint.", lambda: self.position
        )
        metrics.show(
            "purgatory_checkpoint_seconds",
            "How long the last checkpoint took that this worker had saved.",
            lambda: self.seconds,
        )

    async def _run(self) -> None:
        while True:
            await self._due.wait()
            if not await self._look():
                await self._save()
                await self._look()
            if self._newest - self.position < ENTRIES and self._bytes < BYTES:
                self._due.clear()
            else:  # it has failed, or another worker's is not ready
                await sleep(RETRY_S)

    async def _look(self) -> bool:
        """Find the newest checkpoint; returns whether it is newer than the one known."""
        try:
            checkpoint = await self._log.load()
        except LogError:
            return False  # the worker has the same trouble, and reports it
        position = 0 if checkpoint is None else checkpoint.position
        if position == self.position:
            return False
        self.position = position
        self._bytes = 0
        return True

    async def _save(self) -> None:
        began = monotonic()
        try:
            saved = await self._answer()
        except Exception as error:  # noqa: BLE001 - whatever it is, the worker serves on, and tries again
            self._failed(str(error))
            return
        if saved is not None:
            self.seconds = monotonic() - began

    async def _answer(self) -> Saved | None:
        """Return what a process reports to have saved; None if another one is at work."""
        process = self._start()
        ending = asyncio.ensure_future(asyncio.to_thread(process.communicate))
        try:
            answer, complaint = await asyncio.shield(ending)
        except BaseException:
            process.kill()
            await asyncio.wait([ending])
            raise
        if process.returncode:
            said = complaint.decode(errors="replace").strip().rpartition("\n")[2]
            raise RuntimeError(f"{said} (exit code {process.returncode})")
        return msgspec.json.decode(answer, type=Saved | None)

    def _start(self) -> Popen[bytes]:
        # Not through the loop: uvloop forks, and to copy the page tables of a million operations took it 50 ms.
        return Popen(  # noqa: S603 - this program itself
            self._arguments,
            env={
                **os.environ,
                STORE_VARIABLE: self._store.url,
                "PYTHONPATH": os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH")))),
            },
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,  # Ctrl-C must reach only the service, which then ends this process
        )
