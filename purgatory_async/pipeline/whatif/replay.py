"""Replays operations and signals of a node under other settings, by slices of its time.

A recorded end is evidence that the signals do not give: a completion may have had no signal at all. So an operation
completes when the signals satisfy it, or when it was recorded to have completed, whichever is first; and another
recorded end stands, unless the signals satisfied the operation before.

An operation belongs to the slice of its submission, or to `ENDLESS` if it has no timeout or was rescheduled. A signal
is wanted by the operations of its own slice, by operations of the slice before, and by those that wait without end.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from purgatory_async.journal.columns import arrow_schema
from purgatory_async.journal.schema import NO_SUM
from purgatory_async.pipeline.operations.buckets import in_portions, packed
from purgatory_async.pipeline.operations.pairing import OPERATIONS, Pairing
from purgatory_async.pipeline.operations.prefixes import Prefixed
from purgatory_async.pipeline.whatif import satisfy
from purgatory_async.pipeline.whatif.satisfy import Ints
from purgatory_async.pipeline.whatif.wheel_sim import (
    NEVER,
    Setting,
    Totals,
    Waits,
    simulate,
    simulate_groups,
)

ENDLESS: Final = -(2**63)
"""The slice of those that may wait for any time."""

SIGNALS_READ: Final = ("run_id", "node", "seq", "kind", "mono_ns", "key", "n")
"""What `Slices.of_signals` has to know of a record."""

WAITS: Final = pa.schema(
    map(
        OPERATIONS.field,
        (
            *("submit_seq", "submit_ns", "keys", "needed", "timeout_ns", "deadline_ns", "rescheduled_ns"),
            *("outcome", "end_ns"),
        ),
    )
)
"""What is packed of an operation."""

SIGNALS: Final = pa.schema(map(arrow_schema().field, ("seq", "mono_ns", "key", "n")))
"""What is packed of a signal."""

SLICED: Final = pa.schema(
    [("run_id", pa.string()), ("node", pa.string()), ("slice", pa.int64()), ("packed", pa.binary())]
)
"""A slice of a run and node, and packed what is in it."""


@dataclass(frozen=True, slots=True)
class Slices:
    """How time is cut."""

    width_ns: int  # of a slice; at least as long as any timeout that is tried
    endless: bool  # whether there may be operations without a timeout, or rescheduled ones

    def of_operations(self, pairing: Pairing) -> pa.Table:
        """Pack operations, in the columns of `SLICED`, with tables of `WAITS`."""
        found = pairing.operations()
        timed = found["timeout_ns"].is_valid().to_numpy() & found["rescheduled_ns"].is_null().to_numpy()
        number = np.where(timed, found["submit_ns"].to_numpy() // self.width_ns, ENDLESS)
        rows = _sliced(found, number, WAITS)
        return pa.Table.from_pylist(rows, SLICED)

    def of_signals(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the signals among some records, in the columns of `SIGNALS_READ`.

        Yields:
            Batches with the columns of `SLICED`, with tables of `SIGNALS`. A signal is in two or three.
        """
        for records in in_portions(batches):
            signals = records.filter(pc.equal(records["kind"], "signal"))
            number = signals["mono_ns"].to_numpy() // self.width_ns
            own = _sliced(signals, number, SIGNALS)
            before = [row | {"slice": row["slice"] - 1} for row in own]
            endless = [row | {"slice": ENDLESS} for row in own] if self.endless else []
            if own:
                yield pa.RecordBatch.from_pylist([*own, *before, *endless], SLICED)


def _sliced(records: pa.Table, number: Ints, schema: pa.Schema) -> list[dict[str, Any]]:
    """Pack some columns of each run's, node's and slice's records."""
    runs, nodes = (
        records[name].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
        for name in ("run_id", "node")
    )
    slices, place = np.unique(number, return_inverse=True)
    whose = (runs * (nodes.max(initial=0) + 1) + nodes) * len(slices) + place
    _, firsts, part = np.unique(whose, return_index=True, return_inverse=True)
    tables = packed(records.select(schema.names).cast(schema), part, len(firsts))
    owners = records.select(["run_id", "node"]).take(firsts).to_pylist()
    return [
        owner | {"slice": int(number[first]), "packed": tables[row]}
        for row, (owner, first) in enumerate(zip(owners, firsts, strict=True))
    ]


