"""What is buffered is bounded: beyond it records give way, or new operations are refused; both are reported."""

from threading import Event

import pytest

from purgatory_async.journal import JournalError, Sync, WhenFull
from purgatory_async.journal.schema import Outcome, Stats
from tests.journal.journaled import PATIENCE_S, Disk, JournaledPurgatory, missing, until

LIMIT = 1_000
LOSS = {
    WhenFull.DROP: "from 1000 on records are dropped",
    WhenFull.REFUSE: "from 500 on new operations are refused",
}


class Stalled:
    """A journal whose writer thread blocks in its first write, with one record, until it is released."""

    def __init__(self, directory, monkeypatch, **settings):
        self.gate, writing = Event(), Event()

        def stand():
            writing.set()
            assert self.gate.wait(PATIENCE_S)

        disk = Disk().seize(monkeypatch)
        disk.on_write = stand
        self.journaled = JournaledPurgatory(directory, max_buffered=LIMIT, sync=Sync.ALWAYS, **settings)
        self.journal = self.journaled.journal
        self.journaled.signal("first")
        assert writing.wait(PATIENCE_S)
        assert self.journal.buffered == 1

    def let_go(self):
        self.gate.set()
        until(lambda: self.journal.buffered == 0)


@pytest.fixture
def stalled(tmp_path, monkeypatch):
    stalled = Stalled(tmp_path, monkeypatch)
    yield stalled
    stalled.gate.set()


@pytest.fixture
def refusing(tmp_path, monkeypatch):
    stalled = Stalled(tmp_path, monkeypatch, when_full=WhenFull.REFUSE)
    yield stalled
    stalled.gate.set()


def test_the_buffer_is_bounded_and_drops_leave_number_gaps(stalled):
    stalled.journaled.signal(*range(2, LIMIT + 1))
    assert (stalled.journal.buffered, stalled.journal.dropped) == (LIMIT, 0)
    stalled.journaled.signal(*range(LIMIT + 1, LIMIT + 11))
    assert (stalled.journal.buffered, stalled.journal.dropped) == (LIMIT, 10)
    stalled.let_go()
    stalled.journaled.signal("after")
    records = stalled.journaled.close()
    assert missing(records) == [*range(LIMIT + 1, LIMIT + 11)]
    assert (records[-1].key, records[-1].seq, len(records)) == ("after", LIMIT + 11, LIMIT + 1)


def test_a_record_between_buffer_and_disk_is_counted(tmp_path):
    seen = []

    class Key:
        def __str__(self):  # asked by the writer thread, while it has the record in its hand
            seen.append(journaled.journal.buffered)
            return "key"

        __repr__ = __str__

    with JournaledPurgatory(tmp_path, sync=Sync.ALWAYS) as journaled:
        journaled.signal(Key())
        until(lambda: journaled.journal.buffered == 0)
    assert set(seen) == {1}


def test_a_run_of_drops_is_reported_once(stalled):
    for _ in range(2):
        stalled.journaled.signal(*range(LIMIT + 10))
    stalled.let_go()
    stalled.journaled.signal("after")
    stalled.journaled.close()
    dropped = stalled.journal.dropped
    assert dropped == LIMIT + 21
    assert f"{dropped} records were dropped: the journal's buffer was full" in stalled.journaled.messages


def test_drops_are_counted_once_without_a_later_record(stalled):
    # The place of the gap is no record: it once counted as one that was held, and lost at the end.
    stalled.journaled.signal(*range(LIMIT + 9))
    stalled.let_go()
    stalled.journaled.close()
    assert stalled.journal.dropped == 10
    assert stalled.journal.buffered == 0


def test_drops_at_the_end_show_in_the_last_samples_number(stalled):
    stalled.journal.gauge(stalled.journaled.purgatory)
    stalled.journaled.signal(*range(LIMIT + 9))
    stalled.let_go()
    records = stalled.journaled.close()
    assert isinstance(records[-1], Stats)
    assert len(missing(records)) == stalled.journal.dropped == 11  # a sample took a place, too


