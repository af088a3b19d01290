"""``purgatory demo``: a demo service on a free port and its load, in one process."""

import logging
import random
import shlex
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import click
from anyio.abc import TaskGroup
from rich.console import Console
from rich.live import Live

from purgatory_async import Timer
from purgatory_async.cli.connection import Pool
from purgatory_async.cli.demo_frames import FrameTaker
from purgatory_async.cli.load import Load
from purgatory_async.metrics import Metrics
from purgatory_async.service.logs import stderr_log
from purgatory_async.service.process.listeners import Listeners
from purgatory_async.service.process.server import Server, run_on_uvloop
from purgatory_async.service.settings.settings import Settings

ANNOUNCEMENT: Final = "purgatory demo answers at "
FRAME_SECONDS: Final = 1.0


def how_to_look(address: str) -> str:
    """Shell commands to try while a demo runs."""
    return (
        f"  look:  {address}/ui/\n"
        f"         curl '{address}/v1/operations?limit=3'\n"
        f"         curl '{address}/v1/wait?key=topic:0&wait=5s'\n"
        f"         curl -N {address}/v1/events\n"
        f"         curl {address}/metrics"
    )


def what_was_recorded(metrics: Metrics, journal: Path) -> str:
    """The service's counts, to compare with its journal's."""
    ended = ", ".join(f"{outcome} {number}" for outcome, number in metrics.ended.items())
    return (
        f"recorded in {journal}: operations {metrics.submitted}, {ended}\n"
        f"  learn:  purgatory pipeline report --journal {shlex.quote(str(journal))} --out report"
    )


def run_demo(settings: Settings, listeners: Listeners, rate: float, seconds: float | None) -> None:
    """Serve and drive load until a signal, or for some seconds.

    Args:
        settings: The settings of the service.
        listeners: From `listen`, with a port alone.
        rate: New clients per second.
        seconds: How long to run; None until a signal.
    """

    async def _main() -> None:
        await _Demo(settings, listeners, rate, seconds).run()

    run_on_uvloop(_main)


class _Demo:
    def __init__(self, settings: Settings, listeners: Listeners, rate: float, seconds: float | None) -> None:
        self._server = Server(settings, listeners, stderr_log(level=logging.WARNING))
        self._pool = Pool(*listeners.sockets[0].getsockname()[:2])
        chance = random.Random()  # noqa: S311 - arrivals, not secrets
        self._load = Load(self._pool, self._server.address, rate, chance)
        self._seconds = seconds
        # The service's timer closes with it, while the load still runs.
        self._timer = Timer()

    async def run(self) -> None:
        """Serve until a signal or the end of the time; the load and the figures end with the server."""
        async with anyio.create_task_group() as tasks:
            await self._server.run(partial(self._begin, tasks))
            tasks.cancel_scope.cancel()
        self._pool.close()
        service = self._server.app.service
        if service.settings.journal is not None:
            click.echo(what_was_recorded(service.metrics, service.settings.journal))

    def _begin(self, tasks: TaskGroup, address: str) -> None:
        click.echo(f"{ANNOUNCEMENT}{address}\n{how_to_look(address)}")
        tasks.start_soon(self._load.run)
        tasks.start_soon(self._show, address)
        if self._seconds is not None:
            tasks.start_soon(self._stop_after, self._seconds)

    async def _stop_after(self, seconds: float) -> None:
        await self._timer.sleep(seconds)
        await self._server.stop()

    async def _show(self, address: str) -> None:
        frames, console = FrameTaker(self._server.app.service, self._load), Console()
        if console.is_terminal:
            with Live(console=console, auto_refresh=False) as live:
                while True:
                    await self._timer.sleep(FRAME_SECONDS)
                    live.update(frames.picture(frames.take(), address), refresh=True)
        while True:
            await self._timer.sleep(FRAME_SECONDS)
            click.echo(frames.take().line())
