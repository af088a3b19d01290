"""``purgatory store``: the log of ``serve --store``, from outside the service."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from purgatory_async.cli.sentence import escaped, say
from purgatory_async.cluster import Head, LogDamaged, LogError
from purgatory_async.durable.checkpoints.checkpointing import STORE_VARIABLE, checkpoint
from purgatory_async.durable.checkpoints.copying import copy
from purgatory_async.durable.checkpoints.export import export
from purgatory_async.durable.checkpoints.loading import folded
from purgatory_async.durable.checkpoints.upkeep import mark_restored, raise_level
from purgatory_async.durable.fold.checkpoint import digest
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.urls import Store, Sync, exists, opened, parsed
from purgatory_async.journal import JournalError

DAMAGED: Final = 4

C = TypeVar("C", bound=Callable[..., None])


def _store(context: click.Context, parameter: click.Parameter, value: str) -> Store:
    try:
        return parsed(value)
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from None


def _log(command: C) -> C:
    """Give a command the URL of a log."""
    return click.argument("store", metavar="URL", envvar=STORE_VARIABLE, callback=_store)(command)


def _sync(command: C) -> C:
    """Give a command the setting with which the workers write."""
    return click.option(
        "--store-sync",
        "sync",
        type=click.Choice(["always", "os"]),
        default="always",
        show_default=True,
        help="As for serve.",
    )(command)


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run a command's work; errors become one line and the exit code."""
    try:
        asyncio.run(work)
    except LogDamaged as error:
        say(f"purgatory: {escaped(str(error))}", err=True)
        click.get_current_context().exit(DAMAGED)
    except (JournalError, LogError, ValueError) as error:
        raise click.ClickException(str(error)) from None


async def _require(store: Store) -> None:
    """Refuse a log that does not exist, which opening would create."""
    if not await exists(store):
        raise click.ClickException(
            f"there is no log at {store.shown}; check the URL, or run: purgatory store init {store.shown}"
        )