def test_an_end_without_its_submission_has_unknown_inserts(stalled):
    stalled.journaled.signal(*range(LIMIT - 1))
    operation = stalled.journaled.watch("a", timeout=5)
    stalled.let_go()
    stalled.journaled.signal("between")
    operation.cancel()
    outcome = stalled.journaled.close()[-1]
    assert (outcome.op_id, outcome.outcome, outcome.inserts) == ("1", "cancelled", None)


def test_ends_that_are_dropped_leave_nothing_in_memory(stalled):
    operations = [stalled.journaled.watch("a", timeout=5) for _ in range(LIMIT - 1)]
    for operation in operations:
        operation.cancel()
    stalled.let_go()
    stalled.journaled.signal("after")
    stalled.journaled.close()
    assert stalled.journal._run._encoder._entered == {}


def test_records_give_way_by_default(stalled):
    stalled.journaled.signal(*range(LIMIT + 10))
    assert stalled.journal.accepting


def test_submissions_give_way_from_half_the_buffer(refusing):
    refusing.journaled.signal(*range(2, LIMIT // 2))
    assert (refusing.journal.buffered, refusing.journal.accepting) == (LIMIT // 2 - 1, True)
    refusing.journaled.signal("one more")
    assert not refusing.journal.accepting
    operation = refusing.journaled.watch("a")
    operation.cancel()
    refusing.let_go()
    assert refusing.journal.accepting
    assert isinstance(refusing.journaled.close()[-1], Outcome)
    assert refusing.journal.dropped == 0
    assert not refusing.journal.accepting


@pytest.mark.parametrize("when_full", list(WhenFull))
def test_it_warns_before_it_drops_or_refuses_and_once_after(tmp_path, monkeypatch, when_full):
    stalled = Stalled(tmp_path, monkeypatch, when_full=when_full)
    journaled, journal = stalled.journaled, stalled.journal
    journaled.signal(*range(2, LIMIT // 4 + 1))
    assert (journaled.messages, journal.usage.warnings) == ([], ())
    journaled.signal("one more")
    assert journal.accepting
    journaled.signal(*range(LIMIT))
    assert journal.usage.warnings == ("buffer",)
    (warning,) = journaled.messages
    assert f": {LIMIT // 4} of {LIMIT} records wait in memory, " in warning
    assert f"MiB are free on the disk; {LOSS[when_full]}: give it a faster disk or a weaker sync" in warning
    stalled.let_go()
    until(lambda: not journal.usage.warnings)
    assert f"the disk keeps up with the journal again: 0 of {LIMIT} records wait" in journaled.messages
    assert len([each for each in journaled.messages if "keep" in each]) == 2


@pytest.mark.asyncio
async def test_what_was_dropped_is_not_promised(stalled):
    stalled.journaled.signal(*range(LIMIT - 1))
    stalled.journaled.signal("dropped")
    with pytest.raises(JournalError, match=f"the last 1 records were dropped: {LIMIT} wait for the disk"):
        await stalled.journal.commit()
    stalled.let_go()
    stalled.journaled.signal("after")
    await stalled.journal.commit()


@pytest.mark.parametrize("name", ["max_buffered", "segment_bytes"])
@pytest.mark.parametrize(
    ("value", "error"),
    [(0, ValueError), (-1, ValueError), (2.5, TypeError), ("1000", TypeError), (True, TypeError)],
)
def test_an_invalid_bound_is_refused_and_leaves_nothing(tmp_path, name, value, error):
    got = value if error is ValueError else type(value).__name__
    with pytest.raises(error, match=f"{name} must be.*got {got}"):
        JournaledPurgatory(tmp_path / "journal", **{name: value})
    assert not (tmp_path / "journal").exists()


@pytest.mark.parametrize("name", ["sync", "when_full"])
def test_an_unknown_word_is_refused_and_leaves_nothing_behind(tmp_path, name):
    with pytest.raises(ValueError, match="'sometimes' is not a valid"):
        JournaledPurgatory(tmp_path / "journal", **{name: "sometimes"})
    assert not (tmp_path / "journal").exists()
