"""What the commands share: options, progress on a terminal, and the summary that each prints last."""

import json
import re
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from rich.console import Console
from rich.text import Text

from purgatory_async.durations import parse_duration
from purgatory_async.journal.reading import reading
from purgatory_async.pipeline.locations import Location, parsed
from purgatory_async.pipeline.operations.between import Between, instant_ns
from purgatory_async.pipeline.output import check_makeable
from purgatory_async.pipeline.source.extent import segments_in

_NS: Final = 1_000_000_000
_LONGEST_S: Final = 1000 * 366 * 24 * 3600
_CONTINUED: Final = "Directory for the results; continued, with the same checkpoint."

_MASTER: Final = r"local(\[(\d+|\*)(,\s*\d+)?\])?|local-cluster\[[\d,\s]+\]|yarn|(spark|k8s)://\S+"
_REMOTE: Final = r"sc://\S+|local(\[(\d+|\*)\])?"

C = TypeVar("C", bound=Callable[..., Any])
"""A command, or what becomes one."""


class Seconds(click.ParamType):  # type: ignore[type-arg]  # older versions of click know none
    """A time in seconds: a number such as ``0.2`` or ``1e-3``, or a duration such as ``250ms`` or ``5m``."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read it.

        Raises:
            click.BadParameter: It is neither.
        """
        try:
            return float(value)
        except ValueError:
            try:
                return parse_duration(value, fractions=True)
            except ValueError as error:
                self.fail(str(error), param, ctx)


def spark_options(command: C) -> C:
    """Give a command ``master`` and ``remote``, at most one of which is not None."""
    master = click.option(
        "--master",
        metavar="URL",
        callback=_spark_url(_MASTER, "local[2], spark://host:7077, yarn or k8s://https://host:443", "remote"),
        help="Where Spark runs: local[2], spark://host:7077, yarn, k8s://https://host:443.  [default: local[*]]",
    )
    remote = click.option(
        "--remote",
        metavar="URL",
        callback=_spark_url(_REMOTE, "sc://host:15002", "master"),
        help="A Spark Connect server, such as sc://host:15002, instead of --master.",
    )
    return master(remote(command))


