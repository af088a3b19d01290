"""A journal as a purgatory would leave it of a workload: the same records, made in bulk."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from purgatory_async.journal.columns import arrow_schema
from purgatory_async.journal.schema import NO_SUM
from purgatory_async.pipeline.workload import Workload

__all__ = ["write_model_journal"]

RUN: Final = "model"
NODE: Final = "node-1"
TICK_NS: Final = 1_000_000
EPOCH_NS: Final = 1_790_000_000_000_000_000
MOST_LATE_NS: Final = 400_000  # after its tick, the model's timer fires within this
SEGMENT: Final = 1_000_000  # records

KINDS: Final = ("submit", "outcome", "signal")

Ints = NDArray[np.int64]


def write_model_journal(workload: Workload, directory: Path, *, signals: bool) -> None:
    """Write the journal of one node, in rotated segments.

    Args:
        workload: Its operations complete after their latency, or expire on the tick after their timeout.
        directory: Empty; takes the segments.
        signals: Whether each completion comes with a signal on the operation's first key.
    """
    model = _Model(workload)
    every = np.arange(workload.requests)
    signalled = every[model.completed] if signals else every[:0]
    operation = np.concatenate([every, every, signalled])
    kind = np.repeat(np.arange(3), [len(every), len(every), len(signalled)])
    at_ns = np.concatenate([model.submit_ns, model.end_ns, model.end_ns[signalled]])
    order = np.argsort(at_ns, kind="stable")
    for number, begin in enumerate(range(0, len(order), SEGMENT), 1):
        part = order[begin : begin + SEGMENT]
        seq = np.arange(begin + 1, begin + len(part) + 1)
        tables = []
        for which, name in enumerate(KINDS):
            chosen = kind[part] == which
            tables.append(model.records(name, seq[chosen], at_ns[part[chosen]], operation[part[chosen]]))
        path = directory / f"{RUN}.{NODE}.{number:06d}.parquet"
        pq.write_table(pa.concat_tables(tables), path, compression="zstd")


class _Model:
    """What becomes of each operation of a workload."""

    def __init__(self, workload: Workload) -> None:
        rows = pa.Table.from_batches(_rows(workload))
        self.timeout_ns = workload.timeout_ns
        self.submit_ns: Ints = rows["submit_ns"].to_numpy()
        finished_ns = self.submit_ns + rows["latency_ns"].to_numpy()
        deadline_ns = -(-(self.submit_ns + self.timeout_ns) // TICK_NS) * TICK_NS
        late_ns = np.random.default_rng(workload.seed).integers(0, MOST_LATE_NS, len(finished_ns))
        self.completed = finished_ns < deadline_ns
        self.end_ns: Ints = np.where(self.completed, finished_ns, deadline_ns + late_ns)
        keys = rows["watch_keys"].combine_chunks()
        names = pa.array([f"orders/{number}" for number in range(workload.key_space)])
        self.keys = pa.ListArray.from_arrays(keys.offsets, names.take(keys.values))

    def records(self, kind: str, seq: Ints, at_ns: Ints, operation: Ints) -> pa.Table:
        """Records of one kind, in all columns of a journal."""
        count = len(seq)
        columns = {
            "schema_version": pa.repeat(1, count),
            "run_id": pa.repeat(RUN, count),
            "node": pa.repeat(NODE, count),
            "seq": pa.array(seq),
            "kind": pa.repeat(kind, count),
            "wall_ns": pa.array(at_ns + EPOCH_NS),
            "mono_ns": pa.array(at_ns),
        }
        columns |= getattr(self, f"_{kind}")(at_ns, operation)
        schema = arrow_schema()
        return pa.Table.from_arrays(
            [
                columns[field.name].cast(field.type) if field.name in columns else pa.nulls(count, field.type)
                for field in schema
            ],
            schema=schema,
        )

    def _submit(self, _: Ints, operation: Ints) -> dict[str, pa.Array]:
        return self._named(operation) | {
            "needed": pa.repeat(NO_SUM, len(operation)),
            "timeout_ns": pa.repeat(self.timeout_ns, len(operation)),
        }

    def _outcome(self, at_ns: Ints, operation: Ints) -> dict[str, pa.Array]:
        completed = self.completed[operation]
        latency_ns = at_ns - self.submit_ns[operation]
        return self._named(operation) | {
            "outcome": pa.array(["expired", "completed"]).take(pa.array(completed.astype(np.int8))),
            "latency_ns": pa.array(latency_ns),
            "lateness_ns": pa.array(latency_ns - self.timeout_ns, mask=completed),
            "checks": pa.repeat(1, len(operation)),
            "inserts": pa.repeat(1, len(operation)),
        }

    def _signal(self, _: Ints, operation: Ints) -> dict[str, pa.Array]:
        firsts = self.keys.offsets.take(pa.array(operation))
        return {"key": self.keys.values.take(firsts), "n": pa.repeat(1, len(operation))}

    def _named(self, operation: Ints) -> dict[str, pa.Array]:
        numbers = pa.array(operation)
        return {"op_id": numbers.cast(pa.string()), "keys": self.keys.take(numbers)}


def _rows(workload: Workload) -> Iterator[pa.RecordBatch]:
    begin_ns = 0
    for block in range(workload.blocks):
        yield workload.rows(block, begin_ns)
        begin_ns += workload.gap_sum_ns(block)
