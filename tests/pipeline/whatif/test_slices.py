"""Operations and signals by slices: replayed slice by slice they end as they do all at once."""

from collections import defaultdict

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from purgatory_async.journal.columns import arrow_schema, record_batches
from purgatory_async.pipeline.operations.buckets import DEAL_READ, DEALT, deal, gathered, unpacked
from purgatory_async.pipeline.operations.pairing import Pairing
from purgatory_async.pipeline.whatif.replay import SIGNALS, SIGNALS_READ, WAITS, Slices, replay
from purgatory_async.pipeline.whatif.wheel_sim import Setting, Totals
from tests.pipeline.journals import MS, Node

SETTINGS = [Setting(timeout_ns * MS, MS, 4) for timeout_ns in (5, 19)]
WIDTH_NS = 20 * MS  # as long as the longest wait
KEYS = st.sampled_from("abc")
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["n1", "n2"]),
        st.integers(0, 9 * MS),
        st.one_of(
            st.tuples(
                st.lists(KEYS, min_size=1, unique=True), st.integers(1, 3), st.booleans(), st.booleans()
            ),
            KEYS,
        ),
    ),
    max_size=30,
)


def journal(events):
    """Nodes that began before their clock's zero, where operations wait and keys are signalled."""
    nodes = {name: Node(node=name) for name in ("n1", "n2")}
    at = -30 * MS
    for place, (name, later, what) in enumerate(events):
        at += later
        if isinstance(what, str):
            nodes[name].signal(what, at)
        else:
            keys, needed, timed, moved = what
            nodes[name].submit(f"op-{place}", at, keys, needed, 200 * MS if timed else None)
            if moved:
                nodes[name].reschedule(f"op-{place}", at + MS, 77 * MS)
            if place % 3 == 0:
                nodes[name].outcome(f"op-{place}", at + 3 * MS, "cancelled")
    records = [record for node in nodes.values() for record in node.records]
    return pa.Table.from_batches(record_batches(records), arrow_schema()), at + 3 * MS


def pairing_of(records):
    dealt = pa.Table.from_batches(deal(records.select(DEAL_READ).to_batches(), 1), DEALT)
    return Pairing.of(*gathered(dealt))


def replayed(waits, signals, last_ns):
    return replay(waits.append_column("last_ns", pa.repeat(last_ns, len(waits))), signals, SETTINGS)


def at_once(records, last_ns):
    """The totals of each node's operations against all of its signals."""
    sums = [Totals()] * len(SETTINGS)
    waits, rows = pairing_of(records).operations(), records.to_pylist()
    for node in ("n1", "n2"):
        own = waits.filter(pa.array([name == node for name in waits["node"].to_pylist()], pa.bool_()))
        signals = [row for row in rows if (row["kind"], row["node"]) == ("signal", node)]
        signals = [{name: row[name] for name in SIGNALS.names} for row in signals]
        found = replayed(own.select(WAITS.names), pa.Table.from_pylist(signals, SIGNALS), last_ns)
        sums = [one + more for one, more in zip(sums, found, strict=True)]
    return sums


def by_slices(records, last_ns):
    slices = Slices(WIDTH_NS, endless=True)
    signals = defaultdict(list)
    for batch in slices.of_signals(records.select(SIGNALS_READ).to_batches(max_chunksize=4)):
        for row in batch.to_pylist():
            signals[row["run_id"], row["node"], row["slice"]].append(row["packed"])
    sums = [Totals()] * len(SETTINGS)
    for row in slices.of_operations(pairing_of(records)).to_pylist():
        own = signals[row["run_id"], row["node"], row["slice"]]
        waits = unpacked([row["packed"]], WAITS.empty_table())
        found = replayed(waits, unpacked(own, SIGNALS.empty_table()), last_ns)
        sums = [one + more for one, more in zip(sums, found, strict=True)]
    return sums


@given(EVENTS)
# From -1 ms, the end of a slice, to 1 ms; and a signal on the key in the slice before.
@example([("n1", 5 * MS, "a"), ("n1", 24 * MS, (["a"], 1, True, False)), ("n1", 2 * MS, "a")])
# Its deadline was moved behind the slices in which its first timeout would have ended.
@example([("n1", 31 * MS, "b"), ("n1", MS, (["a"], 1, True, True)), ("n1", 60 * MS, "a")])
def test_slice_by_slice_operations_end_as_they_do_all_at_once(events):
    records, last_ns = journal(events)
    assert by_slices(records, last_ns) == at_once(records, last_ns)
