"""Replays a journal under other settings, in slices of its time.

Only the signals between its submission and its deadline decide whether an operation completes. So the time of each node
is cut into slices at least as long as the longest wait: an operation then needs the signals of its own slice and of the
next one, and a slice fits into a worker's memory. Operations without a timeout need all signals to the end and are a
slice of their own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame

from purgatory_async.pipeline.operations.buckets import unpacked
from purgatory_async.pipeline.schemas import spark_schema
from purgatory_async.pipeline.whatif.replay import replay
from purgatory_async.pipeline.whatif.slices import SIGNALS, WAITS
from purgatory_async.pipeline.whatif.wheel_sim import Setting, Totals

__all__ = ["replays"]

_SCHEMA: Final = pa.schema(
    [(name, pa.int64()) for name in ("setting", *(field.name for field in fields(Totals)))]
)


def replays(
    operations: DataFrame,
    signals: DataFrame,
    last_ns: Mapping[tuple[str, str], int],
    settings: Sequence[Setting],
) -> DataFrame:
    """Replay recorded operations under each setting.

    Args:
        operations: Slices from `purgatory_async.pipeline.whatif.slices.Slices`, at least as long as the longest
            timeout plus the longest tick.
        signals: Likewise.
        last_ns: The last instant of each run and node.
        settings: The settings to try.

    Returns:
        ``setting``, its number, and the columns of `Totals`: a row for each slice and setting, to be summed.
    """
    # Renamed, because Spark confuses columns that come from the same journal twice.
    of_signals = signals.toDF(*(f"of_{name}" for name in signals.columns))
    whose = ("run_id", "node", "slice")
    pairs = operations.groupBy(*whose).cogroup(of_signals.groupBy(*(f"of_{name}" for name in whose)))
    return pairs.applyInArrow(_replay_with(settings, last_ns), spark_schema(_SCHEMA))


def _replay_with(
    settings: Sequence[Setting], last_ns: Mapping[tuple[str, str], int]
) -> Callable[[pa.Table, pa.Table], pa.Table]:
    def replay_slice(operations: pa.Table, signals: pa.Table) -> pa.Table:
        """Replay one slice on a worker."""
        rows: list[dict[str, Any]] = []
        if operations.num_rows:
            last = last_ns[operations["run_id"][0].as_py(), operations["node"][0].as_py()]
            waits = unpacked(operations["packed"].to_pylist(), WAITS.empty_table())
            waits = waits.append_column("last_ns", pa.repeat(last, len(waits)))
            signalled = unpacked(signals["of_packed"].to_pylist(), SIGNALS.empty_table())
            totals = replay(waits, signalled, settings)
            rows = [{"setting": place} | asdict(total) for place, total in enumerate(totals)]
        return pa.Table.from_pylist(rows, _SCHEMA)

    return replay_slice
