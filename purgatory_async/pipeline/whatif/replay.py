"""Operations and signals as Arrow tables, to what becomes of them under other settings.

A recorded end is evidence that the signals do not give: a completion may have had no signal at all. So an operation
completes when the signals satisfy it, or when it was recorded to have completed, whichever is first; and another
recorded end stands, unless the signals satisfied the operation before.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from purgatory_async.journal.schema import NO_SUM
from purgatory_async.pipeline.whatif import satisfy
from purgatory_async.pipeline.whatif.satisfy import Ints
from purgatory_async.pipeline.whatif.wheel_sim import NEVER, Setting, Totals, Waits, simulate

__all__ = ["replay"]


def replay(operations: pa.Table, signals: pa.Table, settings: Sequence[Setting]) -> list[Totals]:
    """Let recorded operations run again under each setting.

    Args:
        operations: Of one run and node, in any order: ``submit_seq, submit_ns, keys, needed, timeout_ns, outcome,
            end_ns, last_ns``.
        signals: At least those after the first submission and before the last deadline: ``seq, mono_ns, key, n``.
        settings: What to try.

    Returns:
        The totals of each setting, in order.
    """
    submit_ns = _numbers(operations["submit_ns"])
    came_true_ns = np.maximum(_came_true_ns(operations, signals, submit_ns), submit_ns)
    recorded_ns = _numbers(operations["end_ns"], NEVER)
    expired = _is(operations, "expired")
    completed = _is(operations, "completed")
    ended = (recorded_ns < NEVER) & ~expired
    stands_ns = np.where(ended, recorded_ns, NEVER)
    waits = Waits(
        submit_ns=submit_ns,
        timeout_ns=_numbers(operations["timeout_ns"], NEVER),
        end_ns=np.minimum(came_true_ns, stands_ns),
        completed=completed | (came_true_ns < stands_ns),
        ended=ended,
        last_ns=_numbers(operations["last_ns"]),
    )
    return simulate(waits, settings)


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


def _is(operations: pa.Table, outcome: str) -> NDArray[np.bool_]:
    flags: NDArray[np.bool_] = pc.fill_null(pc.equal(operations["outcome"], outcome), False).to_numpy(
        zero_copy_only=False
    )
    return flags
