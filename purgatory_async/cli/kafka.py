"""``purgatory kafka``: a Kafka broker in memory; the package behind it is loaded when the command runs."""

import asyncio
import signal
from collections.abc import Sequence
from typing import Any, Final

import click

from purgatory_async.cli.sentence import one_sentence, say

__all__ = ["kafka_command", "run"]

REFUSED: Final = 2


@click.command("kafka")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=9092, show_default=True, type=click.IntRange(0, 65535), help="0: a free one.")
@click.option("--advertised-host", help="Host that clients are given.  [default: the one of --host]")
@click.option("--partitions", type=int, help="Of a topic created without a number.  [default: 1]")
@click.option("--auto-create/--no-auto-create", default=None, help="Create a topic when it is asked for.")
@click.option("--max-bytes", type=int, help="Of all records; more are refused.  [default: 1 GiB]")
@click.option("--max-batch-bytes", type=int, help="Of one batch of records.  [default: 1 MiB]")
@click.option("--max-frame-bytes", type=int, help="Of one request.  [default: 100 MiB]")
@click.option("--max-connections", type=int, help="At once; each holds one request.  [default: 10000]")
@click.option("--max-partitions", type=int, help="Of all topics.  [default: 100000]")
@click.option("--rebalance-delay", type=float, help="Seconds a new group waits for members.  [default: 3]")
def kafka_command(host: str, port: int, advertised_host: str | None, **settings: Any) -> None:
    """Serve the Kafka protocol until SIGTERM or SIGINT. Memory only, no security, no transactions.

    \b
    Example:
      purgatory kafka --port 9092
      kcat -b 127.0.0.1:9092 -P -t greetings
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    given = {name: value for name, value in settings.items() if value is not None}
    # Inside: the command is listed without its extra, and a missing one deserves a sentence, not a traceback.
    try:
        import uvloop  # noqa: PLC0415 - see above

        from purgatory_async.kafka import Broker  # noqa: PLC0415 - see above
    except ModuleNotFoundError as error:
        missing = (error.name or "purgatory_async").partition(".")[0]
        if missing == "purgatory_async":
            raise
        raise click.ClickException(
            f'{missing} is not installed; run: pip install "purgatory-async[kafka]"'
        ) from None

    async def serve() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        async with Broker(host=host, port=port, advertised_host=advertised_host, **given) as broker:
            say(f"purgatory kafka serves at {broker.address}")
            await stop.wait()

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve())
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from None


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
