"""The purgatory in shards against one that looks at every signal of every operation."""

from hypothesis import given, settings
from hypothesis import strategies as st

from purgatory_async.pipeline.distributed.shards import by_clock
from tests.pipeline.distributed.purgatory_oracle import (
    LATEST_NS,
    Operation,
    Outcome,
    Signal,
    outcome_of,
    outcomes_up_to,
)
from tests.pipeline.distributed.sharded_purgatory import MS, ShardedPurgatory

T = 10**18  # some instant; a whole millisecond
KEYS = ("a", "b", "c")
FAR_MS = 10**6

# Around the edges of few milliseconds, so that equal instants, deadlines and watermarks are common.
instants = st.builds(lambda ms, ns: T + ms * MS + ns, st.integers(0, 6), st.sampled_from((-1, 0, 1, 2)))
signals = st.builds(Signal, st.sampled_from(KEYS), instants, st.integers(0, 3))
timeouts = st.one_of(
    st.builds(lambda ms, ns: ms * MS + ns, st.integers(-1, 6), st.sampled_from((-1, 0, 1))),
    st.just(LATEST_NS - T - 10 * MS),
)


@st.composite
def operations(draw):
    rows = draw(
        st.lists(
            st.tuples(
                st.lists(st.sampled_from(KEYS), max_size=3).map(tuple), st.integers(-1, 5), instants, timeouts
            ),
            max_size=8,
        )
    )
    return [Operation(f"op{number}", *row) for number, row in enumerate(rows)]


def cut(draw, rows):
    """Into batches, in this order, some of them empty."""
    places = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=5)))
    return [rows[start:end] for start, end in zip([0, *places], [*places, len(rows)], strict=True)]


def disordered(draw, rows, instant, delay_ms):
    """In order of event time, but for records that come up to the delay behind their time."""
    late = [draw(st.integers(0, delay_ms * MS)) for _ in rows]
    return [
        row for _, row in sorted(zip(late, rows, strict=True), key=lambda pair: instant(pair[1]) + pair[0])
    ]


def in_parallel(draw, first, second):
    """Two inputs, each at its own speed: now a batch of both, now of one only."""
    first, second = list(first), list(second)
    while first or second:
        both = draw(st.sampled_from(("both", "operations", "signals")))
        yield (
            first.pop(0) if first and both != "signals" else [],
            second.pop(0) if second and both != "operations" else [],
        )


@st.composite
def readings(draw):
    """Operations and signals, and the batches in which they are read."""
    submitted, signalled = draw(operations()), draw(st.lists(signals, max_size=14))
    delay_ms = draw(st.sampled_from((0, 2)))
    batches = in_parallel(
        draw,
        cut(draw, disordered(draw, submitted, lambda row: row.submit_ns, delay_ms)),
        cut(draw, disordered(draw, signalled, lambda row: row.at_ns, delay_ms)),
    )
    return submitted, signalled, list(batches), ShardedPurgatory(draw(st.integers(1, 2)), delay_ms)


def heartbeat(purgatory, ms):
    """Both inputs go on, with records that concern no other operation."""
    at_ns = T + ms * MS
    purgatory.read([Operation(f"beat{ms}", (), 1, at_ns, 10**18)], [Signal("beat", at_ns, 1)])
    purgatory.read([], [])


@settings(max_examples=100, deadline=None)
@given(readings(), st.booleans())
def test_event_time_shards_end_every_operation_as_one_machine(reading, goes_on):
    # In whatever order the inputs are read, wherever batches are cut, however far one input is ahead.
    submitted, signalled, batches, purgatory = reading
    for batch in batches:
        purgatory.read(*batch)
    if goes_on:
        last, beat = Operation("beat", (), 1, T + FAR_MS * MS, 10**18), Signal("beat", T + FAR_MS * MS, 1)
        submitted, signalled = [*submitted, last], [*signalled, beat]
        purgatory.read([last], [beat])
    purgatory.read([], [])
    decided = outcomes_up_to(purgatory.watermark_ms * MS, submitted, signalled)
    assert sorted(purgatory.outcomes) == decided
    words = [outcome.outcome for outcome in decided]
    assert purgatory.tallies == {
        "submitted": len(submitted),
        "completed": words.count("completed"),
        "expired": words.count("expired"),
        "late": 0,
        "repeated": 0,
    }


