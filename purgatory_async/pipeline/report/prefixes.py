"""Makes the table of prefixes out of the sums of a report."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from purgatory_async.pipeline.report.sums import OUTCOMES, Set

PERCENTILES: Final = (50, 95, 99)
"""The percentiles that a report shows, in percent."""

_RANKED: Final = 1000  # prefixes

PREFIXES: Final = pa.schema(
    [
        ("prefix", pa.string()),
        *((name, pa.int64()) for name in ("keys", "submitted", *OUTCOMES, "signals")),
        *((f"latency_{name}_ns", pa.int64()) for name in (*(f"p{share}" for share in PERCENTILES), "max")),
    ]
)
"""The counts and latencies of a prefix; an operation counts once under each prefix of its keys. Only completed
operations have a latency, and only the thousand prefixes with most operations percentiles."""


def ranked_sums(sums: pa.Table) -> pa.Table:
    """Choose, from the result of `added_up`, the sums of all operations and of prefixes with percentiles."""
    busiest = _counts(sums)["prefix"].slice(0, _RANKED)
    return sums.filter(pc.or_(sums["whole"], pc.is_in(sums["prefix"], value_set=busiest.combine_chunks())))


def prefix_table(sums: pa.Table, ranks: Mapping[Set, Mapping[int, int]], keys: pa.Table) -> pa.Table:
    """Make the table, the prefixes with most operations first.

    Args:
        sums: From `added_up`.
        ranks: From `Ranks`.
        keys: From `by_prefix`: the keys and signals of each prefix.
    """
    counts = _counts(sums)
    row = pc.index_in(counts["prefix"], value_set=keys["prefix"].combine_chunks())
    columns = {name: counts[name] for name in counts.column_names}
    columns |= {name: keys[name].take(row) for name in ("keys", "signals")}
    busiest = counts["prefix"].slice(0, _RANKED).to_pylist()
    found = [ranks.get(("completed", name, False), {}) for name in busiest]
    for share in PERCENTILES:
        own = pa.array([each.get(share) for each in found], pa.int64())
        rest = pa.nulls(len(counts) - len(busiest), pa.int64())
        columns[f"latency_p{share}_ns"] = pa.chunked_array([own, rest])
    return pa.table([columns[name] for name in PREFIXES.names], schema=PREFIXES)


def _counts(sums: pa.Table) -> pa.Table:
    """The counts and the longest latency of each prefix, those with most operations first."""
    own = sums.filter(pc.invert(sums["whole"]))
    for name in OUTCOMES:
        own = own.append_column(name, pc.if_else(pc.equal(own["outcome"], name), own["count"], 0))
    groups = own.group_by("prefix", use_threads=False).aggregate(
        [("count", "sum"), ("greatest", "max"), *((name, "sum") for name in OUTCOMES)]
    )
    names = ["prefix", "submitted", "latency_max_ns", *OUTCOMES]
    return groups.rename_columns(names).sort_by([("submitted", "descending"), ("prefix", "ascending")])