@click.group("store", invoke_without_command=True)
@click.pass_context
def store_command(context: click.Context) -> None:
    """Create, check, save and export the log of serve --store.

    URL is sqlite:///PATH (four slashes for an absolute path), postgresql://HOST/DATABASE or redis://HOST, with ?name=
    for another log than purgatory in the same database. Without URL, the variable PURGATORY_STORE has it: other users
    of the machine cannot read that, as they can a password in a command.

    \b
    Example:
      purgatory store check sqlite:///orders.db
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@store_command.command("init")
@_log
@click.option("--grant", "role", metavar="ROLE", help="Postgres: let this role run workers on the log.")
def init_command(store: Store, role: str | None) -> None:
    """Create the log, if it does not exist, and print what is there.

    For Postgres it also prints the grants that another role needs to run workers. Creating the log needs CREATE on its
    schema; workers need only these.

    \b
    Example:
      purgatory store init postgresql://owner@db/orders --grant web
    """  # noqa: D301 - see above
    if role is not None and store.engine != "postgresql":
        raise click.BadParameter(
            f"must be left out for {store.shown}: only Postgres has roles", param_hint="--grant"
        )
    _run(_init(store, role))


async def _init(store: Store, role: str | None) -> None:
    async with opened(store) as (_, head):
        _print(epoch=head.epoch, position=head.position, checkpoint=head.checkpoint)
    if store.engine != "postgresql":
        return
    from purgatory_async.cluster.postgres_admin import grant, worker_grants  # noqa: PLC0415 - needs an extra

    if role is not None:
        await grant(store.target, store.name, role)
        click.echo(f"{role} may run workers on {store.shown}")
    else:
        click.echo("\nFor workers with another role than this one, --grant ROLE runs:")
        for statement in worker_grants(store.name, "SCHEMA", "ROLE"):
            click.echo(f"  {statement};")


@store_command.command("check")
@_log
def check_command(store: Store) -> None:
    """Fold the log from its checkpoint, and print what it gives.

    Exits with 4 if the log or its checkpoint is damaged, and names the position. Two logs with the same digest have
    the same state. It changes nothing.

    \b
    Example:
      purgatory store check redis://db
    """  # noqa: D301 - see above
    _run(_check(store))


async def _check(store: Store, expected: str | None = None) -> None:
    await _require(store)
    async with opened(store) as (log, head):
        with closing(await folded(log, strict=True)) as fold:
            found = digest(fold)
            if expected not in {None, found}:
                raise LogDamaged(f"{store.shown} must have the digest {expected}, got {found}")
            _print(**_state(fold, head), digest=found)


def _state(fold: Fold, head: Head) -> dict[str, object]:
    operations, queues = fold.operations, fold.queues
    return {
        "position": fold.position,
        "epoch": head.epoch,
        "level": fold.level,
        "oldest": head.oldest,
        "checkpoint": head.checkpoint,
        "pending": operations.purgatory.pending,
        "ended": len(operations.ended_ones),
        "keys": len(fold.signals.keys),
        "items": queues.kept,
        "leases": len(queues.leases),
        "takers": len(queues.takers),
        "writers": len(fold.writers.known),
    }


@store_command.command("restored")
@_log
def restored_command(store: Store) -> None:
    """Give a log that was restored from a backup another epoch.

    Run it after a restore, before the first worker starts. Readers that saw what the backup lacks get a gap.
    Running it twice does no harm.

    \b
    Example:
      purgatory store restored postgresql://db/orders
    """  # noqa: D301 - see above
    _run(_restored(store))


async def _restored(store: Store) -> None:
    await _require(store)
    epoch, position = await mark_restored(store)
    click.echo(
        f"{store.shown} has epoch {epoch} now, at position {position}: every reader from before gets a gap; start the "
        "workers"
    )


@store_command.command("checkpoint")
@_log
@_sync
def checkpoint_command(store: Store, sync: Sync) -> None:
    """Save the log's state, and trim the log to its last 100 000 entries.

    Workers do this by themselves. It may run beside them; if one of them is at it, this does nothing.

    \b
    Example:
      purgatory store checkpoint sqlite:///orders.db
    """  # noqa: D301 - see above
    _run(_checkpoint(store, sync))


async def _checkpoint(store: Store, sync: Sync) -> None:
    await _require(store)
    saved = await checkpoint(store, sync=sync)
    if saved is None:
        click.echo("another process is saving a checkpoint; nothing to do")
    elif not saved.entries:
        click.echo(f"the log has no entries after position {saved.position}; nothing to do")
    else:
        click.echo(
            f"saved checkpoint {saved.position}: {saved.entries} entries more, {saved.size} bytes, "
            f"{saved.seconds:.1f} s"
        )


@store_command.command("copy")
@click.argument("source", metavar="FROM", envvar=STORE_VARIABLE, callback=_store)
@click.argument("target", metavar="TO", envvar=f"{STORE_VARIABLE}_TO", callback=_store)
@_sync
def copy_command(source: Store, target: Store, sync: Sync) -> None:
    """Write the state of the log FROM into the empty log TO, on any engine, and print what is there.

    Stop all workers on FROM first, and start them on TO afterwards. TO has the digest of FROM and its positions, but an
    epoch of its own: readers from before get a gap, and links from before are 404. If it is interrupted, TO is empty;
    run it again.

    \b
    Example:
      purgatory store copy sqlite:///orders.db postgresql://db/orders
    """  # noqa: D301 - see above
    _run(_copy(source, target, sync))


async def _copy(source: Store, target: Store, sync: Sync) -> None:
    await _require(source)
    before = await copy(source, target, lambda line: say(line, err=True), sync=sync)
    await _check(target, before)
    say(
        f"copied {source.shown} to {target.shown}: start the workers there; readers from before get a gap, links from "
        "before are 404",
        err=True,
    )


@store_command.command("export")
@_log
@click.option(
    "--journal",
    "directory",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for the segments; made if it is missing, and continued.",
)
@click.option("--follow", is_flag=True, help="Go on until SIGTERM or SIGINT.")
def export_command(store: Store, directory: Path, follow: bool) -> None:
    """Write the log's operations and signals as a journal, for purgatory pipeline.

    The first export begins at the log's checkpoint; the next one continues where it ended, also after a kill. With
    --follow nothing is missed as long as it is not away for more than 100 000 entries.

    \b
    Example:
      purgatory store export sqlite:///orders.db --journal journal
      purgatory pipeline report --journal journal --out report
    """  # noqa: D301 - see above
    _run(_export(store, directory, follow=follow))


async def _export(store: Store, directory: Path, *, follow: bool) -> None:
    await _require(store)
    if follow:
        _cancel_on_signals()
    async with opened(store) as (log, head):
        done = await export(
            log, head, directory, node=store.name, follow=follow, say=lambda line: say(line, err=True)
        )
    click.echo(f"exported {done.records} records up to position {done.position} to {directory}")


def _cancel_on_signals() -> None:
    task = asyncio.current_task()
    assert task is not None, "a command runs in a task"
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


@store_command.command("level")
@_log
@click.argument("level", type=click.IntRange(min=1), required=False)
def level_command(store: Store, level: int | None) -> None:
    """Print the level of the log's entries, or raise it to LEVEL.

    After an upgrade that has a new level, replace all workers, then raise it: an older worker exits when it reads a
    level that it does not know. A level is never lowered. URL must be given where LEVEL is.

    \b
    Example:
      purgatory store level postgresql://db/orders 2
    """  # noqa: D301 - see above
    _run(_level(store, level))


async def _level(store: Store, level: int | None) -> None:
    await _require(store)
    async with opened(store) as (log, _):
        if level is None:
            with closing(await folded(log)) as fold:
                click.echo(fold.level)
            return
        before = await raise_level(log, level)
    click.echo(f"the log is at level {level}" + ("" if level == before else f", before at {before}"))


def _print(**values: object) -> None:
    for name, value in values.items():
        click.echo(f"{name:<12} {value}")
