"""The commands that talk to a running service: list, explain, signal, wait, follow, cancel, drain.

The address comes from ``--url`` or ``PURGATORY_URL``; a token from ``PURGATORY_TOKEN`` or a file, never from the
command line, which every process on the machine can read.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import wraps
from io import StringIO
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import click

from purgatory_async.cli.arguments import Duration, json_or_text
from purgatory_async.cli.columns import print_table
from purgatory_async.cli.outlast import wait_through_restarts, watch_through_restarts
from purgatory_async.cli.sentence import escaped
from purgatory_async.cli.summaries import answered, explain, missing, need_of, printable, seconds
from purgatory_async.client import Client, Operation, Policy, RequestRefused, ServiceUnreachable, SignalGap
from purgatory_async.client.values import UNSET
from purgatory_async.durable.documents.byte_order import bom_fault

DEFAULT_URL: Final = "http://127.0.0.1:8765"
EXIT_CODES: Final[Mapping[str, int]] = {"completed": 0, "expired": 3, "cancelled": 4}
FAILED: Final = 1
STATES: Final = ("pending", "ended", "all", "completed", "expired", "cancelled", "failed", "closed")
PATIENCE: Final = 5.0  # seconds; a person is waiting
NEXT_STEPS: Final[Mapping[str, str]] = {
    "": "; does --url name a purgatory service?",
    "already-ended": "; 'purgatory why' shows how",
    "draining": "; wait until it has been started again",
    "duplicate-id": "; 'purgatory why' shows the one that has the id",
    "forbidden": "; name another with --token-file",
    "forgotten": "; 'purgatory ls' shows what is pending",
    "lease-expired": "; its item may be leased to another taker",
    "overloaded": "; try again later, or serve with a higher limit",
    "unauthorized": "; put it into PURGATORY_TOKEN, or into a file for --token-file",
    "unknown-lease": "; 'purgatory take' prints the id of a lease",
    "unknown-operation": "; 'purgatory ls' shows what is pending",
    "unknown-queue": "; 'purgatory queues' lists those with items, takers or settings",
}

_PENDING_HEAD: Final = ("id", "keys", "waits for", "waiting", "expires in")
_ENDED_HEAD: Final = ("id", "keys", "state", "after", "by", "answer")


def with_service(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say where the service is, and a client of it as first argument."""

    @click.option(
        "--url",
        envvar="PURGATORY_URL",
        default=DEFAULT_URL,
        show_default=True,
        show_envvar=True,
        help="Address of the service; unix:///PATH for a Unix socket.",
    )
    @click.option(
        "--token-file",
        type=click.Path(path_type=Path),
        help="File with the token; by default, the variable PURGATORY_TOKEN.",
    )
    @wraps(command)
    def connected(*args: object, url: str, token_file: Path | None, **kwargs: object) -> None:
        """Call the command with a client."""
        token = os.environ.get("PURGATORY_TOKEN") or None if token_file is None else _read_token(token_file)
        try:
            client = Client(url, token=token, policy=Policy(patience=PATIENCE))
        except (ImportError, ValueError) as error:  # a proxy of the environment may need a package
            raise click.ClickException(f"{error}; see --url and --token-file") from None
        with client:
            try:
                command(client, *args, **kwargs)
            except ServiceUnreachable as error:
                raise click.ClickException(
                    f"{error}; is a service running at {url}? 'purgatory serve' starts one, --url names another"
                ) from None
            except RequestRefused as error:
                raise click.ClickException(f"{error}{NEXT_STEPS.get(error.slug, '')}") from None
            except UnicodeEncodeError as error:
                raise click.ClickException(
                    f"arguments must be UTF-8 text, got {error.object!r:.80}; encode them so"
                ) from None

    return connected


