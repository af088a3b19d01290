"""Sums operations where they are put together: by outcome, by duration, and by prefix of their keys.

Each bucket of operations becomes a few rows, which add up. Durations are counted in the steps of a logarithmic scale.
Of those, `Ranks` finds the steps that hold the percentiles, and `chosen` picks the durations in them. So percentiles
are exact, although only a part of the durations is sorted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from purgatory_async.journal.schema import OutcomeWord
from purgatory_async.pipeline.operations.prefixes import Prefixed, in_order

Ints = NDArray[np.int64]

OUTCOMES: Final = (*get_args(OutcomeWord), "pending")
"""The states of operations in a report, in the order of listing."""

STEPS: Final = 8
"""Of a histogram, for each factor of two: step *i* starts at ``2 ** (i / STEPS)`` nanoseconds, the first also below."""

SUMS: Final = pa.schema(
    [
        ("whole", pa.bool_()),
        ("prefix", pa.string()),
        ("outcome", pa.string()),
        ("step", pa.int64()),
        *((name, pa.int64()) for name in ("count", "least", "greatest")),
        ("held_ns", pa.decimal128(38, 0)),
    ]
)
"""A count of all operations (``whole``) or the operations of a prefix, by outcome and step; ``least`` and ``greatest``
are the extreme durations in it. ``step`` and both are null where nothing is measured: the latency of completed
operations is, and of all together the lateness of expired ones. ``held_ns`` sums the times pending, up to a node's last
record."""

READ: Final = ("keys", "outcome", "latency_ns", "lateness_ns")
"""What `chosen` needs of an operation."""

CHOSEN: Final = pa.schema([("part", pa.int64()), ("value", pa.int64()), ("times", pa.int64())])
"""A duration that is in one of the steps with a percentile, and how often it occurs."""

_COMPLETED, _EXPIRED = OUTCOMES.index("completed"), OUTCOMES.index("expired")
_MOST_STEPS: Final = 64 * STEPS
_HALF: Final = 32  # bits; 65 536 operations that are pending for two days exceed 64
_ADDED: Final = (("count", "sum"), ("least", "min"), ("greatest", "max"), ("held_ns", "sum"))


@dataclass(frozen=True, slots=True)
class _Rows:
    """All operations, then the operations of each prefix."""

    names: Sequence[str | None]  # of the prefixes
    name: Ints  # the place of each row's prefix in ``names``; -1 for all of them
    row: Ints  # its operation
    outcome: Ints  # the place of its outcome in `OUTCOMES`
    value: Ints  # its duration in nanoseconds; 0 if none is measured
    step: Ints  # the step of that; -1 if none is measured

    @classmethod
    def of(cls, operations: pa.Table) -> "_Rows":
        """Find the prefixes and durations of operations, in the columns of `READ`."""
        found = Prefixed.of(operations["keys"])
        rows = np.arange(len(operations))
        name = np.concatenate([np.full(len(rows), -1), found.number])
        row = np.concatenate([rows, found.row])
        words = pc.index_in(pc.fill_null(operations["outcome"], "pending"), pa.array(OUTCOMES))
        outcome = words.to_numpy().astype(np.int64)
        late = np.where(outcome == _EXPIRED, _ints(operations["lateness_ns"]), 0)
        value = np.where(outcome == _COMPLETED, _ints(operations["latency_ns"]), late)
        known = np.select(
            [outcome == _COMPLETED, outcome == _EXPIRED],
            [_known(operations["latency_ns"]), _known(operations["lateness_ns"])],
            default=False,
        )
        step = np.where(known, np.floor(np.log2(np.maximum(value, 1)) * STEPS), -1).astype(np.int64)
        # The lateness of a prefix would say nothing of it: the timer is one for all.
        measured = (name < 0) | (outcome[row] == _COMPLETED)
        return cls(found.names, name, row, outcome[row], value[row], np.where(measured, step[row], -1))


def summed(operations: pa.Table, last_ns: Mapping[tuple[str, str], int]) -> pa.Table:
    """Sum operations (`OPERATIONS`), given the last instant of each run and node; return `SUMS`."""
    rows = _Rows.of(operations)
    key = ((rows.name + 1) * len(OUTCOMES) + rows.outcome) * (_MOST_STEPS + 1) + rows.step + 1
    order = in_order(key)
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    firsts, value = order[starts], rows.value[order]
    held = _held_ns(operations, last_ns)[rows.row[order]]
    high, low = (np.add.reduceat(half, starts) for half in (held >> _HALF, held & ((1 << _HALF) - 1)))
    step = rows.step[firsts]
    unmeasured = step < 0
    columns: dict[str, Any] = {
        "whole": rows.name[firsts] < 0,
        "prefix": [rows.names[name] if name >= 0 else None for name in rows.name[firsts].tolist()],
        "outcome": [OUTCOMES[place] for place in rows.outcome[firsts].tolist()],
        "step": pa.array(step, mask=unmeasured),
        "count": np.diff(np.append(starts, len(order))),
        "least": pa.array(np.minimum.reduceat(value, starts), mask=unmeasured),
        "greatest": pa.array(np.maximum.reduceat(value, starts), mask=unmeasured),
        "held_ns": [(more << _HALF) + less for more, less in zip(high.tolist(), low.tolist(), strict=True)],
    }
    return pa.table(columns, schema=SUMS)


def _held_ns(operations: pa.Table, last_ns: Mapping[tuple[str, str], int]) -> Ints:
    """How long each was pending."""
    until = _ints(operations["end_ns"])
    pending = ~_known(operations["end_ns"])
    runs, nodes = (operations[name].filter(pa.array(pending)).to_pylist() for name in ("run_id", "node"))
    until[pending] = [last_ns[whose] for whose in zip(runs, nodes, strict=True)]
    return until - _ints(operations["submit_ns"])


def added_up(sums: pa.Table) -> pa.Table:
    """Add up what `summed` made of the parts of a journal, in the columns of `SUMS`, by step."""
    keys = ["whole", "prefix", "outcome", "step"]
    groups = sums.group_by(keys, use_threads=False).aggregate([*_ADDED])
    return groups.rename_columns([*keys, *(name for name, _ in _ADDED)]).cast(SUMS).sort_by("step")


Set = tuple[str, str | None, bool]
"""An outcome, a prefix, and whether all operations are meant instead of the prefix's."""


