"""Counts what a report shows, of some operations at a time; counts of parts add up to those of the whole."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from purgatory_async.pipeline.locations import Location, whole
from purgatory_async.pipeline.operations.buckets import in_portions
from purgatory_async.pipeline.operations.pairing import OPERATIONS, Pairing

__all__ = ["KEYS_READ", "SIGNALLED", "STEPS", "TALLIES", "OutcomeParts", "Tally", "signalled"]

STEPS: Final = 8
"""Of a histogram, for each factor of two."""

TALLIES: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("tally", "run_id", "node", "key", "name")),
        *((name, pa.int64()) for name in ("at", "count", "first", "second")),
    ]
)
"""All tallies in one table; see `Tally`. ``name`` is an outcome, or what happened."""

KEYS_READ: Final = ("kind", "key")
"""What `signalled` has to know of a record."""

SIGNALLED: Final = pa.schema([("key", pa.string()), ("count", pa.int64())])
"""How many signals there were on a key."""

Ints = NDArray[np.int64]
_NS: Final = 1_000_000_000
# Where steps begin, in whole nanoseconds.
_EDGES: Final = np.array([ceil(2 ** (step / STEPS)) for step in range(63 * STEPS)], np.int64)

# The other columns have almost no repeated values.
_REPEATED: Final = ["run_id", "node", "outcome", "keys.list.element"]


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts operations in the columns of `TALLIES`.

    - ``total``: by run, node and outcome, null for the pending; ``first`` and ``second`` are how long they were
      pending, in seconds and nanoseconds over, so that neither overflows; of the pending, as if they had ended at
      instant 0;
    - ``step``: completed operations by their latency and expired ones by their lateness, in steps from
      ``2 ** (at / STEPS)`` nanoseconds on; ``first`` and ``second`` are the least and the greatest. What is below a
      nanosecond counts as one;
    - ``time``: what happened, by stretches that begin ``at``, a multiple of their width since 1970;
    - ``key``: operations by key and outcome; an operation counts under each of its keys.

    Attributes:
        width_ns: Of a stretch.
    """

    width_ns: int

    def of(self, operations: pa.Table) -> pa.Table:
        """Count operations, in the columns of `purgatory_async.pipeline.operations.pairing.OPERATIONS`."""
        tables = {
            "total": _totals(operations),
            "step": pa.concat_tables(
                [_steps(operations, "completed", "latency_ns"), _steps(operations, "expired", "lateness_ns")]
            ),
            "time": self._time(operations),
            "key": _keys(operations),
        }
        return pa.concat_tables(_laid_out(name, table) for name, table in tables.items())

    def _time(self, operations: pa.Table) -> pa.Table:
        ended = operations.select(["outcome", "end_wall_ns"]).drop_null()
        what = pa.concat_arrays(
            [pa.repeat("submitted", len(operations)), *ended["outcome"].cast(pa.string()).chunks]
        )
        at_ns = np.concatenate([operations["submit_wall_ns"].to_numpy(), ended["end_wall_ns"].to_numpy()])
        happened = pa.table({"name": what, "at": at_ns - at_ns % self.width_ns})
        return _counted(happened, ["name", "at"])


def signalled(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Count the signals among some records, by key.

    Args:
        batches: With the columns of `KEYS_READ`.

    Yields:
        Batches with the columns of `SIGNALLED`.
    """
    for records in in_portions(batches):
        keys = records.filter(pc.equal(records["kind"], "signal")).select(["key"])
        yield from _counted(keys, ["key"]).cast(SIGNALLED).to_batches()


def _totals(operations: pa.Table) -> pa.Table:
    held_ns = pc.fill_null(operations["end_ns"], 0).to_numpy() - operations["submit_ns"].to_numpy()
    whose = operations.select(["run_id", "node", "outcome"]).rename_columns(["run_id", "node", "name"])
    held = whose.append_column("first", pa.array(held_ns // _NS))
    held = held.append_column("second", pa.array(held_ns % _NS))
    return _counted(held, ["run_id", "node", "name"], {"first": "sum", "second": "sum"})


def _steps(operations: pa.Table, outcome: str, measure: str) -> pa.Table:
    chosen = operations.filter(pc.equal(operations["outcome"], outcome))
    values = chosen[measure].drop_null().to_numpy()
    step = np.searchsorted(_EDGES, np.maximum(values, 1), side="right") - 1
    table = pa.table({"at": step, "first": values, "second": values})
    found = _counted(table, ["at"], {"first": "min", "second": "max"})
    return found.append_column("name", pa.array([outcome] * len(found), pa.string()))


def _keys(operations: pa.Table) -> pa.Table:
    keys = operations["keys"].combine_chunks()
    outcome = pc.fill_null(operations["outcome"], "pending").combine_chunks()
    table = pa.table({"key": pc.list_flatten(keys), "name": outcome.take(pc.list_parent_indices(keys))})
    return _counted(table, ["key", "name"])


def _counted(table: pa.Table, by: list[str], more: Mapping[str, str] | None = None) -> pa.Table:
    """Count the rows of each group, and put some columns together."""
    more = more or {}
    wanted: list[Any] = [([], "count_all"), *more.items()]
    found = table.group_by(by, use_threads=False).aggregate(wanted)
    names = {"count_all": "count"} | {f"{name}_{how}": name for name, how in more.items()}
    return found.rename_columns([names.get(name, name) for name in found.column_names])


def _laid_out(tally: str, table: pa.Table) -> pa.Table:
    columns = {name: table[name] for name in table.column_names} | {"tally": pa.repeat(tally, len(table))}
    return pa.table(
        {
            field.name: columns[field.name].cast(field.type)
            if field.name in columns
            else pa.nulls(len(table), field.type)
            for field in TALLIES
        },
        schema=TALLIES,
    )


@dataclass(frozen=True, slots=True)
class OutcomeParts:
    """Writes operations, and returns only their tally.

    If Spark repeats a bucket, the new file has the same rows and replaces the old one.

    Attributes:
        directory: A new directory, which the workers must see as this process does.
        tally: Counts the operations.
    """

    directory: Location
    tally: Tally

    def lay_out(self) -> None:
        """Create the directory with a file without rows, so that it can be read even without operations."""
        if isinstance(self.directory, Path):
            self.directory.mkdir()
        with whole(self.directory / "no-rows.parquet") as path:
            pq.write_table(OPERATIONS.empty_table(), path)

    def write(self, pairing: Pairing) -> pa.Table:
        """Write a bucket's operations, and return their tally."""
        operations = pairing.operations()
        if len(operations):
            with whole(self.directory / f"part-{pairing.bucket:05d}.parquet") as path:
                pq.write_table(operations, path, use_dictionary=_REPEATED)  # pyright: ignore[reportArgumentType]
        return self.tally.of(operations)