def _read_token(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        reason = error.strerror
    except UnicodeDecodeError as error:
        reason = f"it {bom_fault(error.object) or 'is not ASCII'}"
    raise click.ClickException(f"cannot read the token file {path}: {reason}")


@click.command("ls")
@click.option("--key", help="Only operations that watch it.")
@click.option(
    "--state", type=click.Choice(STATES), default="pending", show_default=True, help="ended: any but pending."
)
@click.option("--id-prefix", default="", help="Only operations whose ids begin so.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="How many at most.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document a line.")
@with_service
def ls_command(
    client: Client, key: str | None, *, state: str, id_prefix: str, limit: int, as_json: bool
) -> None:
    """List operations, oldest first: the pending ones, or those that have ended and are still kept.

    \b
    Example:
      purgatory ls --key order:42
      purgatory ls --state ended --id-prefix deploy-
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    pending = state == "pending"
    rows: list[tuple[str, ...]] = [_PENDING_HEAD if pending else _ENDED_HEAD]
    for shown, operation in enumerate(client.operations(key, state=state, id_prefix=id_prefix)):
        if shown == limit:
            click.echo(f"(and more: --limit is {limit})", err=True)
            break
        if as_json:
            click.echo(_as_json(operation))
        else:
            rows.append(_row(operation) if pending else _ended_row(operation))
    if not as_json:
        print_table(rows, empty="no operation is kept" if state == "all" else f"nothing is {state}")


def _row(operation: Operation) -> tuple[str, ...]:
    return (
        printable(operation.id),
        ", ".join(map(printable, operation.keys)),
        missing(operation),
        seconds(operation.elapsed),
        seconds(operation.time_left),
    )


def _ended_row(operation: Operation) -> tuple[str, ...]:
    return (
        printable(operation.id),
        ", ".join(map(printable, operation.keys)),
        operation.state,
        seconds(operation.elapsed),
        printable(operation.by or "-"),
        answered(operation),
    )


@click.command("why")
@click.argument("id")
@with_service
def why_command(client: Client, id: str) -> None:  # noqa: A002 - the name in the usage line
    """Explain what an operation waits for, or how it ended.

    \b
    Example:
      purgatory why xhDecpW5UOSequhM_HUNpw
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    for line in explain(client.status(id)):
        click.echo(line)


@click.command("signal")
@click.argument("key", required=False)
@click.argument("value", required=False)
@click.option("--amount", type=click.IntRange(min=1), help="How much it counts.  [default: 1]")
@click.option("--voter", help="Name of the voter.")
@click.option(
    "--batch",
    type=click.File("rb"),
    metavar="FILE",
    help="Signals for one step, all or none, instead of KEY: a JSON object a line; - is standard input.",
)
@with_service
def signal_command(
    client: Client,
    key: str | None,
    value: str | None,
    *,
    amount: int | None,
    voter: str | None,
    batch: BinaryIO | None,
) -> None:
    """Signal KEY, with an optional VALUE: JSON, or otherwise text.

    \b
    Example:
      purgatory signal build:77 '{"status": "green"}'
      echo '{"key": "build:77", "value": 1, "voter": "me"}' | purgatory signal --batch -
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    if batch is not None:
        others = {"KEY": key, "--amount": amount, "--voter": voter}
        if given := [f"{name} {what}" for name, what in others.items() if what is not None]:
            raise click.UsageError(
                f"--batch must be alone, got {', '.join(given)}; write them into its lines"
            )
        completed = client.signal_batch(_lines(batch))
    elif key is None:
        raise click.UsageError(f"KEY must be given, got {key}; name a key, or a file with --batch")
    else:
        completed = client.signal(
            key, UNSET if value is None else json_or_text(value), amount=amount, voter=voter
        )
    click.echo(f"completed {completed} operation{'' if completed == 1 else 's'}")


def _lines(file: BinaryIO) -> list[dict[str, Any]]:
    signals = list[dict[str, Any]]()
    for number, line in enumerate(_text_of(file.read()), 1):
        signal = json_or_text(line)
        if not isinstance(signal, dict):
            raise click.BadParameter(
                f'line {number} must be a JSON object such as {{"key": "a"}}, got {line.rstrip()[:80]!r}',
                param_hint="--batch",
            )
        signals.append(cast("dict[str, Any]", signal))
    return signals


def _text_of(content: bytes) -> StringIO:
    """Return the lines of a batch as a text file."""
    fault = bom_fault(content)
    try:
        if fault is None:
            return StringIO(content.decode(), newline=None)
    except UnicodeDecodeError:
        fault = "is not UTF-8"
    raise click.BadParameter(f"the file {fault}", param_hint="--batch")


@click.command("wait")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@click.option("--need", default="any", show_default=True, help="any, all, amount:N or voters:N.")
@click.option(
    "--since",
    metavar="INDEX",
    type=click.IntRange(min=0),
    help="Also accept the key's newest signal if its index is higher; 0 accepts any that the service keeps.",
)
@click.option(
    "--timeout", type=Duration(), help="Time until it expires, such as 30s or 10m.  [default: never]"
)
@click.option("--json", "as_json", is_flag=True, help="Print the whole operation, or signal, as JSON.")
@with_service
def wait_command(
    client: Client,
    keys: tuple[str, ...],
    *,
    need: str,
    since: int | None,
    timeout: float | None,
    as_json: bool,
) -> None:
    """Wait until the keys have been signalled, and print what the last signal carried.

    Earlier signals do not count, unless --since is given, with one key and the scope read. The service
    keeps a key's newest signal for its --retention.

    Exit code 0: completed; 3: expired; 4: cancelled; 1: ended otherwise. Ctrl-C cancels the operation.
    While the service restarts, it keeps trying until its timeout.

    \b
    Example:
      purgatory wait build:77 --since 0 --timeout 10m && ./deploy
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    if since is not None:
        if len(keys) != 1 or need != "any":
            raise click.ClickException(
                f"--since must be given with one key and --need any, got {len(keys)} and {need!r}"
            )
        _wait_since(client, keys[0], since, timeout, as_json)
        return
    operation = wait_through_restarts(client, keys, need=need_of(need), timeout=timeout)
    if as_json:
        click.echo(_as_json(operation))
    elif operation.state == "completed":
        values = [signal["value"] for signal in operation.signals if "value" in signal]
        if values:
            click.echo(_shown(values[-1]), color=True)  # in a pipe, too, as it was given
    else:
        click.echo(f"{operation.state} after {seconds(operation.elapsed)}", err=True)
    click.get_current_context().exit(EXIT_CODES.get(operation.state, FAILED))


def _wait_since(client: Client, key: str, since: int, timeout: float | None, as_json: bool) -> None:
    state = watch_through_restarts(client, key, since, timeout=timeout)
    if state is None:
        click.echo(f"expired after {seconds(timeout)}", err=True)
        click.get_current_context().exit(EXIT_CODES["expired"])
    if (
        state.index <= since
    ):  # so the service answers an index that it has not given out: it was started again
        raise click.ClickException(
            f"--since must be at most the newest index of the service, got {since}; if it was started again, "
            "use --since 0"
        )
    if as_json:
        click.echo(json.dumps(asdict(state)))
    elif state.value is not None:  # a read does not tell a signal without a value from one of null
        click.echo(_shown(state.value), color=True)


def _shown(value: object) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    return escaped(value) if sys.stdout.isatty() else value


@click.command("follow")
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.option(
    "--prefix", "prefixes", multiple=True, help="Also all keys that begin with it; may be repeated."
)
@click.option(
    "--since",
    default="now",
    show_default=True,
    help="Where to begin: the place of a line, or 0 for all that is kept.",
)
@with_service
def follow_command(client: Client, keys: tuple[str, ...], prefixes: tuple[str, ...], since: str) -> None:
    """Print every signal on the keys as a line of JSON, until Ctrl-C.

    A gap, after which signals may be missing, is a line on standard error. If the service requires a token,
    it needs the scope wait.

    \b
    Example:
      purgatory follow --prefix orders/ | jq --unbuffered .value
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    signals = client.signals(*keys, prefixes=prefixes, since=since)
    while True:
        try:
            for found in signals:
                click.echo(json.dumps(asdict(found)))
        except SignalGap as gap:
            click.echo(f"purgatory: {gap}", err=True)


@click.command("cancel")
@click.argument("id")
@with_service
def cancel_command(client: Client, id: str) -> None:  # noqa: A002 - the name in the usage line
    """Cancel an operation; one that has ended stays as it is.

    \b
    Example:
      purgatory cancel xhDecpW5UOSequhM_HUNpw
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    click.echo(client.cancel(id).state)


@click.command("drain")
@with_service
def drain_command(client: Client) -> None:
    """Make the service refuse new waits and answer every held request.

    Signals, completions, acknowledgements and reads go on; the process does not exit. If the service requires a
    token, it needs the scope admin.

    \b
    Example:
      purgatory drain
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    client.drain()
    click.echo("the service drains")


def _as_json(operation: Operation) -> str:
    return json.dumps(operation.document, ensure_ascii=True)


REMOTE: Final = (
    ls_command,
    why_command,
    signal_command,
    wait_command,
    follow_command,
    cancel_command,
    drain_command,
)