def replay(operations: pa.Table, signals: pa.Table, settings: Sequence[Setting]) -> list[Totals]:
    """Let recorded operations run again under each setting.

    Args:
        operations: The operations of one run and node, in any order: ``submit_seq, submit_ns, keys, needed, timeout_ns,
            deadline_ns, rescheduled_ns, outcome, end_ns, last_ns``.
        signals: At least those after the first submission and before the last deadline: ``seq, mono_ns, key, n``.
        settings: What to try.

    Returns:
        The totals of each setting, in order.
    """
    return simulate(recorded(operations, signals), settings)


def replay_prefixes(
    waits: Waits, keys: pa.ChunkedArray, settings: Sequence[Setting]
) -> Iterator[tuple[str | None, Waits, list[Totals]]]:
    """Let recorded operations, given with their keys, run again under each setting, each prefix by itself.

    Yields:
        Each prefix with its operations and their totals of each setting, in order.
    """
    found = Prefixed.of(keys)
    of_prefixes = waits.only(found.row)
    groups = simulate_groups(of_prefixes, found.number, settings)
    ends = np.cumsum(np.bincount(found.number, minlength=len(found.names))).tolist()
    for number, (name, begin, end) in enumerate(zip(found.names, [0, *ends], ends, strict=False)):
        yield name, of_prefixes.only(slice(begin, end)), [totals[number] for totals in groups]


def recorded(operations: pa.Table, signals: pa.Table) -> Waits:
    """When recorded operations end by themselves, given as to `replay`."""
    submit_ns = _numbers(operations["submit_ns"])
    came_true_ns = np.maximum(_came_true_ns(operations, signals, submit_ns), submit_ns)
    recorded_ns = _numbers(operations["end_ns"], NEVER)
    expired, completed = (
        _numbers(pc.equal(operations["outcome"], word)) for word in ("expired", "completed")
    )
    ended = (recorded_ns < NEVER) & (expired == 0)
    stands_ns = np.where(ended, recorded_ns, NEVER)
    return Waits(
        submit_ns=submit_ns,
        timeout_ns=_numbers(operations["timeout_ns"], NEVER),
        end_ns=np.minimum(came_true_ns, stands_ns),
        completed=(completed == 1) | (came_true_ns < stands_ns),
        ended=ended,
        last_ns=_numbers(operations["last_ns"]),
        censored=expired == 1,
        moved_ns=_numbers(operations["rescheduled_ns"], NEVER),
        due_ns=_numbers(operations["deadline_ns"], NEVER),
    )


def _came_true_ns(operations: pa.Table, signals: pa.Table, submit_ns: Ints) -> Ints:
    """When the signals satisfied each operation; `NEVER` if they did not, or if its condition is no sum of them."""
    came_true_ns = np.full(len(submit_ns), NEVER)
    needed = _numbers(operations["needed"], NO_SUM)
    summed = needed != NO_SUM
    if summed.any():
        some = operations.select(["submit_seq", "keys"]).filter(pa.array(summed))
        came_true_ns[summed] = _satisfied_ns(some, needed[summed], submit_ns[summed], signals)
    return came_true_ns


def _satisfied_ns(operations: pa.Table, needed: Ints, submit_ns: Ints, signals: pa.Table) -> Ints:
    """When the signals summed up to what each operation needs; `NEVER` if they did not."""
    by_seq = signals.take(pc.array_sort_indices(signals["seq"]))
    watched = operations["keys"].combine_chunks()
    counts = _numbers(pc.list_value_length(watched))
    keys, signalled = _numbered(pc.list_flatten(watched), by_seq["key"])
    found = satisfy.satisfied(
        satisfy.Waits(
            submit_seq=_numbers(operations["submit_seq"]),
            needed=needed,
            offsets=np.concatenate([[0], np.cumsum(counts)]),
            keys=keys,
        ),
        satisfy.Signals(seq=_numbers(by_seq["seq"]), key=signalled, n=_numbers(by_seq["n"])),
    )
    instants = np.append(_numbers(by_seq["mono_ns"]), NEVER)
    return np.where(found == satisfy.AT_ONCE, submit_ns, instants[found])


def _numbered(watched: pa.Array, signalled: pa.ChunkedArray) -> tuple[Ints, Ints]:
    """Number the keys in both; equal keys have equal numbers."""
    both = pa.chunked_array([watched, *signalled.chunks], pa.string())
    numbers = _numbers(both.combine_chunks().dictionary_encode().indices)
    return numbers[: len(watched)], numbers[len(watched) :]


def _numbers(column: pa.Array | pa.ChunkedArray, missing: int = 0) -> Ints:
    numbers: Ints = pc.fill_null(column.cast(pa.int64()), missing).to_numpy(zero_copy_only=False)
    return numbers
