"""The commands and their options; other files implement them."""

import os
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Final, TypeVar

import click

from purgatory_async.cli.arguments import Duration
from purgatory_async.cli.demo import run_demo
from purgatory_async.cli.detach import detach
from purgatory_async.cli.kafka import kafka_command
from purgatory_async.cli.pipeline import pipeline
from purgatory_async.cli.questions import QUESTIONS
from purgatory_async.cli.queues import QUEUES
from purgatory_async.cli.remote import REMOTE
from purgatory_async.cli.sentence import one_sentence, say
from purgatory_async.cli.store import store_command
from purgatory_async.cli.top import top_command
from purgatory_async.client import ServiceError
from purgatory_async.pipeline import Refused
from purgatory_async.service.contract.version import CORE, VERSION
from purgatory_async.service.process.listeners import listen
from purgatory_async.service.process.server import DAMAGED, DAMAGES, REFUSALS, REFUSED, serve
from purgatory_async.service.process.supervisor import supervise
from purgatory_async.service.settings.settings import Settings, choose, read_file, resolve

INTERRUPTED: Final = 130
DETACHED_SECONDS: Final = 3600.0  # a background demo must not run forever

C = TypeVar("C", bound=Callable[..., int | None])


def run(arguments: Sequence[str]) -> int:
    """Run a command; ``arguments`` exclude the program's name.

    Returns:
        The exit code: 0 done, 2 refused with one sentence on standard error, 3 the store's log is damaged,
        130 interrupted; ``wait`` and ``ask`` have more.
    """
    try:
        code = purgatory.main(list(arguments), prog_name="purgatory", standalone_mode=False)
    except click.Abort:
        return INTERRUPTED
    except (click.ClickException, Refused, ServiceError, *REFUSALS) as error:
        say(f"purgatory: {one_sentence(error)}", err=True)
        return REFUSED
    except DAMAGES as error:
        say(f"purgatory: {one_sentence(error)}", err=True)
        return DAMAGED
    return code if isinstance(code, int) else 0


def setting_options(command: C) -> C:
    """Give a command a flag for every setting; an omitted flag is None."""
    for known in reversed(fields(Settings)):
        flag = "--" + known.name.replace("_", "-")
        explanation = known.metadata["help"]
        if isinstance(known.default, bool):
            option = click.option(flag, is_flag=True, default=None, help=explanation)
        elif isinstance(known.default, tuple):
            option = click.option(flag, metavar="VALUE", multiple=True, callback=_if_given, help=explanation)
        else:
            default = known.metadata["shown"] or ("none" if known.default is None else known.default)
            option = click.option(flag, metavar="VALUE", help=f"{explanation}  [default: {default}]")
        command = option(command)
    return command


def _if_given(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...] | None:
    return values or None


@click.group(invoke_without_command=True)
@click.version_option(VERSION, message=f"%(prog)s %(version)s ({CORE})")
@click.pass_context
def purgatory(context: click.Context) -> None:
    """Park operations until a condition on their keys holds or their timeout expires, exactly once.

    \b
    Example:
      purgatory serve --port 8765
      curl 'http://127.0.0.1:8765/v1/wait?key=order:42&wait=30s'
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@purgatory.command("serve")
@click.option(
    "--config", type=click.Path(path_type=Path), help="TOML file with settings, such as max_wait = '30s'."
)
@setting_options
def serve_command(config: Path | None, **flags: object) -> int:
    """Serve until SIGTERM or SIGINT, then answer every held request and exit.

    Settings come from the file, then from variables like PURGATORY_MAX_WAIT, then from flags; the later wins.
    Durations are like 250ms, 55s, 10m, 24h or 30d; plain numbers are seconds.

    \b
    Example:
      purgatory serve --port 0 --max-wait 25s
      purgatory serve --store sqlite:///state.db --workers 4
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    settings = resolve(
        file={} if config is None else read_file(config),
        environment=os.environ,
        flags={name: value for name, value in flags.items() if value is not None},
    )

    def _announce(address: str) -> None:
        say(f"purgatory serves at {address}")

    if settings.workers > 1:
        return supervise(settings, _announce)
    serve(settings, _announce)
    return 0


@purgatory.command("config")
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings, as for serve.")
@setting_options
def config_command(config: Path | None, **flags: object) -> None:
    """Print every setting that ``serve`` would use, its value and its source; and the core that would run.

    \b
    Example:
      PURGATORY_MAX_WAIT=25s purgatory config
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    given = {name: value for name, value in flags.items() if value is not None}
    sources = {"file": {} if config is None else read_file(config), "environment": os.environ, "flags": given}
    chosen = choose(**sources)  # type: ignore[arg-type]  # three mappings, by name
    settings = resolve(**sources)  # type: ignore[arg-type]
    for known in fields(Settings):
        _, source = chosen.get(known.name, (None, "the default"))
        click.echo(f"{known.name:<15} {getattr(settings, known.name)!s:<20} {source}")
    source = "the environment" if os.environ.get("PURGATORY_ASYNC_PURE") == "1" else "the installation"
    click.echo(f"{'core':<15} {CORE:<20} {source}")


@purgatory.command("demo")
@click.option("--port", default="0", metavar="VALUE", help="Port to listen on.  [default: 0, a free one]")
@click.option("--seconds", type=Duration(0.001), help="Stop after this long, such as 20 or 5m.")
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True, max=2000),
    default=60.0,
    show_default=True,
    help="New clients per second.",
)
@click.option("--detach", "detached", is_flag=True, help="Run it in the background, for at most an hour.")
@click.option("--journal", metavar="DIRECTORY", help="Keep a journal there, for purgatory pipeline.")
def demo_command(port: str, seconds: float | None, rate: float, detached: bool, journal: str | None) -> None:
    """Start a demo service under a realistic load; it prints its address and its figures.

    \b
    Example:
      purgatory demo --seconds 20
      purgatory demo --seconds 20 --journal journal
      purgatory demo --detach
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    settings = resolve(file={}, environment={}, flags={"port": port, "journal": journal})
    if detached:
        seconds = DETACHED_SECONDS if seconds is None else seconds
        recording = [] if journal is None else ["--journal", journal]
        detach(
            ["demo", "--port", port, "--rate", f"{rate:g}", "--seconds", f"{seconds:f}", *recording], seconds
        )
    else:
        run_demo(settings, listen(settings), rate, seconds)


for command in (*REMOTE, *QUESTIONS, *QUEUES, top_command, store_command, kafka_command, pipeline):
    purgatory.add_command(command)
