"""The process around the application: the HTTP server, signals, and the order of stopping.

A signal makes ``/readyz`` answer 503 for the drain delay. Then the sockets close, once what waits in their queues is
accepted; every held request is answered, and the connections end once their answers have left.
"""

import asyncio
import errno
import gc
import logging
import os
import resource
import signal
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import anyio
import uvloop  # noqa: F401 - anyio loads it by name: here a missing one is found before anything starts
from anyio.abc import TaskGroup, TaskStatus

from purgatory_async.cluster.log import LogDamaged, LogError, LogRefused
from purgatory_async.durable.backing import tried
from purgatory_async.durable.fold.fold import FoldError
from purgatory_async.durable.stats.recent import Probe
from purgatory_async.service.app import Application, create_app
from purgatory_async.service.http.context import Deadlines, ServerContext
from purgatory_async.service.http.front import Front
from purgatory_async.service.http.head import PROBED
from purgatory_async.service.logs import ForwardingHandler, Log, stderr_log
from purgatory_async.service.process.listeners import BACKLOG, Listeners, StartRefused, accept_waiting, listen
from purgatory_async.service.process.manager import Manager
from purgatory_async.service.settings.settings import Settings, SettingsError

LAG_PERIOD: Final = 0.1  # seconds between two probes of the event loop
LACK_PERIOD: Final = 1.0  # seconds between two probes for a free file descriptor
GRACE: Final = 5  # seconds for answers to leave before their connections are cut
# Of the collector: at most 20 000 young objects at a time, and all only when 20 million more were made than freed.
_THRESHOLDS: Final = (2_000, 10, 1_000)
_LACKS: Final = frozenset({errno.EMFILE, errno.ENFILE})


# Exit codes, and the errors of `Server` that mean them: another start would end the same.
REFUSED: Final = 2
REFUSALS: Final = (LogRefused, SettingsError, StartRefused)
DAMAGED: Final = 3
DAMAGES: Final = (FoldError, LogDamaged)


def signals_of(settings: Settings) -> tuple[signal.Signals, ...]:
    """Return the signals that the service handles; without a file to read again SIGHUP ends a process, as usual."""
    return (
        signal.SIGTERM,
        signal.SIGINT,
        *((signal.SIGHUP,) if settings.tokens or settings.link_secret else ()),
    )


def store_of(settings: Settings) -> str:
    """Return where the state is kept, as the log shows it."""
    lost = "; what waits is lost with the process: --store keeps it" if settings.store.in_memory else ""
    return f"{settings.store}{lost}"


