"""``purgatory pipeline``: the Spark jobs as commands, each loaded when it is called."""

import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Final

import click

from purgatory_async.cli.sentence import one_sentence, say
from purgatory_async.pipeline import Refused

REFUSED: Final = 2
INTERRUPTED: Final = 130
TERMINATED: Final = 143

_JOBS: Final = "purgatory_async.pipeline.jobs"
# Help texts are here because each module imports Spark, which takes a second.
COMMANDS: Final = {
    "workload": "Make a workload of operations with random arrivals and latencies.",
    "report": "Report from a journal how operations ended and how long they waited.",
    "windows": "Count operations by outcome, key and time window.",
    "stream": "Keep the windows up to date while a journal grows.",
    "whatif": "Recompute a journal with other timeouts, ticks and wheel sizes.",
    "distributed": "Run the purgatory itself on a cluster.",
}


class _Commands(click.Group):
    """A group of modules, each with its command under the name ``command``."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click calls it
        """The commands whose modules exist."""
        return [name for name in COMMANDS if find_spec(f"{_JOBS}.{name}") is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command; None if it does not exist."""
        if cmd_name not in self.list_commands(ctx):
            return None
        try:
            command = import_module(f"{_JOBS}.{cmd_name}").command
        except ImportError as error:
            raise click.ClickException(_unfit(error)) from None
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each command's name and purpose, without loading it."""
        rows = [(name, COMMANDS[name]) for name in self.list_commands(ctx)]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


def _unfit(error: ImportError) -> str:
    """Why a package of others cannot be used; an error of our own is raised."""
    package = (error.name or "purgatory_async").partition(".")[0]
    if package == "purgatory_async":
        raise error
    install = 'pip install "purgatory-async[spark]"'
    found = None if isinstance(error, ModuleNotFoundError) and error.name == package else find_spec(package)
    if found is None or found.origin is None:
        return f"{package} is not installed; run: {install}"
    place = Path(found.origin).parent
    return f"{package} in {place} does not fit: {error}; take it out of PYTHONPATH, or run: {install}"


@click.group("pipeline", cls=_Commands, invoke_without_command=True)
@click.pass_context
def pipeline(context: click.Context) -> None:
    """Analyse journals and workloads with Spark, on this machine or on a cluster.

    \b
    Example:
      purgatory pipeline workload --out load --requests 100000 --rate 1000 --profile low --timeout 0.2
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def run(arguments: Sequence[str]) -> int:
    """Run a command of the pipeline; ``arguments`` start with ``pipeline``.

    Returns:
        The exit code: 0 done, 2 refused with one sentence on standard error, 130 interrupted, 143 terminated.
    """
    terminated: list[int] = []

    def terminate(number: int, _: FrameType | None) -> None:
        """Exit as after an error, so that unfinished output is removed and Spark is stopped."""
        terminated.append(number)
        sys.exit(TERMINATED)

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        pipeline.main(list(arguments[1:]), prog_name="purgatory pipeline", standalone_mode=False)
    except click.Abort:
        return INTERRUPTED
    except (click.ClickException, Refused) as error:
        say(f"purgatory: {one_sentence(error)}", err=True)
        return REFUSED
    except BaseException:
        # On the way out any call may fail, as that to a Spark which the same signal ended.
        if not terminated:
            raise
        say("purgatory: terminated; only complete results are in place", err=True)
        return TERMINATED
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0