def _spark_url(pattern: str, examples: str, other: str) -> Callable[..., str | None]:
    def check(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
        """Check the form, and that the other option is absent."""
        if value is not None and re.fullmatch(pattern, value) is None:
            raise click.BadParameter(f"must be like {examples}, got {value!r}")
        taken = context.params.get(other)
        if value is not None and taken is not None:
            raise click.UsageError(
                f"--{parameter.name} {value} and --{other} {taken} exclude each other; leave one out"
            )
        return value

    return check


def _named(_: click.Context, __: click.Parameter, value: str) -> Location:
    try:
        return parsed(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _local(context: click.Context, parameter: click.Parameter, value: str) -> Path:
    directory = _named(context, parameter, value)
    if isinstance(directory, Path):
        return directory
    raise click.BadParameter(
        f"must be a local or mounted directory, got {value!r}: a store can neither rename nor lock files"
    )


def directory_option(flag: str, explanation: str) -> Callable[[C], C]:
    """Give a command a required option for an existing, readable directory."""
    return click.option(flag, required=True, metavar="DIR", callback=_readable, help=explanation)


def _readable(context: click.Context, parameter: click.Parameter, value: str) -> Path:
    directory = _local(context, parameter, value)
    _check_readable(directory)
    return directory


def _check_readable(directory: Location) -> None:
    try:
        next(iter(directory.iterdir()), None)
    except OSError as error:
        raise click.BadParameter(
            f"{str(directory)!r} cannot be read: {error.strerror}; name an existing directory"
        ) from None


def _journal(context: click.Context, parameter: click.Parameter, value: str) -> Location:
    directory = _named(context, parameter, value)
    _check_readable(directory)
    follows = any(option.name == "wait" for option in context.command.params)
    if isinstance(directory, Path) and not follows:
        context.with_resource(reading(directory))
    if not context.params.get("wait") and not segments_in(directory):
        raise click.BadParameter(
            f"{value!r} must have segments of a journal, such as run.node.000001.jsonl, got none; "
            f"name another directory{', or add --wait' if follows else ''}"
        )
    return directory


journal_option: Final = click.option(
    "--journal",
    required=True,
    metavar="DIR",
    callback=_journal,
    help="Directory of the journal, or a URL like s3a://bucket/path.",
)
"""Gives a command ``journal``, a readable place with segments; without any only if ``wait`` is set.

Its segments stay until the command ends, unless it has ``--wait``, for it then follows the journal as it is.
"""

out_option: Final = click.option(
    "--out",
    required=True,
    metavar="DIR",
    callback=_named,
    help="Directory for the results, or a URL like s3a://bucket/path; it must be new or empty.",
)
"""Gives a command ``out``, a path for `check_fresh` to check."""

open_option: Final = click.option(
    "--open", "opens", is_flag=True, help="Open the page in the browser once it is written."
)
"""Gives a command ``opens``, whether it calls `open_page` once its page is in place."""


def open_page(path: Location) -> None:
    """Open a page in the browser, and say so in one line on standard error; without a browser, where the page is."""
    address = path.absolute().as_uri() if isinstance(path, Path) else str(path)
    if not isinstance(path, Path):
        click.echo(f"no browser opens a page in a store; copy {address} to this machine", err=True)
    elif webbrowser.open(address):
        click.echo(f"opened {address} in the browser", err=True)
    else:
        click.echo(f"no browser can be started here; open {address} in one", err=True)


def continued_options(progress: str) -> Callable[[C], C]:
    """Give a command ``out`` and ``checkpoint``, paths with results and progress that it continues."""

    def give(command: C) -> C:
        """Add both options to a command."""
        for flag, explanation in (("--checkpoint", f"{progress}; continued."), ("--out", _CONTINUED)):
            option = click.option(flag, required=True, metavar="DIR", callback=_made, help=explanation)
            command = option(command)
        return command

    return give


def _made(context: click.Context, parameter: click.Parameter, value: str) -> Path:
    directory = _local(context, parameter, value)
    check_makeable(parameter.opts[0], directory)
    return directory


def _width_ns(_: click.Context, __: click.Parameter, value: str) -> int:
    try:
        seconds = Decimal(value)
    except InvalidOperation:
        try:
            seconds = Decimal(round(parse_duration(value) * 1000)) / 1000
        except ValueError:
            seconds = Decimal("NaN")
    if not (seconds.is_finite() and 0 < seconds <= _LONGEST_S) or seconds * _NS % 1:
        raise click.BadParameter(
            f"must be a positive number of seconds, at most {_LONGEST_S} and in whole nanoseconds, or a duration "
            f"such as 500ms, 60s or 5m, got {value!r}"
        )
    return int(seconds * _NS)


window_option: Final = click.option(
    "--window",
    "window_ns",
    required=True,
    metavar="S",
    callback=_width_ns,
    help="The width of a window, such as 60s, 5m or 0.5; plain numbers are seconds.",
)
"""Gives a command ``window_ns``, from ``--window``."""


def range_options(command: C) -> C:
    """Give a command ``from_ns`` and ``to_ns``, the limits of a `Between`."""
    for name, words in (
        ("to", "Leave out operations submitted at this time or later."),
        (
            "from",
            "Leave out operations submitted before this time: ISO 8601 with a zone, or seconds since 1970.",
        ),
    ):
        command = click.option(f"--{name}", f"{name}_ns", metavar="TIME", callback=_instant_ns, help=words)(
            command
        )
    return command


def _instant_ns(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    try:
        found = instant_ns(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    given = {**context.params, parameter.name: found}  # either may come first
    start, end = given.get("from_ns"), given.get("to_ns")
    if start is not None and end is not None and end <= start:
        limits = Between(start, end).limits
        raise click.UsageError(f"--to must be after --from {limits['from']}, got {limits['to']}")
    return found


@contextmanager
def progress(title: str) -> Iterator[Callable[[str], None]]:
    """Show a job's title and step on standard error, if it is a terminal; yields a function that sets the step."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(Text(title)) as status:
        yield lambda step: status.update(Text(f"{title}: {step}"))


def summary(found: Mapping[str, Any]) -> None:
    """Print a job's results as JSON, the last line of its output; ValueError for NaN and infinity."""
    click.echo(json.dumps(found, allow_nan=False))
