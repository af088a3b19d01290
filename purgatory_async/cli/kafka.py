"""``purgatory kafka``: a Kafka broker in memory; the package behind it is loaded when the command runs."""

import asyncio
import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import Any, Final, cast

import click

from purgatory_async.cli.arguments import Duration, Size
from purgatory_async.cli.sentence import one_sentence, say

REFUSED: Final = 2
DEFAULT_PORT: Final = 9092
_NODE: Final = re.compile(r"(?P<id>\d+)@(?P<host>.+):(?P<port>\d{1,5})")


def _nodes(
    context: click.Context,  # noqa: ARG001 - as click calls it
    parameter: click.Parameter,  # noqa: ARG001
    value: str | None,
) -> dict[int, tuple[str, int]] | None:
    """Read --nodes: comma-separated NUMBER@HOST:PORT."""
    if value is None:
        return None
    nodes: dict[int, tuple[str, int]] = {}
    for part in value.split(","):
        found = _NODE.fullmatch(part.strip())
        if found is None or int(found["id"]) in nodes:
            raise click.BadParameter(
                f"must be different NUMBER@HOST:PORT with commas between, got {part!r} in {value!r}"
            )
        nodes[int(found["id"])] = found["host"], int(found["port"])
    return nodes


@click.command("kafka")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), help="0: a free one.  [default: 9092, or of --nodes]")
@click.option("--advertised-host", help="Host that clients are given.  [default: the one of --host]")
@click.option("--id", type=click.IntRange(0), default=0, show_default=True, help="Its number in the cluster.")
@click.option("--nodes", callback=_nodes, help="All brokers, the same on each: 0@host:9092,1@host:9093")
@click.option("--partitions", type=int, help="Of a topic created without a number.  [default: 1]")
@click.option("--replication", type=int, help="Brokers that have such a topic.  [default: 1]")
@click.option("--min-insync", type=int, help="Brokers in sync that acks=all needs.  [default: 1]")
@click.option("--replica-lag", type=Duration(), help="How far behind one is still in sync.  [default: 10s]")
@click.option("--auto-create/--no-auto-create", default=None, help="Create a topic when it is asked for.")
@click.option("--max-bytes", type=Size(), help="Of all records; more are refused.  [default: 1GiB]")
@click.option("--max-batch-bytes", type=Size(), help="Of one batch of records.  [default: 1MiB]")
@click.option("--max-frame-bytes", type=Size(), help="Of one request.  [default: 100MiB]")
@click.option("--max-receive-bytes", type=Size(), help="Of requests not served yet.  [default: 256MiB]")
@click.option("--max-connections", type=int, help="At once; each holds one request.  [default: 10000]")
@click.option("--max-partitions", type=int, help="Of all topics.  [default: 10000]")
@click.option("--max-groups", type=int, help="Of consumers.  [default: 10000]")
@click.option("--max-members", type=int, help="Of one group.  [default: 10000]")
@click.option("--max-group-bytes", type=Size(), help="Of all groups' members and offsets.  [default: 256MiB]")
@click.option(
    "--idle-timeout",
    type=Duration(endless=True),
    help="Until an idle connection is closed; inf: never.  [default: 10m]",
)
@click.option(
    "--rebalance-delay", type=Duration(), help="How long a new group waits for members.  [default: 3s]"
)
@click.option(
    "--min-session-timeout", type=Duration(), help="The shortest of a member; Kafka has 6s.  [default: 100ms]"
)
@click.option("--max-session-timeout", type=Duration(), help="The longest of a member.  [default: 30m]")
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Serve /metrics there, and figures for purgatory top; 0: a free one.  [default: neither]",
)
def kafka_command(host: str, port: int | None, metrics_port: int | None, **settings: Any) -> None:
    """Serve the Kafka protocol until SIGTERM or SIGINT. Memory only, no security, no transactions.

    \b
    Example:
      purgatory kafka --port 9092
      kcat -b 127.0.0.1:9092 -P -t greetings
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    listen_at = port if port is not None else 0 if settings["nodes"] else DEFAULT_PORT
    given = {name: value for name, value in settings.items() if value is not None}
    # Inside: the command is listed without its extras, and a missing one deserves a sentence, not a traceback.
    with _naming_the_extra("kafka"):
        import uvloop  # noqa: PLC0415 - see above

        from purgatory_async.kafka import Broker  # noqa: PLC0415 - see above
    figures = None
    if metrics_port is not None:
        with _naming_the_extra("service"):
            from purgatory_async.cli.kafka_figures import Figures  # noqa: PLC0415 - see above
        figures = Figures()
        given |= {"timer": figures.timer, "observer": figures.observer}

    async def serve() -> None:
        """Serve until a signal, which cancels this; also a start that waits for other brokers."""
        serving = cast("asyncio.Task[None]", asyncio.current_task())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
        async with AsyncExitStack() as stack:
            if figures is not None:
                stack.callback(figures.timer.close)
            broker = await stack.enter_async_context(Broker(host=host, port=listen_at, **given))
            if figures is not None:
                address = await stack.enter_async_context(figures.served(broker, metrics_port or 0))
                say(f"its metrics are at {address}/metrics")
            say(f"purgatory kafka serves at {broker.address}")
            await asyncio.Event().wait()

    try:
        with (
            suppress(asyncio.CancelledError),
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            runner.run(serve())
    except OSError as error:
        raise click.ClickException(f"cannot serve on {host} port {listen_at}: {error}") from None
    except ValueError as error:
        raise click.ClickException(str(error)) from None


@contextmanager
def _naming_the_extra(extra: str) -> Iterator[None]:
    """Turn a missing module into a sentence with the extra that brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "purgatory_async").partition(".")[0]
        if missing == "purgatory_async":
            raise
        raise click.ClickException(
            f'{missing} is not installed; run: pip install "purgatory-async[{extra}]"'
        ) from None


def run(arguments: Sequence[str]) -> int:
    """Run the command; ``arguments`` start with ``kafka``.

    Returns:
        The exit code: 0 done, 2 refused with one sentence on standard error.
    """
    try:
        kafka_command.main(list(arguments[1:]), prog_name="purgatory kafka", standalone_mode=False)
    except click.ClickException as error:
        say(f"purgatory: {one_sentence(error)}", err=True)
        return REFUSED
    return 0
