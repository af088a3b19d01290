"""``purgatory top``: show a service's figures live."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import ceil
from typing import Any, Final

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from purgatory_async.cli.arguments import Duration
from purgatory_async.cli.remote import with_service
from purgatory_async.cli.summaries import printable, seconds
from purgatory_async.client import Client

_BARS: Final = " ▁▂▃▄▅▆▇█"
_WIDTH: Final = 60
_ROWS: Final = 8
_MIB: Final = 1 << 20

Stats = Mapping[str, Any]


@click.command("top")
@click.option(
    "--interval",
    type=Duration(0.1),
    default="1s",
    show_default=True,
    help="Time between updates.",
)
@click.option("--once", is_flag=True, help="Print the figures once and exit.")
@with_service
def top_command(client: Client, interval: float, once: bool) -> None:
    """Watch a service live: rates, delays, the wheel, the busiest keys and the oldest operations.

    A Kafka broker with --metrics-port is watched at that port: its purgatories, rates, delays and busiest keys.

    Ctrl-C ends it with exit code 0. If the service requires a token, it needs the scope admin.

    \b
    Example:
      purgatory top --url http://127.0.0.1:8765
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    console = Console()
    if once or not console.is_terminal:
        console.print(picture(client.stats()))
        return
    look = Live(picture(client.stats()), console=console, screen=True, auto_refresh=False)
    with suppress(KeyboardInterrupt):  # the way to leave it
        try:
            look.start(refresh=True)  # `with look` would not stop it if Ctrl-C came during the first drawing
            while True:
                time.sleep(interval)
                look.update(picture(client.stats()), refresh=True)
        finally:
            look.stop()


def picture(stats: Stats) -> Group:
    """Draw the answer of ``/v1/admin/stats`` for a rich console.

    Raises:
        click.ClickException: The service has another version's figures.
    """
    try:
        return _picture(stats)
    except (LookupError, TypeError, ValueError) as error:
        raise click.ClickException(
            f"the service's figures are of another version ({type(error).__name__}: {error}): cannot show them; "
            "install the service's version of purgatory-async"
        ) from error


def _picture(stats: Stats) -> Group:
    return _broker(stats) if "purgatories" in stats else _service(stats)


def _broker(stats: Stats) -> Group:
    table = Table("purgatory", "pending", "watched", box=None, pad_edge=False)
    for purgatory in stats["purgatories"]:
        table.add_row(purgatory["name"], f"{purgatory['pending']:,}", f"{purgatory['watched']:,}")
    return Group(
        Text(
            f"purgatory {stats['version']}  kafka at {stats['address']}  up {seconds(stats['uptime'])}",
            style="bold",
        ),
        Text(f"connections {stats['connections']:,}   bytes of records {stats['records_bytes']:,}"),
        table,
        Text(f"pending {bars(stats['history']['pending'])}"),
        _rates(stats),
        _delays(stats["delays"]),
        _keys(stats["busiest_keys"]),
    )


def _service(stats: Stats) -> Group:
    counts, queues = stats["counts"], stats["queues"]
    state = "draining" if stats["draining"] else "serving"
    return Group(
        Text(f"purgatory {stats['version']}  {state}  up {seconds(stats['uptime'])}", style="bold"),
        Text(
            f"pending {counts['pending']:,} of {stats['limits']['pending']:,}   held {counts['held']:,}   "
            f"takers {counts['takers']:,}   items {queues['items']:,}   leases {queues['leased']:,}"
        ),
        *_questions(stats.get("questions")),
        Text(f"pending {bars(stats['history']['pending'])}"),
        _rates(stats),
        _delays(stats["delays"]),
        *_wheel(stats["wheel"]),
        _keys(stats["busiest_keys"]),
        _oldest(stats["oldest_operations"]),
    )


def _questions(questions: Mapping[str, Any] | None) -> list[Text]:
    if questions is None or not (questions["pending"] or questions["kept"]):
        return []
    oldest = "" if questions["oldest"] is None else f", the oldest for {seconds(questions['oldest'])}"
    kept, reserved = (questions[name] / _MIB for name in ("kept_bytes", "reserved_bytes"))
    return [
        Text(
            f"questions {questions['pending']:,}{oldest}   answers kept {questions['kept']:,}, {kept:,.1f} MiB   "
            f"reserved {reserved:,.1f} MiB"
        )
    ]


def bars(numbers: Sequence[float]) -> str:
    """A row of bars, scaled to the highest number; any number above 0 shows.

    >>> bars([0, 1, 4, 8])
    ' ▁▄█'
    """
    numbers = numbers[-_WIDTH:]
    top = max(numbers, default=0) or 1
    return "".join(_BARS[ceil(number * 8 / top)] if number else _BARS[0] for number in numbers)


def _rates(stats: Stats) -> Table:
    names = ("submitted", "completed", "expired", "cancelled", "signals")
    table = Table("", *names, box=None, pad_edge=False)
    totals = {**stats["counts"], **stats["counts"]["ended"]}
    table.add_row("per second", *(f"{stats['rates'][name]:,.1f}" for name in names))
    table.add_row("total", *(f"{totals[name]:,}" for name in names))
    return table


def _delays(delays: Mapping[str, Any]) -> Table:
    table = Table("last minute", "p50", "p99", "longest", box=None, pad_edge=False)
    for name, title in (("wait", "wait"), ("lateness", "late"), ("loop_lag", "loop lag")):
        delay = delays[name]
        table.add_row(title, *(_milliseconds(delay[column]) for column in ("p50", "p99", "max")))
    return table


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value * 1000:,.2f} ms" if value < 1 else seconds(value)


def _wheel(wheel: Mapping[str, Any] | None) -> list[Text]:
    if wheel is None:
        return []
    lines = [Text(f"the wheel: {wheel['entries']:,} deadlines, a tick is {wheel['tick'] * 1000:g} ms")]
    for level in wheel["levels"]:
        counts = level["counts"]
        step = max(1, -(-len(counts) // _WIDTH))
        summed = [sum(counts[start : start + step]) for start in range(0, len(counts), step)]
        span = seconds(level["ticks_per_bucket"] * len(counts) * wheel["tick"])
        lines.append(Text(f"|{bars(summed)}| next {span}"))
    return lines


def _keys(keys: Sequence[Mapping[str, Any]]) -> Table:
    table = Table("busiest keys", "watchers", box=None, pad_edge=False)
    for key in keys[:_ROWS]:
        table.add_row(Text(printable(key["key"])), f"{key['watchers']:,}")
    return table


def _oldest(operations: Sequence[Mapping[str, Any]]) -> Table:
    table = Table("oldest", "keys", "waiting", "expires in", box=None, pad_edge=False)
    for operation in operations[:_ROWS]:
        keys = ", ".join(map(printable, operation["keys"]))
        table.add_row(
            Text(printable(operation["id"] or "(one-shot wait)")),
            Text(keys),
            seconds(operation["elapsed"]),
            seconds(operation["expires_in"]),
        )
    return table
