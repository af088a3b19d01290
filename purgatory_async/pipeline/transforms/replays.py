"""A journal under other settings, slice by slice of its time.

Whether an operation completes depends on the signals between its submission and its deadline, and on nothing else.
So the time of each node is cut into slices at least as long as the longest wait: then an operation needs the signals
of its own slice and of the next one, and a slice is as much work as a worker can hold when its node could. Operations
without a timeout need all signals to the end and are a slice of their own.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from purgatory_async.pipeline.kernels.replay import replay
from purgatory_async.pipeline.kernels.wheel_sim import Setting, Totals

__all__ = ["replays"]

_ENDLESS: Final = -(2**63)  # the slice of those that wait without end
_SLICE: Final = ("run_id", "node", "slice")
_SCHEMA: Final = ", ".join(f"{name} long" for name in ("setting", *(field.name for field in fields(Totals))))


def replays(
    operations: DataFrame,
    signals: DataFrame,
    last: DataFrame,
    settings: Sequence[Setting],
    *,
    slice_ns: int,
    endless: bool,
) -> DataFrame:
    """Let recorded operations run again under each setting.

    Args:
        operations: As `purgatory_async.pipeline.transforms.operations.operations` gives them.
        signals: The records of that kind.
        last: ``run_id, node, last_ns``; as small as the number of nodes.
        settings: What to try.
        slice_ns: Length of a slice, at least the longest timeout plus the longest tick.
        endless: Whether there may be operations without a timeout.

    Returns:
        ``setting``, the number of each, and what `Totals` has: a row for each slice and setting, to be added up.
    """
    own = _slice("mono_ns", slice_ns)
    needed_by = [own, own - 1, *([sf.lit(_ENDLESS)] if endless else [])]
    # Other names, because Spark cannot tell columns apart that come from the same journal twice.
    of_signals = signals.select(
        *(sf.col(name).alias(f"of_{name}") for name in ("run_id", "node")),
        sf.explode(sf.array(*needed_by)).alias("of_slice"),
        *("seq", "mono_ns", "key", "n"),
    )
    of_operations = operations.join(sf.broadcast(last), on=["run_id", "node"], how="inner").select(
        "run_id",
        "node",
        sf.when(sf.col("timeout_ns").isNull(), sf.lit(_ENDLESS))
        .otherwise(_slice("submit_ns", slice_ns))
        .alias("slice"),
        *("submit_seq", "submit_ns", "keys", "needed", "timeout_ns", "outcome", "end_ns", "last_ns"),
    )
    pairs = of_operations.groupBy(*_SLICE).cogroup(of_signals.groupBy(*(f"of_{name}" for name in _SLICE)))
    return pairs.applyInArrow(_replay_with(settings), _SCHEMA)


def _slice(instant: str, slice_ns: int) -> Column:
    # Rounded down, also before the run's start.
    return sf.expr(f"({instant} - pmod({instant}, {slice_ns}L)) div {slice_ns}L")


def _replay_with(settings: Sequence[Setting]) -> Callable[[pa.Table, pa.Table], pa.Table]:
    schema = pa.schema([(name.split()[0], pa.int64()) for name in _SCHEMA.split(", ")])

    def replay_slice(operations: pa.Table, signals: pa.Table) -> pa.Table:
        """Replay what one worker was given."""
        rows: list[dict[str, Any]] = []
        if operations.num_rows:
            totals = replay(operations, signals, settings)
            rows = [{"setting": place} | asdict(total) for place, total in enumerate(totals)]
        return pa.Table.from_pylist(rows, schema)

    return replay_slice
