"""``serve --workers N``: one process that listens, and keeps N workers that accept from its sockets.

Connections wait in a socket's one queue, which no worker's death empties. With ``SO_REUSEPORT`` each worker would have
a queue of its own: one that dies would reset what waits in it, and one that stands still would keep it waiting while
the others are idle.

A worker that ends is started again, after a second at first and up to half a minute if it keeps ending. One whose start
is refused, or whose state is damaged, would end again: before all were ready that ends the whole, afterwards the others
go on without it. One that is started again must find the store with the epoch that the workers know, which changes only
when one of them sees a loss.
"""

import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import fields
from pathlib import Path
from typing import IO, Final

import anyio
from anyio.abc import Process, TaskStatus

from purgatory_async.cluster.log import LogDamaged
from purgatory_async.durable.links.public_url import PublicUrl
from purgatory_async.service.access.rates import shared_file
from purgatory_async.service.channel import (
    DRAIN,
    Answer,
    Ask,
    Channel,
    Epoch,
    Forwarded,
    Message,
    Ready,
    Refused,
    Serving,
    Start,
)
from purgatory_async.service.logs import ForwardingHandler, Log, stderr_log
from purgatory_async.service.process.listeners import BACKLOG, Listeners, StartRefused, listen
from purgatory_async.service.process.manager import Manager
from purgatory_async.service.process.server import DAMAGED, REFUSED, run_on_uvloop, signals_of
from purgatory_async.service.settings.settings import Settings

FIRST_PAUSE: Final = 1.0  # seconds before a worker is started again
LONGEST_PAUSE: Final = 30.0  # also how long it serves before its pause is the first one again
_STANDARD_ERROR: Final = 2
MODULE: Final = "purgatory_async.service.process.worker"


class _Worker:
    """What is known of one of the workers."""

    def __init__(self, number: int) -> None:
        self.number: Final = number
        self.process: Process | None = None
        self.channel: Channel | None = None
        self.ready_at: float | None = None
        self.reason = ""
        self.epoch = ""  # of the store, as it knows it

    def send(self, message: Message) -> None:
        """Send it a message; none while it does not run."""
        if self.channel is not None:
            self.channel.send(message)

    def terminate(self) -> None:
        """Let its process end, unless that has ended already."""
        with suppress(ProcessLookupError):
            if self.process is not None:
                self.process.terminate()

    def disconnect(self) -> None:
        """Forget its process; one that still runs ends by itself."""
        if self.channel is not None:
            self.channel.close()
        self.process = self.channel = self.ready_at = None