class Server:
    """One service on its sockets.

    Args:
        settings: All of them.
        listeners: From `listen`.
        log: For what operators should know.
        manager: The manager of this process; None if another one speaks with it, or none does.
    """

    def __init__(
        self, settings: Settings, listeners: Listeners, log: Log, manager: Manager | None = None
    ) -> None:
        # asyncio and the journal log through the standard library, the journal from its start.
        root, forwarding = logging.getLogger(), list[logging.Handler]([ForwardingHandler(log)])
        before, root.handlers = root.handlers, forwarding
        logging.getLogger("purgatory_async.journal").setLevel(logging.INFO)
        try:
            self.app: Final[Application] = create_app(settings, log=log)
        except BaseException:
            root.handlers = before
            raise
        self.address: Final = listeners.address
        self._settings = settings
        self._listeners = listeners
        self._log = log
        self._manager = manager or Manager({}, log)
        deadlines = Deadlines(
            head=settings.header_timeout, body=settings.body_timeout, stall=settings.send_timeout
        )
        service = self.app.service
        probed = PROBED | {settings.base_path.encode() + path for path in PROBED}
        context = ServerContext(
            *(self.app, service.timer, deadlines, log, service.held.unsent), now=service.now, probed=probed
        )
        self._front: Final = Front(context, self.app.tasks)
        self._accepting: Final = asyncio.Event()
        self._drained: Final = asyncio.Event()  # only what was answered has yet to leave
        self._cut_now = False
        self._stopping = False  # unlike the service's draining, which an administrator may start long before
        self._tasks: TaskGroup
        self._failure: Exception | None = None  # of the state, which ended the serving
        self._starting = anyio.CancelScope()  # until the store was tried

    async def run(self, announce: Callable[[str], None]) -> None:
        """Serve until `stop`, SIGTERM or SIGINT, then close the service.

        Args:
            announce: Called with the address, once connections are accepted.

        Raises:
            LogRefused: The store cannot be used.
            LogDamaged, FoldError: It is damaged; the message has the position.
        """
        _raise_file_limit()
        service = self.app.service
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            await tasks.start(self._obey_signals)
            tasks.start_soon(self._announce, announce)
            Probe(service.timer, LAG_PERIOD, service.note_lag).start()
            Probe(service.timer, LACK_PERIOD, lambda _: report_lack(self._log)).start()
            if self._manager.every is not None:
                Probe(service.timer, self._manager.every, lambda _: self._manager.alive()).start()
            tasks.start_soon(self._keep_state)
            with anyio.move_on_after(self._settings.store_timeout) as self._starting:
                await tried(
                    service.state
                )  # an error that does not pass with time is reported instead of the address
                if service.peers.number is not None:
                    # The other workers serve meanwhile; if the store is away, all say so.
                    await service.loaded.wait()
            if self._failure is None:
                await self._serve()
            tasks.cancel_scope.cancel()
        await service.aclose()
        self._log.info("stopped")
        if self._failure is not None:
            raise self._failure

    async def stop(self, *, delayed: bool = True) -> None:
        """Drain: stop accepting, answer every held request, and let `run` return when all is sent.

        Args:
            delayed: Whether to serve for the drain delay first.
        """
        self._stopping = True
        self._starting.cancel()
        await self._accepting.wait()
        self._manager.stopping()
        service = self.app.service
        service.leaving = True
        if delayed and self._settings.drain_delay:
            await service.timer.sleep(self._settings.drain_delay)
        self._listeners.withdraw()
        await self._front.stop_accepting(self._accept_waiting())
        self._log.info("draining", held=service.drain(), pending=service.pending)
        self._drained.set()

    def obey(self, number: signal.Signals, *, repeated: bool = True) -> None:
        """Stop on the first SIGTERM or SIGINT, cut the unanswered connections on the second; reload on SIGHUP.

        Args:
            number: The signal.
            repeated: Whether one that stops already counts this as the second.
        """
        if number == signal.SIGHUP:
            self._reload()
        elif self._stopping:
            if repeated:
                self._log.warning("stopping at once", signal=number.name)
                self._cut()
        else:
            self._stopping = True
            self._log.info("stopping", signal=number.name)
            self._tasks.start_soon(self.stop)

    def abandon(self) -> None:
        """Stop without the drain delay, because the supervisor is gone: the next one needs the port."""
        self._log.error("the supervisor is gone: stopping")
        if self._stopping:
            self._cut()
        else:
            self._stopping = True
            self._tasks.start_soon(partial(self.stop, delayed=False))

    async def _keep_state(self) -> None:
        try:
            await self.app.service.run(self._log)
        except (*REFUSALS, *DAMAGES, LogError) as error:
            if not self._stopping:
                self._failure = error
                self._log.error("the state cannot be kept: stopping", reason=str(error))
                self._starting.cancel()
                self._cut()

    async def _serve(self) -> None:
        """Serve until all is answered, or is to be cut."""
        await self._front.listen(self._listeners.sockets, BACKLOG)
        self._accepting.set()
        await self._drained.wait()
        await self._front.ended(GRACE, lambda: self._cut_now)

    def _accept_waiting(self) -> list[socket.socket]:
        """Accept what waits in the queues of the sockets."""
        waiting: list[socket.socket] = []
        try:
            for sock in self._listeners.sockets:
                waiting.extend(accept_waiting(sock))
        except OSError as error:
            self._log.error("connections that wait are reset", reason=error.strerror)
        return waiting

    def _cut(self) -> None:
        self._cut_now = True
        self._drained.set()

    async def _announce(self, announce: Callable[[str], None]) -> None:
        await self._accepting.wait()
        self._log.info("listening", address=self.address, store=store_of(self._settings))
        if self._settings.public_url is not None and self._settings.link_secret is None:
            self._log.warning("links end with this run: give --link-secret FILE to keep them")
        self._manager.ready(self.address)
        announce(self.address)

    async def _obey_signals(self, *, task_status: TaskStatus[None]) -> None:
        supervised = self.app.service.peers.number is not None
        with anyio.open_signal_receiver(*signals_of(self._settings)) as signals:
            task_status.started()
            async for number in signals:
                # A service manager may signal a supervisor and its workers: only the supervisor repeats one.
                self.obey(number, repeated=not supervised)

    def _reload(self) -> None:
        """Read the files of secrets again, each for itself."""
        self._manager.reloading()
        for what, file, reload in (
            ("tokens", self._settings.tokens, self.app.access.reload),
            ("link secrets", self._settings.link_secret, self.app.service.links.reload),
        ):
            if file is None:
                continue
            try:
                reload()
            except SettingsError as error:
                self._log.error(f"{what} kept as they were", reason=str(error))
            else:
                self._log.info(f"{what} read again", file=str(file))
        self._manager.reloaded()


def report_lack(log: Log) -> None:
    """Log an error if no file descriptor is left; uvloop then resets new connections silently."""
    try:
        socket.socket(socket.AF_UNIX).close()
    except OSError as error:
        if error.errno in _LACKS:
            log.error(  # noqa: TRY400 - an expected state, which has no traceback
                "no file descriptor is left: cannot accept connections; raise LimitNOFILE",
                reason=error.strerror,
                limit=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            )


def _raise_file_limit() -> None:
    """Raise the limit of open files to its maximum: each held request is one, and the default is 1 024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def calm_collector() -> None:
    """Let the garbage collector visit young objects often, and all objects hardly ever.

    A full collection with 15 000 held polls stops the loop for 0.3 s (``python -m bench.service --only held``, without
    this), and a request leaves no cycles behind.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


def run_on_uvloop(main: Callable[[], Awaitable[None]]) -> None:
    """Run an async function on a uvloop loop of its own, in the main thread."""
    anyio.run(main, backend="asyncio", backend_options={"use_uvloop": True})


def serve(settings: Settings, announce: Callable[[str], None]) -> None:
    """Run the service in this process until SIGTERM or SIGINT.

    SIGHUP reads the tokens file and the link secrets again, if there are any; a bad file changes nothing and is logged.

    Args:
        settings: All of them.
        announce: Called with the address, once connections are accepted.

    Raises:
        StartRefused: The sockets cannot be had, as `listen` says.
        SettingsError: The tokens file, the link secrets or the service manager's variables are unusable.
    """
    logging.captureWarnings(True)
    with listen(settings, os.environ) as listeners:
        calm_collector()

        async def _main() -> None:
            log = stderr_log()
            await Server(settings, listeners, log, Manager(os.environ, log)).run(announce)

        run_on_uvloop(_main)