@settings(max_examples=30, deadline=None)
@given(readings())
def test_when_time_has_passed_the_last_deadline_nothing_is_kept(reading):
    # A watch or a signal left behind would be there for ever.
    submitted, signalled, batches, purgatory = reading
    submitted = [row for row in submitted if row.timeout_ns < FAR_MS * MS]
    batches = [([row for row in rows if row in submitted], more) for rows, more in batches]
    for batch in batches:
        purgatory.read(*batch)
    purgatory.read([], [Signal("beat", T + FAR_MS * MS, 1)])
    purgatory.read([Operation("beat", (), 0, T + FAR_MS * MS, 0)], [])
    purgatory.read([], [])
    ended = [outcome for outcome in purgatory.outcomes if outcome.op_id != "beat"]
    assert sorted(ended) == sorted(outcome_of(row, signalled) for row in submitted)
    held = [value for value in purgatory.stored if value is not None]
    assert len(held) <= purgatory.delay_ms  # a delay keeps the beat's own signal and nothing else


@settings(max_examples=50, deadline=None)
@given(readings(), st.integers(0, 3), st.lists(st.integers(0, 3), min_size=40, max_size=40))
def test_by_the_clock_every_operation_ends_once(reading, delay_ms, steps):
    submitted, signalled, batches, purgatory = reading
    submitted = [row for row in submitted if row.timeout_ns < FAR_MS * MS]
    clock_ms = T // MS
    for (rows, more), step in zip(batches, steps, strict=False):
        clock_ms += step
        frontier = by_clock(clock_ms, delay_ns=delay_ms * MS, keep_ns=FAR_MS * MS)
        purgatory.batch([row for row in rows if row in submitted], more, frontier)
    purgatory.batch([], [], by_clock(clock_ms + 3 * FAR_MS, delay_ns=0, keep_ns=0))
    assert sorted(outcome.op_id for outcome in purgatory.outcomes) == sorted(row.op_id for row in submitted)
    ends = {row.op_id: outcome_of(row, signalled) for row in submitted}
    for outcome in purgatory.outcomes:
        if outcome.outcome == "completed":
            # Later than by event time if signals were read in another order, and never without enough of them.
            assert ends[outcome.op_id].outcome == "completed"
            assert ends[outcome.op_id].decided_ns <= outcome.decided_ns
            assert outcome.decided_ns < outcome.deadline_ns or outcome.decided_ns == outcome.submit_ns
        else:
            assert outcome.decided_ns == outcome.deadline_ns
    assert [value for value in purgatory.stored if value is not None] == []