class Supervisor:
    """Keeps the workers of one service.

    Args:
        settings: All of them; each worker gets the same.
        listeners: From `listen`.
        log: For what operators should know.
        command: Starts a worker, with its channel's and the sockets' descriptors as its last arguments.
        manager: The manager of this process; None for none.
    """

    def __init__(
        self,
        settings: Settings,
        listeners: Listeners,
        log: Log,
        command: Sequence[str] | None = None,
        *,
        manager: Manager | None = None,
    ) -> None:
        self._settings = settings
        self._listeners = listeners
        self._log = log
        self._manager = manager or Manager({}, log)
        self._command = [sys.executable, *_path_flags(), "-m", MODULE] if command is None else command
        self._workers = [_Worker(number) for number in range(1, settings.workers + 1)]
        self._rates: IO[bytes] | None = None  # which all workers count in, while they run
        self._kept = {worker.number for worker in self._workers}
        self._complete = False  # whether all were ready at some time
        self._epoch = ""  # of the store, as a worker said last
        self._draining = False  # an administrator drains the workers
        self._stopping = anyio.Event()
        self._failed = False  # a worker, while it stopped
        self._ending: Exception | None = None  # ends the whole
        self._announce: Callable[[str], None]

    async def run(self, announce: Callable[[str], None]) -> int:
        """Keep the workers until SIGTERM or SIGINT, then wait until all have ended.

        Args:
            announce: Called with the address, once all workers were ready.

        Returns:
            The exit code: 0 if all stopped as they should, 1 if one failed meanwhile.

        Raises:
            StartRefused: The workers' start was refused, or the last remaining worker's.
            LogDamaged: They cannot start because the state is damaged.
        """
        self._announce = announce
        if not self._settings.reuse_port:  # else the process before us serves the port until a worker can
            for sock in self._listeners.sockets:
                sock.listen(BACKLOG)  # from here on connections wait for a worker
        with ExitStack() as files:
            if self._settings.tokens:
                self._rates = files.enter_context(shared_file())
            await self._keep_all()
        self._log.info("stopped")
        if self._ending is not None:
            raise self._ending
        return int(self._failed)

    async def _keep_all(self) -> None:
        """Keep the workers and take signals, until all workers have ended."""
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._forward_signals)
            tasks.start_soon(self._keep_alive)
            async with anyio.create_task_group() as workers:
                for worker in self._workers:
                    workers.start_soon(self._keep, worker)
            tasks.cancel_scope.cancel()

    async def _keep_alive(self) -> None:
        while self._manager.every is not None:
            self._manager.alive()
            await anyio.sleep(self._manager.every)

    async def _forward_signals(self, *, task_status: TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(*signals_of(self._settings)) as signals:
            task_status.started()
            async for number in signals:
                if number == signal.SIGHUP:
                    # One that is starting takes it later: it may have read the old tokens.
                    self._manager.reloading()
                    self._tell(Forwarded(number), self._workers)
                    self._manager.reloaded()
                else:
                    self._log.info("stopping", signal=number.name)
                    self._stop(number)

    def _stop(self, number: signal.Signals) -> None:
        """Forward a signal to stop; start no worker any more."""
        repeated = self._stopping.is_set()
        self._stopping.set()
        self._manager.stopping()
        # Otherwise connections would wait here for workers that have stopped accepting. A Unix socket keeps its file,
        # for the workers serve it until the end of the drain delay.
        for sock in self._listeners.sockets:
            sock.close()
        ready = [worker for worker in self._workers if worker.ready_at is not None]
        self._tell(Forwarded(number, repeated), ready)
        for worker in self._workers:
            if worker.ready_at is None:
                worker.terminate()

    def _tell(self, message: Message, workers: Sequence[_Worker]) -> None:
        for worker in workers:
            worker.send(message)

    async def _keep(self, worker: _Worker) -> None:
        """Run a worker again and again, until the service stops or another start would not help."""
        pause = FIRST_PAUSE
        while not self._stopping.is_set():
            code, served = await self._run_one(worker)
            ended = _shown(code)
            if self._stopping.is_set():
                # One that was not ready yet is terminated.
                if code and served is not None:
                    self._failed = True
                    self._log.error("worker failed while it stopped", worker=worker.number, **ended)
            elif code in {REFUSED, DAMAGED} and not (worker.epoch and worker.epoch != self._epoch):
                self._give_up(worker, code)
                return
            else:
                if served is not None and served >= LONGEST_PAUSE:
                    pause = FIRST_PAUSE
                self._log.error("worker ended", worker=worker.number, **ended, started_again_in=pause)
                with anyio.move_on_after(pause):
                    await self._stopping.wait()
                pause = min(2 * pause, LONGEST_PAUSE)

    def _give_up(self, worker: _Worker, code: int) -> None:
        """Go on without a worker that would end again; stop if it is the last, or the service is only starting."""
        self._kept.discard(worker.number)
        if self._complete and self._kept:
            self._log.error(
                "worker is given up, the others go on without it: mend the reason, then restart the service",
                worker=worker.number,
                code=code,
                reason=worker.reason,
            )
        elif self._ending is None:
            self._ending = (StartRefused if code == REFUSED else LogDamaged)(worker.reason)
            # Twice: a service that was never ready needs no drain delay.
            self._stop(signal.SIGTERM)
            self._stop(signal.SIGTERM)

    async def _run_one(self, worker: _Worker) -> tuple[int, float | None]:
        """Run a worker once; return its exit code, and for how many seconds it was ready, None for never."""
        worker.reason = f"worker {worker.number} could not start; its messages are above"
        try:
            ours, theirs = socket.socketpair()
            with theirs:
                await self._connect(worker, ours)
                worker.process = await self._spawn(theirs)
            self._log.info("worker started", worker=worker.number, pid=worker.process.pid)
            return await self._follow(worker, worker.process)
        except OSError as error:
            self._log.error("worker has no process", worker=worker.number, reason=str(error))
            return 1, None
        finally:
            worker.disconnect()
            self._tell_who_serves()

    async def _connect(self, worker: _Worker, ours: socket.socket) -> None:
        channel = await Channel.over(ours)
        # Before anything that the other workers send.
        rates = None if self._rates is None else self._rates.fileno()
        worker.epoch = self._epoch
        channel.send(Start(worker.number, _plain(self._settings), self._serving(), rates, self._epoch))
        if self._draining:
            channel.send(Ask(DRAIN, 0, 0))
        worker.channel = channel

    async def _follow(self, worker: _Worker, process: Process) -> tuple[int, float | None]:
        """Take what a worker sends until it has ended; return as `_run_one` does."""
        if self._stopping.is_set():
            worker.terminate()
        while worker.channel is not None and (message := await worker.channel.receive()) is not None:
            self._take(worker, message)
        code = await process.wait()
        return code, None if worker.ready_at is None else anyio.current_time() - worker.ready_at

    async def _spawn(self, theirs: socket.socket) -> Process:
        descriptors = [sock.fileno() for sock in (theirs, *self._listeners.sockets)]
        shared = [] if self._rates is None else [self._rates.fileno()]
        return await anyio.open_process(
            [*self._command, *map(str, descriptors)],
            stdin=subprocess.DEVNULL,
            stdout=None,
            stderr=None,
            pass_fds=[*descriptors, *shared],
            start_new_session=True,  # a terminal's Ctrl-C reaches it once, through us
        )

    def _take(self, worker: _Worker, message: Message) -> None:
        """Take a message of a worker, or pass it on."""
        match message:
            case Ready():
                worker.ready_at = anyio.current_time()
                self._tell_who_serves()
            case Epoch(epoch):
                self._epoch = worker.epoch = epoch
            case Refused(reason):
                worker.reason = reason
            case Ask(what):
                self._draining = self._draining or what == DRAIN
                self._tell(message, [other for other in self._workers if other is not worker])
            case Answer(to):
                self._tell(message, [other for other in self._workers if other.number == to])
            case _:
                pass  # for workers

    def _serving(self) -> Serving:
        serving = [worker.number for worker in self._workers if worker.ready_at is not None]
        return Serving(serving, len(self._workers), self._complete)

    def _tell_who_serves(self) -> None:
        serving = self._serving()
        every = len(serving.workers) == serving.total
        first = every and not self._complete and not self._stopping.is_set()
        self._complete = serving.complete = self._complete or first
        self._tell(serving, self._workers)
        if first:
            address = self._listeners.address
            self._log.info("all workers are ready", address=address, workers=serving.total)
            self._manager.ready(address)
            self._announce(address)


def _plain(settings: Settings) -> dict[str, object]:
    """Return the settings by name, as a configuration file could have them."""
    values = {known.name: getattr(settings, known.name) for known in fields(Settings)}
    texts = {name: str(value) for name, value in values.items() if isinstance(value, Path | PublicUrl)}
    return {**values, **texts, "store": settings.store.url}


def _shown(code: int) -> dict[str, object]:
    """Return how a process ended, as members of a log record."""
    if code >= 0:
        return {"code": code}
    known = -code in signal.Signals.__members__.values()
    return {"signal": signal.Signals(-code).name if known else -code}


def _path_flags() -> list[str]:
    """Return the flag without which ``-m`` would import from the working directory, unless this process does."""
    return [] if sys.path[:1] in ([""], [str(Path.cwd())]) else ["-P"]


def supervise(settings: Settings, announce: Callable[[str], None]) -> int:
    """Run the service in several processes until SIGTERM or SIGINT; both and SIGHUP mean what they do for `serve`.

    Args:
        settings: All of them.
        announce: Called with the address, once all workers were ready.

    Returns:
        The exit code, as of `Supervisor.run`.

    Raises:
        StartRefused: The sockets cannot be had, as `listen` says, or a worker refused its start.
        LogDamaged: The state is damaged.
    """
    # Closed standard streams would give their numbers to sockets, which the workers would take for their streams.
    while (filler := os.open(os.devnull, os.O_RDWR)) <= _STANDARD_ERROR:
        pass
    os.close(filler)
    logging.captureWarnings(True)
    codes: list[int] = []
    with listen(settings, os.environ) as listeners:

        async def _main() -> None:
            log = stderr_log()
            logging.getLogger().handlers = [ForwardingHandler(log)]
            supervisor = Supervisor(settings, listeners, log, manager=Manager(os.environ, log))
            codes.append(await supervisor.run(announce))

        run_on_uvloop(_main)
    return codes[0]
