"""Owners in the fold: whose operations, leases and Idempotency-Keys are, and that a checkpoint has it all."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from purgatory_async.durable.documents import CountNeed, KeyedSignal
from purgatory_async.durable.fold import entries, results
from purgatory_async.durable.fold.checkpoint import digest, parts
from purgatory_async.durable.fold.codec import decode, encode
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.restoring import restored

MINUTE_US = 60_000_000


class Log:
    """A fold, and the entries it is given, a second apart."""

    def __init__(self):
        self.fold = Fold()

    def add(self, entry, seconds=1):
        at_us = self.fold.at_us + seconds * 1_000_000
        return self.fold.apply(self.fold.position + 1, at_us, decode(encode(entry)))[0]

    def reload(self):
        """Go on with what a checkpoint has."""
        before, self.fold = self.fold, restored(list(parts(self.fold)))
        assert digest(before) == digest(self.fold)
        assert before.shared.kept.pinned_of == self.fold.shared.kept.pinned_of
        before.close()


@pytest.fixture
def log():
    log = Log()
    yield log
    log.fold.close()


def submit(name, owner, **order):
    return entries.SubmitOperation(id=name, keys=("k",), owner=owner, **order)


def lease(log, lease_id, owner):
    log.add(entries.PutItem(queue="q", item=Raw(b"1"), delay_us=0))
    log.add(entries.WantItem(queue="q", lease_id=lease_id, lease_us=MINUTE_US, max=1, owner=owner))


@pytest.mark.parametrize("reload", [False, True])
@pytest.mark.parametrize("owner", ["bob", "ann", None])
def test_an_end_for_an_owner_spares_what_another_made(log, owner, reload):
    log.add(submit("op", "ann"))
    lease(log, "lease", "ann")
    if reload:
        log.reload()
    found = [
        log.add(entries.ExtendLease(lease_id="lease", owner=owner)),
        log.add(entries.EndLease(lease_id="lease", owner=owner)),
        log.add(entries.EndLease(lease_id="lease", owner=owner)),
        log.add(entries.EndOperation(id="op", how="cancelled", owner=owner)),
    ]
    if owner == "bob":
        unknown = results.Refused("unknown-lease")
        assert found == [unknown, unknown, unknown, results.Refused("unknown-operation")]
    else:
        ended = [results.APPLIED, results.Refused("lease-expired"), results.Ended("cancelled")]
        assert found == [results.Extended(MINUTE_US), *ended]


@pytest.mark.parametrize("reload", [False, True])
def test_owners_outlive_what_they_made(log, reload):
    log.add(submit("op", "ann", idem="one", timeout_us=1))
    log.add(entries.SignalKey(key="k", idem="two", owner="ann"))
    lease(log, "lease", "ann")
    log.add(entries.EndLease(lease_id="lease"))
    if reload:
        log.reload()
    assert log.add(entries.SignalKey(key="k", idem="two", owner="ann")).replayed
    assert not log.add(entries.SignalKey(key="k", idem="two", owner="bob")).replayed
    assert log.add(submit("other", "ann", idem="one", timeout_us=1)) == results.Submitted(
        "op", "expired", True
    )
    assert log.add(entries.EndLease(lease_id="lease", owner="bob")) == results.Refused("unknown-lease")
    log.add(entries.Tick(), seconds=58)
    assert log.fold.operations.forgotten.get("op") == "ann"
    if reload:
        log.reload()
        assert log.fold.operations.forgotten.get("op") == "ann"
    log.add(entries.Tick(), seconds=120)
    fold = log.fold
    assert [*fold.operations.forgotten, *fold.queues.leases.ended, *fold.operations.by_idem] == []


@pytest.mark.parametrize("reload", [False, True])
def test_an_owner_at_its_number_is_refused_one_more(log, reload):
    for number in range(2):
        assert log.add(submit(f"op{number}", "ann", most=2)) == results.Submitted(f"op{number}", "pending")
    if reload:
        log.reload()
    assert log.add(submit("op2", "ann", most=2)) == results.Refused("limited")
    assert log.add(submit("op3", "bob", most=2)) == results.Submitted("op3", "pending")
    log.add(entries.SignalKey(key="k"))
    assert log.fold.operations.pending_of == {}


def test_a_taker_in_line_keeps_its_owner(log):
    log.add(entries.WantItem(queue="q", lease_id="lease", wait_us=MINUTE_US, max=1, owner="ann"))
    log.reload()
    log.add(entries.PutItem(queue="q", item=Raw(b"1"), delay_us=0))
    assert log.fold.queues.leases["lease"].owner == "ann"


def test_entries_without_an_owner_leave_a_checkpoint_without(log):
    log.add(submit("op", None, idem="one", timeout_us=1))
    log.add(submit("pending", None))
    lease(log, "lease", None)
    lease(log, "ended", None)
    log.add(entries.EndLease(lease_id="ended"))
    assert b"owner" not in b"".join(parts(log.fold))
    assert log.fold.operations.by_id["pending"].owner is None


def pinned(fold):
    """The bytes that each owner has pinned, counted anew."""
    found = Counter()
    operations = list(fold.operations.pending())
    for operation in operations:
        found[operation.owner] += operation.size
    signals = {id(known.signals[-1]): known.signals[-1] for known in fold.signals.keys.values()}
    for operation in operations:
        signals |= {id(each): each for each in operation.shown.latest.values()} if operation.shown else {}
    for signal in signals.values():
        found[signal.owner] += signal.size
    for queue in fold.queues.by_name.values():
        for item in (*queue.ready, *(each.item for each in queue.hidden.values())):
            found[item.owner] += item.size
    for lease in fold.queues.leases.values():
        found[lease.item.owner] += lease.item.size
        found[lease.owner] += 128
    return {owner: size for owner, size in found.items() if size and owner is not None}


OWNERS = st.sampled_from(["ann", "bob", None])
NAMES = st.sampled_from("abc")
TEXTS = st.integers(1, 9).map(lambda size: Raw(b"1" * size))
STEPS = st.one_of(
    st.builds(
        entries.SubmitOperation,
        id=NAMES,
        keys=st.just(("k",)),
        need=st.sampled_from(["any", CountNeed(amount=5)]),
        timeout_us=st.sampled_from([None, 3_000_000]),
        data=TEXTS,
        owner=OWNERS,
    ),
    st.builds(entries.SignalKey, key=st.sampled_from("kl"), value=TEXTS, owner=OWNERS),
    st.builds(entries.EndOperation, id=NAMES, how=st.just("completed"), result=TEXTS),
    st.builds(
        entries.PutItem, queue=NAMES, item=TEXTS, delay_us=st.sampled_from([0, 2_000_000]), owner=OWNERS
    ),
    st.builds(
        entries.WantItem,
        queue=NAMES,
        lease_id=st.uuids().map(str),
        max=st.just(2),
        lease_us=st.just(3_000_000),
        owner=OWNERS,
    ),
    st.builds(entries.PurgeQueue, queue=NAMES),
    st.just(None),
)


@given(st.lists(STEPS, max_size=30))
def test_bytes_of_owners_are_those_of_what_they_made(steps):
    log = Log()
    for step in steps:
        if step is None:
            log.reload()
        else:
            log.add(step)
        assert log.fold.shared.kept.pinned_of == pinned(log.fold)
    log.fold.close()


def test_an_owner_at_its_bytes_is_refused_until_some_are_free(log):
    text = Raw(b'"' + b"x" * 98 + b'"')
    most = {"owner": "ann", "quota": 500}
    put = entries.PutItem(queue="q", item=text, delay_us=0, **most)  # 228 bytes each
    assert [type(log.add(put)) for _ in "123"] == [results.Put, results.Put, results.Refused]
    limited = results.Refused("limited-bytes")
    assert log.add(submit("op", "ann", data=text, quota=500)) == limited
    assert log.add(entries.SignalKey(key="s", value=text, **most)) == limited
    assert log.add(entries.SignalKeys(signals=(KeyedSignal(key="s", value=text),), **most)) == limited
    other = entries.PutItem(queue="q", item=text, delay_us=0, owner="bob", quota=500)
    assert isinstance(log.add(other), results.Put)
    log.add(entries.WantItem(queue="q", lease_id="lease", lease_us=MINUTE_US, max=1))
    log.add(entries.EndLease(lease_id="lease"))
    assert isinstance(log.add(entries.SignalKey(key="s", value=text, **most)), results.Signalled)
    # The newest signal of a key makes room for the next one.
    assert isinstance(log.add(entries.SignalKey(key="s", value=text, **most)), results.Signalled)
    assert log.add(entries.SignalKey(key="t", value=text, **most)) == limited


@pytest.mark.parametrize("reload", [False, True])
def test_the_key_of_a_take_is_its_owners(log, reload):
    def take(lease_id, owner, wait_us=0):
        want = entries.WantItem(queue="q", lease_id=lease_id, max=1, owner=owner, wait_us=wait_us)
        want.idem, want.digest = "i", "d"
        return log.add(want)

    assert [take(f"line-{owner}", owner, MINUTE_US) for owner in ("ann", "bob")] == [results.InLine()] * 2
    for _ in range(2):
        if reload:
            log.reload()
        log.add(entries.PutItem(queue="q", item=Raw(b"1"), delay_us=0))
    assert [take(f"again-{owner}", owner) for owner in ("bob", "ann")] == [
        results.LeasedBefore("line-bob"),
        results.LeasedBefore("line-ann"),
    ]
    assert log.fold.shared.kept.pinned_of == {"ann": 2 * 128 + 2, "bob": 2 * 128 + 2}
    for owner in ("ann", "bob"):
        if reload:
            log.reload()
        log.add(entries.LeaveLine(lease_id=f"line-{owner}"))  # another has been answered
        assert len(log.fold.queues.leases) == 2
        log.add(entries.EndLease(lease_id=f"line-{owner}"))
        assert take("anew", owner) == results.Nothing()
        log.add(entries.PutItem(queue="q", item=Raw(b"1"), delay_us=0))
        log.add(entries.WantItem(queue="q", lease_id=f"other-{owner}", max=1))
    assert not log.fold.queues.leases.takes