@settings(max_examples=50, deadline=None)
@given(operations(), st.lists(signals, max_size=14))
def test_by_the_clock_what_is_read_in_time_ends_as_by_event_time(submitted, signalled):
    # Processing time differs only where a signal is read after the deadline has passed.
    purgatory = ShardedPurgatory(2)
    purgatory.batch(submitted, signalled, by_clock(0, delay_ns=0, keep_ns=0))
    purgatory.batch([], [], by_clock(LATEST_NS // MS, delay_ns=0, keep_ns=0))
    ends = [outcome_of(row, signalled) for row in submitted if row.deadline_ns <= LATEST_NS // MS * MS]
    assert sorted(row for row in purgatory.outcomes if row.deadline_ns < LATEST_NS) == sorted(ends)


def one(*signalled, needed=1, keys=("a",), timeout_ns=10 * MS, submit_ns=T):
    purgatory = ShardedPurgatory()
    purgatory.read([Operation("op", keys, needed, submit_ns, timeout_ns)], list(signalled))
    heartbeat(purgatory, 100)
    return [outcome for outcome in purgatory.outcomes if outcome.op_id == "op"]


def test_only_signals_strictly_inside_the_lifetime_count():
    assert one(Signal("a", T, 1), Signal("a", T + 10 * MS, 1))[0].outcome == "expired"
    assert one(Signal("a", T + 1, 1))[0] == Outcome("op", "completed", T, T + 10 * MS, T + 1)
    assert one(Signal("a", T + 10 * MS - 1, 1))[0].decided_ns == T + 10 * MS - 1


def test_a_watermark_in_the_deadline_millisecond_expires_nothing():
    # Rounded up it would: a signal between the two could still come.
    purgatory = ShardedPurgatory()
    purgatory.read([Operation("op", ("a",), 1, T, MS + 500)], [])
    purgatory.read([Operation("later", (), 1, T + MS + 400, MS)], [Signal("b", T + MS + 400, 1)])
    purgatory.read([], [Signal("a", T + MS + 450, 1)])
    heartbeat(purgatory, 100)
    assert purgatory.outcomes[0] == Outcome("op", "completed", T, T + MS + 500, T + MS + 450)


def test_a_signal_in_the_watermarks_millisecond_is_kept():
    # Dropped with the watermark's millisecond, it would be missing.
    purgatory = ShardedPurgatory()
    purgatory.read([Operation("beat", (), 0, T + MS + 100, 0)], [Signal("a", T + MS + 900, 1)])
    purgatory.read([], [])
    purgatory.read([Operation("op", ("a",), 1, T + MS + 500, 10 * MS)], [])
    heartbeat(purgatory, 100)
    assert purgatory.outcomes[-1] == Outcome("op", "completed", T + MS + 500, T + 11 * MS + 500, T + MS + 900)


def test_a_late_read_earlier_signal_decides_the_instant():
    # Its watch must stay until nothing earlier can come.
    purgatory = ShardedPurgatory(delay_ms=5)
    purgatory.read([Operation("op", ("a",), 1, T, 10 * MS)], [Signal("a", T + 4 * MS, 1)])
    purgatory.read([], [Signal("a", T + 2 * MS, 1)])
    heartbeat(purgatory, 100)
    assert purgatory.outcomes == [Outcome("op", "completed", T, T + 10 * MS, T + 2 * MS)]


def test_a_key_named_twice_counts_once():
    assert one(Signal("a", T + 1, 1), keys=("a", "a"), needed=2)[0].outcome == "expired"


def test_a_pending_operation_read_again_stays_one_operation():
    # A producer that sends again after an error; its watches would count twice.
    purgatory = ShardedPurgatory()
    row = Operation("op", ("a",), 2, T, 10 * MS)
    purgatory.read([row, row], [])
    purgatory.read([row], [Signal("a", T + 1, 1)])
    heartbeat(purgatory, 100)
    assert [outcome.outcome for outcome in purgatory.outcomes] == ["expired"]
    assert purgatory.tallies["repeated"] == 2


def test_an_operation_behind_the_watermark_ends_and_is_reported():
    purgatory = ShardedPurgatory()
    heartbeat(purgatory, 100)
    purgatory.read([Operation("op", ("a",), 1, T, 10 * MS)], [])
    assert [outcome.outcome for outcome in purgatory.outcomes] == ["expired"]
    assert purgatory.tallies["late"] == 1


def test_many_waits_on_a_busy_key_make_no_product_of_matches():
    # A thousand of each would make a million.
    purgatory = ShardedPurgatory()
    rows = [Operation(f"op{number}", ("a",), 1, T, 10 * MS) for number in range(200)]
    matched = purgatory._first_stage(
        0, rows, [Signal("a", T + at, 1) for at in range(1, 201)], by_clock(0, delay_ns=0, keep_ns=0)
    )
    assert len(matched) == 200
    assert purgatory._first_stage(0, [], [Signal("a", T + 5, 1)], by_clock(0, delay_ns=0, keep_ns=0)) == []


def test_signals_long_settled_are_one_number():
    # An operation that needs a million signals does not keep a million rows.
    purgatory = ShardedPurgatory()
    purgatory.read([Operation("op", ("a",), 10**6, T, 10**6 * MS)], [])
    sizes = []
    for ms in range(1, 60):
        purgatory.read([Operation(f"beat{ms}", (), 0, T + ms * MS, 0)], [Signal("a", T + ms * MS, 1)])
        sizes.append(sum(len(value) for value in purgatory.stored if value is not None))
    assert max(sizes[2:]) == min(sizes[2:])
