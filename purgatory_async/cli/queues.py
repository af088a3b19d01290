"""The commands for queues: put, take and end items, look at queues, and mend them."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from typing import Final, TypeVar

import click

from purgatory_async.cli.arguments import Duration, json_or_text
from purgatory_async.cli.columns import print_table
from purgatory_async.cli.remote import EXIT_CODES, with_service
from purgatory_async.cli.summaries import describe_queue, printable, seconds
from purgatory_async.client import Client, Lease

T = TypeVar("T")


@click.command("queues")
@click.argument("queue", required=False)
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="How many at most.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document a line.")
@with_service
def queues_command(client: Client, queue: str | None, limit: int, as_json: bool) -> None:
    """List the queues by name, or show QUEUE with its settings.

    \b
    Example:
      purgatory queues mail
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    found = list(_first(client.queues(), limit) if queue is None else [client.queue(queue)])
    if as_json:
        _print_json(asdict(each) for each in found)
    elif queue is not None:
        click.echo("\n".join(describe_queue(found[0])))
    else:
        rows = [
            (
                printable(each.queue),
                *map(str, (each.items, each.delayed, each.leased, each.takers)),
                seconds(each.oldest),
            )
            for each in found
        ]
        head = ("queue", "ready", "delayed", "leased", "takers", "oldest")
        print_table([head, *rows], empty="no queue has an item, a taker or settings")


@click.command("put")
@click.argument("queue")
@click.argument("item")
@click.option("--delay", type=Duration(), help="Time until it can be taken, such as 30s.  [default: none]")
@with_service
def put_command(client: Client, queue: str, item: str, delay: float | None) -> None:
    """Put ITEM into QUEUE: JSON, or otherwise text.

    \b
    Example:
      purgatory put mail '{"to": "ann"}' --delay 10m
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    given = client.put(queue, json_or_text(item), delay=delay)
    click.echo("given to a taker" if given else "kept")


@click.command("take")
@click.argument("queue")
@click.option("--lease", type=Duration(), help="How long it is leased.  [default: as the queue says]")
@click.option("--wait", type=Duration(), default="0", show_default=True, help="How long to wait for one.")
@click.option(
    "--max", "most", type=click.IntRange(1, 100), default=1, show_default=True, help="Items at most."
)
@with_service
def take_command(client: Client, queue: str, lease: float | None, wait: float, most: int) -> None:
    """Lease the oldest items of QUEUE, and print each as a line of JSON.

    An item comes back when its lease ends, unless it is acknowledged. Exit code 3: none came in time.

    \b
    Example:
      purgatory take mail --wait 30s | jq -r .lease | xargs -n 1 purgatory ack
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    leases = client.take_batch(queue, most, lease=lease, timeout=wait)
    _print_json(map(_lease, leases))
    if not leases:
        click.echo(f"no item within {seconds(wait)}", err=True)
        click.get_current_context().exit(EXIT_CODES["expired"])


@click.command("ack")
@click.argument("lease")
@with_service
def ack_command(client: Client, lease: str) -> None:
    """Acknowledge the item leased as LEASE: it is done.

    \b
    Example:
      purgatory ack Rk1mVYeHTjqXGGeDzsr6xQ
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    client.acknowledge(lease)
    click.echo("done")


@click.command("return")
@click.argument("lease")
@click.option("--delay", type=Duration(), help="Time until it can be taken again.  [default: none]")
@with_service
def return_command(client: Client, lease: str, delay: float | None) -> None:
    """Return the item leased as LEASE to its place in its queue.

    \b
    Example:
      purgatory return Rk1mVYeHTjqXGGeDzsr6xQ --delay 1m
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    client.give_back(lease, delay=delay)
    click.echo("returned")


@click.command("extend")
@click.argument("lease")
@click.option("--lease", "anew", type=Duration(), help="How long from now.  [default: as long as at first]")
@with_service
def extend_command(client: Client, lease: str, anew: float | None) -> None:
    """Count LEASE again from now on.

    \b
    Example:
      purgatory extend Rk1mVYeHTjqXGGeDzsr6xQ --lease 10m
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    click.echo(f"ends in {seconds(client.extend(lease, anew))}")


@click.command("peek")
@click.argument("queue")
@click.option("--delayed", is_flag=True, help="Those that cannot be taken yet, the first due first.")
@click.option("--limit", type=click.IntRange(min=1), default=10, show_default=True, help="How many at most.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document a line.")
@with_service
def peek_command(client: Client, queue: str, delayed: bool, limit: int, as_json: bool) -> None:
    """Show the items of QUEUE in the order in which they will be taken; it changes nothing.

    \b
    Example:
      purgatory peek mail.dead
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    found = _first(client.items(queue, delayed=delayed), limit)
    if as_json:
        _print_json(map(asdict, found))
        return
    rows = [
        (
            each.id,
            str(each.attempts),
            each.put_at or "-",
            each.due_at or "-",
            printable(json.dumps(each.item)),
        )
        for each in found
    ]
    print_table([("id", "attempts", "put", "due", "item"), *rows], empty="no items")


@click.command("purge")
@click.argument("queue")
@with_service
def purge_command(client: Client, queue: str) -> None:
    """Drop all items of QUEUE but the leased ones. If the service requires a token, it needs the scope admin.

    \b
    Example:
      purgatory purge mail.dead
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    click.echo(f"purged {_items(client.purge(queue))}")


@click.command("redrive")
@click.argument("queue")
@click.option(
    "--max", "most", type=click.IntRange(min=1), help="Items at most, the oldest first.  [default: all]"
)
@with_service
def redrive_command(client: Client, queue: str, most: int | None) -> None:
    """Put the items of QUEUE.dead back into QUEUE, behind those that wait, as if never handed out.

    If the service requires a token, it needs the scope admin.

    \b
    Example:
      purgatory redrive mail --max 100
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    click.echo(f"{_items(client.redrive(queue, most))} came back")


def _first(found: Iterator[T], limit: int) -> Iterator[T]:
    """Iterate over the first ones; tell if there are more."""
    yield from islice(found, limit)
    if next(found, None) is not None:
        click.echo(f"(and more: --limit is {limit})", err=True)


def _lease(lease: Lease) -> dict[str, object]:
    """Return a lease under the service's names."""
    return {
        "lease": lease.id,
        "id": lease.item_id,
        "item": lease.item,
        "attempts": lease.attempts,
        "expires_in": lease.expires_in,
    }


def _print_json(documents: Iterable[dict[str, object]]) -> None:
    for each in documents:
        click.echo(json.dumps(each, ensure_ascii=True))


def _items(count: int) -> str:
    return f"{count} item{'' if count == 1 else 's'}"


QUEUES: Final = (
    queues_command,
    put_command,
    take_command,
    ack_command,
    return_command,
    extend_command,
    peek_command,
    purge_command,
    redrive_command,
)
