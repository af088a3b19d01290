"""Runs an endless query: stopped by a signal in good order, and started again where Spark gave up too early."""

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
from py4j.protocol import Py4JError  # type: ignore[import-untyped] # it comes with PySpark
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from purgatory_async.pipeline import Refused
from purgatory_async.pipeline.damage import BEGIN_ANEW

STARTS: Final = 5
LOOK_S: Final = 0.2
# A constant in Spark. A Python process that imports pandas takes longer while other programs keep the processors busy.
_TOO_SLOW: Final = "Python worker failed to connect back"
_SPARK_WAITS_S: Final = 10
# The part of Spark that failed first, in the last cause that Java names.
_OF_CHECKPOINT: Final = re.compile(
    r"\tat org\.apache\.spark\.sql\.execution\.(streaming\.(state|checkpointing)|datasources\.v2\.state)\."
)
_OF_SPARK: Final = "\tat org.apache.spark."


@contextmanager
def stop_asked() -> Iterator[Callable[[], bool]]:
    """Catch SIGINT and SIGTERM during the block; yields a function that returns whether one came.

    An error after the signal counts as the signal: one to the process group ends Spark's Java, too, and then every call
    to it fails.
    """
    asked: list[int] = []
    kinds = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(kind, lambda number, _: asked.append(number)) for kind in kinds]
    failed = False
    try:
        yield lambda: bool(asked)
    except Exception:
        if not asked:
            raise
        failed = True
    finally:
        for kind, handler in zip(kinds, before, strict=True):
            signal.signal(kind, handler)
    if failed:
        signal.raise_signal(asked[0])


@contextmanager
def damage_explained(checkpoint: Path) -> Iterator[None]:
    """Refuse in one line, with the reason, what Spark cannot read or write of a checkpoint in the block."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        trace = getattr(error, "_stackTrace", None) or str(error)
        causes = [cause.splitlines() or [""] for cause in trace.split("\nCaused by: ")[::-1]]
        reason = causes[0][0]
        # A cause leaves out the frames that it shares with the one before.
        first = next((frame for cause in causes for frame in cause if frame.startswith(_OF_SPARK)), "")
        if _OF_CHECKPOINT.match(first) is None and "CHECKPOINT" not in reason:
            raise
        raise Refused(
            f"--checkpoint {checkpoint} cannot be continued: {reason}; if a file is damaged, {BEGIN_ANEW}"
        ) from None


def run_query(start: Callable[[], StreamingQuery], finished: Callable[[StreamingQuery], bool]) -> None:
    """Run a query until it ends or is ``finished``, which is asked five times a second, and stop it.

    If a Python worker is slow to start, the query is started again, which standard error reports. It continues from its
    checkpoint, so nothing is lost or doubled.

    Raises:
        Refused: A worker was slow in five starts without a batch between them.
        StreamingQueryException: The query failed otherwise.
    """
    slow = 0
    while True:
        query = start()
        try:
            while not query.awaitTermination(LOOK_S):  # type: ignore[arg-type] # seconds, and parts of them
                if finished(query):
                    break
        except StreamingQueryException as error:
            if _TOO_SLOW not in str(error):
                raise
            slow = slow + 1 if query.lastProgress is None else 1
        else:
            return
        finally:
            query.stop()
        late = f"a Python worker of Spark did not start within {_SPARK_WAITS_S} s"
        if slow == STARTS:
            raise Refused(
                f"{late}, {slow} times in a row; start the command again when the machine is less busy: "
                "it continues where it stopped"
            )
        click.echo(f"purgatory: {late}; starting the query again ({slow + 1} of {STARTS})", err=True)
