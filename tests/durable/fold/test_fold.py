"""The fold, entry by entry: what it promises beyond what the model and the machine compare."""

import asyncio
import datetime as dt
import tracemalloc
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from purgatory_async.clock import MAX_TIMEOUT
from purgatory_async.cluster.repetitions import FORGOTTEN_AFTER_US
from purgatory_async.durable.documents import KeyedSignal
from purgatory_async.durable.fold import codec, results
from purgatory_async.durable.fold.checkpoint import digest, parts
from purgatory_async.durable.fold.entries import (
    Alive,
    EndLease,
    LeaveLine,
    PutItem,
    SetLevel,
    SetLimits,
    SignalKey,
    SignalKeys,
    SubmitOperation,
    Tick,
    WantItem,
)
from purgatory_async.durable.fold.fold import Fold, FoldError
from purgatory_async.durable.fold.restoring import restored
from purgatory_async.durable.fold.writers import SILENT_AFTER

START = 1_700_000_000_000_250  # not a whole millisecond
MS, SECOND = 1000, 1_000_000


class Log:
    """A log and the fold that reads it; times are microseconds after the start."""

    def __init__(self):
        self.fold = Fold()

    def at(self, time_us, entry):
        """Append an entry; return its result and the effects as text."""
        result, effects = self.fold.apply(self.fold.position + 1, START + time_us, entry)
        return result, [repr(effect) for effect in effects]

    def restart(self):
        """Go on from a checkpoint."""
        saved = list(parts(self.fold))
        self.fold.close()
        self.fold = restored(saved)

    def state_of(self, name):
        return self.fold.operations.by_id[name].state


@pytest.fixture
def log():
    log = Log()
    yield log
    log.fold.close()


def submitted(name, **order):
    return SubmitOperation(id=name, keys=("k",), **order)


