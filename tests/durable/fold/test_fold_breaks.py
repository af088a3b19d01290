"""A step that does much has a break after little of it; and what it does is bounded by what there is."""

from contextlib import closing

import pytest
from msgspec import UNSET, Raw

from purgatory_async.durable.documents import CountNeed, KeyedSignal
from purgatory_async.durable.fold import entries as kinds
from purgatory_async.durable.fold.checkpoint import digest
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.signalled import SignalledOperation

MANY = 1000
MOST = 64  # things between two breaks
MINUTE = 60_000_000


class Story:
    """A fold that gets entries one after the other."""

    def __init__(self):
        self.fold = Fold()
        self.now = 1_700_000_000_000_000

    def give(self, *entries, later=0):
        for entry in entries:
            self.now += later
            self.fold.apply(self.fold.position + 1, self.now, entry)

    def breaks(self, entry, later=0):
        """How many breaks the next step has."""
        self.now += later
        *breaks, (result, _) = self.fold.step(self.fold.position + 1, self.now, entry)
        assert breaks == [None] * len(breaks)
        return len(breaks), result


@pytest.fixture
def story():
    with closing(Story()) as story:
        yield story


Story.close = lambda story: story.fold.close()


def operations(need="any", key="k", timeout=UNSET, count=MANY):
    return [
        kinds.SubmitOperation(
            id=f"o{n}", keys=(key,), need=need, timeout_us=None if timeout is UNSET else timeout
        )
        for n in range(count)
    ]


def items(count=MANY, delay=0, queue="q"):
    return kinds.PutItems(queue=queue, items=tuple(kinds.NewItem(Raw(b"1"), delay) for _ in range(count)))


def leases(lease=MINUTE, most=100, count=MANY):
    return [
        kinds.WantItem(queue="q", lease_id=f"l{n}", lease_us=lease, wait_us=0, max=most)
        for n in range(count // most)
    ]


LONG_STEPS = {
    "a signal ends operations": (operations(), kinds.SignalKey(key="k"), 0),
    "a signal is counted": (operations(CountNeed(amount=9)), kinds.SignalKey(key="k"), 0),
    "operations expire": (operations(timeout=MINUTE), kinds.Tick(), MINUTE),
    "operations are forgotten": ([*operations(), kinds.SignalKey(key="k")], kinds.Tick(), MINUTE),
    "history makes room": (
        [kinds.SetLimits(max_kept=1 << 30), *operations(), kinds.SignalKey(key="k")],
        kinds.SetLimits(max_kept=1),
        0,
    ),
    "answers are forgotten": (
        [kinds.SignalKey(key="k", idem=str(n), digest="d") for n in range(MANY)],
        kinds.Tick(),
        MINUTE,
    ),
    "keys are idle": ([kinds.SignalKey(key=f"k{n}") for n in range(MANY)], kinds.Tick(), 10 * MINUTE),
    "signals are cut": (
        [kinds.SignalKey(key=f"k{n}") for n in range(MANY)],
        kinds.SetLimits(keep_signals=1),
        0,
    ),
    "leases end": ([items(), *leases()], kinds.Tick(), MINUTE),
    "ids of leases are forgotten": ([items(), *leases(lease=1)], kinds.Tick(), MINUTE),
    "delayed items are due": ([items(delay=MINUTE)], kinds.Tick(), MINUTE),
    "ready items are purged": ([items()], kinds.PurgeQueue(queue="q"), 0),
    "delayed items are purged": ([items(delay=MINUTE)], kinds.PurgeQueue(queue="q"), 0),
    "dead items come back": ([items(queue="q.dead")], kinds.RedriveItems(queue="q"), 0),
}


@pytest.mark.parametrize(("before", "entry", "later"), LONG_STEPS.values(), ids=LONG_STEPS)
def test_a_long_step_has_breaks(story, before, entry, later):
    story.give(*before)
    breaks, _ = story.breaks(entry, later)
    assert breaks >= MANY // MOST


@pytest.mark.parametrize("need", [CountNeed(amount=2**53 - 1), CountNeed(voters=2**53 - 1), "all"])
def test_an_operation_decides_once_on_a_batch(story, need, monkeypatch):
    decided = []
    take = SignalledOperation.take
    monkeypatch.setattr(
        SignalledOperation, "take", lambda self, batch: decided.append(self) or take(self, batch)
    )
    monkeypatch.delattr(SignalledOperation, "note")  # never one by one
    keys = ("k", "other", "third")
    story.give(*[kinds.SubmitOperation(id=f"o{n}", keys=keys, need=need) for n in range(100)])
    signals = tuple(KeyedSignal(key=keys[n % 2], voter=str(n)) for n in range(300))
    story.give(*[kinds.Tick()] * 299)
    breaks, result = story.breaks(kinds.SignalKeys(signals=signals))
    assert (len(decided), result.completed) == (100, 0)
    assert breaks >= 100


def test_a_fold_can_be_closed_in_the_midst_of_a_step(story):
    story.give(*operations())
    step = story.fold.step(story.fold.position + 1, story.now, kinds.SignalKey(key="k"))
    assert next(step) is None
    story.fold.close()
    step.close()


def test_breaks_and_their_number_are_no_part_of_the_digest(story):
    other = Story()
    for entry in (*operations(), kinds.SignalKey(key="k"), kinds.Tick()):
        story.give(entry)
        other.breaks(entry)
        assert story.fold.running == other.fold.running
    assert digest(story.fold) == digest(other.fold)
    other.close()