class Ranks:
    """Exact percentiles by nearest rank: the smallest value that at least ``share`` percent do not exceed.

    Args:
        sums: From `added_up`.
        shares: In percent, from 1 to 100.

    Attributes:
        parts: A number from 0 for each set and step with a percentile to find; a step of a single value has none.
        found: The values for each set and share. As long as not all `parts` are solved, some are only close.
    """

    def __init__(self, sums: pa.Table, shares: Sequence[int]) -> None:
        self.parts: dict[tuple[Set, int], int] = {}
        self.found: dict[Set, dict[int, int]] = {}
        self._ranks: dict[tuple[int, int], list[tuple[Set, int]]] = {}  # by part and rank in it
        sets: dict[Set, list[dict[str, int]]] = {}
        measured = sums.filter(pc.is_valid(sums["step"]))
        for row in measured.to_pylist():
            sets.setdefault((row["outcome"], row["prefix"], row["whole"]), []).append(row)
        for whose, steps in sets.items():
            total = sum(step["count"] for step in steps)
            self.found[whose] = {}
            below = 0
            for step in steps:
                ranks = {share: -(-share * total // 100) - below for share in shares}
                here = {share: rank for share, rank in ranks.items() if 0 < rank <= step["count"]}
                self.found[whose] |= dict.fromkeys(here, step["least"])
                if here and step["least"] < step["greatest"]:
                    part = self.parts.setdefault((whose, step["step"]), len(self.parts))
                    for share, rank in here.items():
                        self._ranks.setdefault((part, rank), []).append((whose, share))
                below += step["count"]

    @property
    def wanted(self) -> list[tuple[int, int]]:
        """The ranks to look up: the number of a part, and a rank from 1 on among its values."""
        return list(self._ranks)

    def solve(self, part: int, rank: int, value: int) -> None:
        """Note the value of one of `wanted`."""
        for whose, share in self._ranks[part, rank]:
            self.found[whose][share] = value


def chosen(operations: pa.Table, parts: Mapping[tuple[Set, int], int]) -> pa.Table:
    """Choose the durations of operations (`READ`) that are in some steps; return `CHOSEN`."""
    rows = _Rows.of(operations)
    places = {name: place for place, name in enumerate(rows.names)}
    width = _MOST_STEPS + 1
    wanted = {
        ((-1 if whole else places[prefix]) + 1) * len(OUTCOMES) * width
        + OUTCOMES.index(outcome) * width
        + step: part
        for ((outcome, prefix, whole), step), part in parts.items()
        if whole or prefix in places
    }
    codes = np.array(sorted(wanted), np.int64)
    key = ((rows.name + 1) * len(OUTCOMES) + rows.outcome) * width + rows.step
    inside = np.isin(key, codes) & (rows.step >= 0)
    part = np.array([wanted[code] for code in codes.tolist()], np.int64)[np.searchsorted(codes, key[inside])]
    pairs, times = np.unique(np.stack([part, rows.value[inside]]), axis=1, return_counts=True)
    return pa.table([pairs[0], pairs[1], times], schema=CHOSEN)


def _known(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    flags: NDArray[np.bool_] = column.is_valid().to_numpy()
    return flags


def _ints(column: pa.ChunkedArray) -> Ints:
    numbers: Ints = pc.fill_null(column, 0).to_numpy().copy()
    return numbers