@given(
    start=st.integers(1, 2**51),
    timeout=st.integers(1, int(MAX_TIMEOUT) * SECOND),
    restarted=st.booleans(),
)
def test_an_operation_expires_in_its_first_whole_ms(start, timeout, restarted):
    with closing(Fold()) as live:
        live.apply(1, start, submitted("a", timeout_us=timeout))
        with closing(restored(parts(live))) as saved:
            fold = saved if restarted else live
            due = -(-(start + timeout) // MS) * MS
            fold.apply(2, due - 1, Tick())
            assert fold.operations.by_id["a"].state == "pending"
            assert fold.next_us is not None
            assert fold.next_us <= due
            fold.apply(3, due, Tick())
            assert fold.operations.by_id["a"].state == "expired"
            assert fold.operations.by_id["a"].ended_us == due


def test_a_timeout_of_zero_expires_in_its_own_step(log):
    result, effects = log.at(0, submitted("a", timeout_us=0))
    assert result == results.Submitted("a", "expired")
    assert effects == ["<OperationSubmitted a>", f"<OperationEnded a expired {START}>"]


def test_leases_of_one_ms_end_in_order_after_a_restart(log):
    for number, lease in enumerate((5 * MS, 3 * MS, 4 * MS)):
        log.at(number, PutItem(queue="q", item=Raw(b"%d" % number), delay_us=0))
        log.at(number, WantItem(queue="q", lease_id=f"short{number}", lease_us=lease, max=1))
    log.at(1 * MS, SubmitOperation(id="a", keys=("k",), timeout_us=9 * MS))
    for number in range(
        3
    ):  # in line for what the leases above return, each for so long that all end together
        wait = WantItem(
            queue="q", lease_id=f"long{number}", lease_us=(10 - 3 - number) * MS, wait_us=SECOND, max=1
        )
        log.at(2 * MS, wait)
    log.restart()
    # The leases that this step begins come before the operation that its entry makes.
    _, effects = log.at(6 * MS, submitted("b", timeout_us=5 * MS - 250))
    assert effects == [
        "<ItemLeased long0 3>",
        "<ItemLeased long1 5>",
        "<ItemLeased long2 1>",
        "<OperationSubmitted b>",
    ]
    log.restart()
    log.at(6 * MS, WantItem(queue="q", lease_id="x", lease_us=SECOND, wait_us=SECOND, max=1))
    log.at(6 * MS, WantItem(queue="q", lease_id="y", lease_us=SECOND, wait_us=SECOND, max=1))
    log.restart()
    _, effects = log.at(20 * MS, Tick())
    due = START - 250 + 11 * MS
    assert effects == [
        f"<OperationEnded a expired {due}>",
        "<ItemLeased x 3>",
        "<ItemLeased y 5>",
        f"<OperationEnded b expired {due}>",
    ]


def test_what_an_expiry_makes_due_takes_part_in_its_pass(log):
    log.at(0, PutItem(queue="q", item=Raw(b"1"), delay_us=0))
    log.at(0, WantItem(queue="q", lease_id="first", lease_us=10 * MS, max=1))
    log.at(0, WantItem(queue="q", lease_id="second", lease_us=10 * MS, wait_us=SECOND, max=1))
    log.at(0, WantItem(queue="q", lease_id="third", lease_us=10 * MS, wait_us=25 * MS, max=1))
    log.at(0, WantItem(queue="q", lease_id="late", lease_us=10 * MS, wait_us=5 * MS, max=1))
    _, effects = log.at(SECOND, Tick())
    assert effects == ["<TakerLeft late waited>", "<ItemLeased second 1>", "<ItemLeased third 1>"]
    assert [item.number for item in log.fold.queues.by_name["q"].ready] == [1]


def test_a_signal_at_the_deadline_comes_too_late(log):
    log.at(0, submitted("a", timeout_us=10 * MS - 250))
    result, _ = log.at(10 * MS - 250, SignalKey(key="k"))
    assert (result, log.state_of("a")) == (results.Signalled(2, 0), "expired")


def test_takers_of_a_silent_writer_leave_their_line(log):
    log.at(0, Alive(writer="w", number=1))
    log.at(
        0,
        WantItem(
            writer="w", number=2, queue="q", lease_id="dead", lease_us=SECOND, wait_us=60 * SECOND, max=1
        ),
    )
    log.at(0, WantItem(queue="q", lease_id="live", lease_us=SECOND, wait_us=60 * SECOND, max=1))
    log.at(2 * SECOND, Tick(writer="w", number=3))
    log.restart()
    due = 2 * SECOND + SILENT_AFTER + 750  # the next whole millisecond
    _, effects = log.at(due - 1, Tick())
    assert effects == []
    _, effects = log.at(due, PutItem(queue="q", item=Raw(b"1"), delay_us=0))
    assert effects == ["<TakerLeft dead silent>", "<ItemLeased live 6>"]


@pytest.mark.parametrize("operation_first", [False, True])
def test_a_silence_takes_its_turn_in_its_millisecond(log, operation_first):
    log.at(0, Alive(writer="w", number=1))
    steps = [
        WantItem(
            writer="w", number=2, queue="q", lease_id="dead", lease_us=SECOND, wait_us=60 * SECOND, max=1
        ),
        submitted("a", timeout_us=SILENT_AFTER),
    ]
    for entry in steps[::-1] if operation_first else steps:
        log.at(0, entry)
    log.restart()
    _, effects = log.at(SILENT_AFTER + SECOND, Tick())
    expected = ["<TakerLeft dead silent>", f"<OperationEnded a expired {START + SILENT_AFTER + 750}>"]
    assert effects == (expected[::-1] if operation_first else expected)


def test_a_repetition_is_dropped_however_late(log):
    log.at(0, Alive(writer="w", number=1))
    first = SignalKey(writer="w", number=2, key="k")
    assert log.at(0, first)[0] == results.Signalled(2, 0)
    assert log.at(1, first)[0] == results.Dropped("repeated")
    log.restart()
    # A repetition also shows that the writer is there.
    assert log.at(FORGOTTEN_AFTER_US, first)[0] == results.Dropped("repeated")
    assert log.at(FORGOTTEN_AFTER_US * 2 + 750, first)[0] == results.Dropped("unknown-writer")
    assert log.fold.shared.totals.signals == 1


def test_a_writer_must_begin_with_its_first_alive(log):
    assert log.at(0, Tick(writer="w", number=1))[0] == results.Dropped("unknown-writer")
    assert log.at(0, Alive(writer="w", number=2))[0] == results.Dropped("unknown-writer")
    assert log.at(0, Alive(writer="w", number=1))[0] == results.APPLIED
    assert log.at(0, Tick(writer="w", number=2))[0] == results.APPLIED


def test_a_writer_is_forgotten_beside_one_that_goes_on(log):
    for name in ("w", "gone"):
        log.at(0, Alive(writer=name, number=1))
    log.at(FORGOTTEN_AFTER_US, Tick(writer="w", number=2))
    log.at(FORGOTTEN_AFTER_US + 750, Tick())
    assert [*log.fold.writers.known] == ["w"]


def test_an_item_of_a_client_that_left_is_in_front_again(log):
    for number in (1, 2):
        log.at(0, PutItem(queue="q", item=Raw(b"%d" % number), delay_us=0))
    log.at(0, WantItem(queue="q", lease_id="gone", lease_us=SECOND, max=1))
    log.at(0, LeaveLine(lease_id="gone"))
    assert log.at(0, WantItem(queue="q", lease_id="next", lease_us=SECOND, max=1))[0] == results.Leased(1)
    assert log.at(0, EndLease(lease_id="gone"))[0] == results.Refused("lease-expired")


def test_a_longer_lease_than_allowed_is_cut(log):
    log.at(0, SetLimits(max_lease_us=SECOND))
    log.at(0, PutItem(queue="q", item=Raw(b"1"), delay_us=0))
    log.at(0, WantItem(queue="q", lease_id="l", lease_us=60 * SECOND, max=1))
    assert log.fold.queues.leases["l"].until_us == START + SECOND


def test_a_replica_sees_that_another_has_diverged(log):
    log.at(0, Alive(writer="w", number=1))
    log.at(0, SignalKey(key="k"))
    ours = log.fold.running.hex()
    log.at(0, Alive(writer="w", number=2, position=2, digest=ours))
    assert log.fold.diverged_at is None
    log.at(0, Alive(writer="w", number=3, position=2, digest="0" * 24))
    assert log.fold.diverged_at == 2
    log.restart()
    log.at(0, Alive(writer="w", number=4, position=1, digest="0" * 24))  # it no longer knows
    assert log.fold.diverged_at is None


def test_the_running_digest_depends_on_each_result():
    with closing(Fold()) as one, closing(Fold()) as other:
        for fold, key in ((one, "k"), (other, "another")):
            fold.apply(1, START, submitted("a"))
            fold.apply(2, START, SignalKey(key=key))
            fold.apply(3, START, Tick())
        assert one.running_at(1) == other.running_at(1)
        assert one.running_at(2) != other.running_at(2)
        assert one.running != other.running
        assert one.running_at(4) is None


@pytest.mark.parametrize(
    ("position", "at_us", "entry", "sentence"),
    [
        (3, 0, Tick(), "position must be 2, got 3"),
        (2, -1, Tick(), rf"log time must be at least {START} µs at position 2, got {START - 1}"),
        (2, 0, SetLevel(level=4), "level must be at most 3 at position 2, got 4; upgrade"),
    ],
)
def test_what_cannot_be_applied_changes_nothing(log, position, at_us, entry, sentence):
    log.at(0, submitted("a"))
    before = list(parts(log.fold))
    with pytest.raises(FoldError, match=sentence):
        log.fold.apply(position, START + at_us, entry)
    assert list(parts(log.fold)) == before


@pytest.mark.parametrize(
    "data",
    [
        b'{"k":"tick","new":1}',
        b'{"k":"empty","queue":"q"}',
        b'{"k":"signal"}',
        b'{"k":"signal","key":"k","amount":0}',
        b'{"k":"submit","id":"a","keys":[]}',
        b'{"k":"put","queue":"q","item":%b}' % (b"[" * 5_000 + b"]" * 5_000),
        *(b"\xff", b""),
    ],
)
def test_an_entry_of_another_program_is_refused(data):
    with pytest.raises(codec.EntryError, match="an entry must be JSON of a known kind, got b"):
        codec.decode(data)


def test_what_is_kept_of_an_entry_keeps_no_more_of_it():
    padding = b" " * 1_000_000
    texts = (
        b'{"k":"put","queue":"q","item":1,"delay":0%b}',
        b'{"k":"signal","key":"k","value":1%b}',
        b'{"k":"submit","id":"a","keys":["k"],"data":1%b}',
        b'{"k":"end","id":"a","how":"completed","result":1%b}',
    )
    tracemalloc.start()
    try:
        entries = [codec.decode(text % padding) for text in texts]
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(entries) == 4
    assert kept < len(padding)


def test_a_line_break_in_an_attachment_survives_a_restart(log):
    text = b'{"k":"submit","id":"a","keys":["k"],"data":{"x":\r\n [1,\n2]}}'
    log.at(0, codec.decode(text))
    before = digest(log.fold)
    log.restart()
    assert digest(log.fold) == before
    assert bytes(log.fold.operations.by_id["a"].data) == b'{"x":[1,2]}'


def full(log):
    """Fill a log's state with something of each kind."""
    log.at(0, Alive(writer="w", number=1))
    log.at(0, submitted("a", need="all", timeout_us=SECOND, data=Raw(b'{"x":[1]}'), idem="i", digest="d"))
    log.at(0, submitted("b"))
    log.at(0, SignalKey(key="k", value=Raw(b"null"), voter="v", idem="j"))
    log.at(0, PutItem(queue="q", item=Raw(b"1"), delay_us=0))
    log.at(0, PutItem(queue="q", item=Raw(b"2"), delay_us=0))
    log.at(0, WantItem(queue="q", lease_id="l", lease_us=SECOND, max=1))
    log.at(0, WantItem(writer="w", number=2, queue="p", lease_id="m", lease_us=SECOND, wait_us=SECOND, max=1))
    return b"".join(parts(log.fold))


def test_a_restored_replica_counts_all_of_a_batch(log):
    log.at(0, SubmitOperation(id="a", keys=("k",)))
    log.restart()
    log.at(0, SubmitOperation(id="b", keys=("k",)))
    log.restart()
    result, effects = log.at(0, SignalKeys(signals=(KeyedSignal(key="k"), KeyedSignal(key="k"))))
    assert result == results.Signalled(3, 2)
    assert effects[-2:] == ["<KeySignalled 2 2>", "<KeySignalled 3 0>"]


def test_a_cut_checkpoint_is_refused(log):
    text = full(log)
    for length in range(len(text) - 1):
        with pytest.raises(FoldError, match="checkpoint"):
            restored([text[:length]])
    pieces = list(parts(log.fold, 300))
    for wrong in (pieces[:-1], pieces[1:], pieces[::-1], []):
        with pytest.raises(FoldError, match="checkpoint"):
            restored(wrong)


@given(data=st.data())
def test_a_damaged_checkpoint_is_refused(data):
    log = Log()
    with closing(log.fold):
        text = bytearray(full(log))
    text[data.draw(st.integers(0, len(text) - 2))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(FoldError, match="checkpoint"):
        restored([bytes(text)])


def test_a_status_shows_log_time(log):
    log.at(0, submitted("a", timeout_us=2 * SECOND, need="all"))
    view = log.fold.operations.by_id["a"].view(START + SECOND)
    submitted_at = dt.datetime(2023, 11, 14, 22, 13, 20, 250, tzinfo=dt.UTC)
    assert (view.submitted_at, view.deadline) == (submitted_at, submitted_at + dt.timedelta(seconds=2))
    assert (view.state, view.elapsed, view.waiting_for.all) == ("pending", 1.0, ("k",))
    log.at(500 * MS, SignalKey(key="k", value=Raw(b"7")))
    view = log.fold.operations.by_id["a"].view(START + 60 * SECOND)
    assert (view.state, view.elapsed, [signal.index for signal in view.signals]) == ("completed", 0.5, [2])


@pytest.mark.asyncio
async def test_a_step_is_complete_inside_a_running_loop(log):
    log.at(0, submitted("a", timeout_us=0))
    log.at(0, submitted("b", timeout_us=SECOND))
    log.at(2 * SECOND, Tick())
    before = digest(log.fold)
    assert (log.state_of("a"), log.state_of("b")) == ("expired", "expired")
    await asyncio.sleep(0)  # nothing is left for the loop to do
    await asyncio.sleep(0)
    assert digest(log.fold) == before


def test_a_fold_moves_into_a_loop_with_what_is_pending(log):
    log.at(0, submitted("a", timeout_us=SECOND))

    async def go_on():
        log.at(2 * SECOND, Tick())
        log.at(2 * SECOND, submitted("c"))
        log.at(2 * SECOND, SignalKey(key="k"))

    asyncio.run(go_on())
    log.at(3 * SECOND, submitted("d"))
    assert [log.state_of(name) for name in ("a", "c", "d")] == ["expired", "completed", "pending"]
