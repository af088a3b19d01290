"""Owners in the fold: whose operations, leases and Idempotency-Keys are, and that a checkpoint has it all."""

import pytest
from msgspec import Raw

from purgatory_async.service.state.fold import entries, results
from purgatory_async.service.state.fold.checkpoint import digest, parts
from purgatory_async.service.state.fold.codec import decode, encode
from purgatory_async.service.state.fold.fold import Fold
from purgatory_async.service.state.fold.restoring import restored

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
        before.close()


@pytest.fixture
def log():
    log = Log()
    yield log
    log.fold.close()


def submit(name, owner, **order):
    return entries.SubmitOperation(id=name, keys=("k",), owner=owner, **order)


def lend(log, lease_id, owner):
    log.add(entries.PutItem(queue="q", item=Raw(b"1"), delay=0))
    log.add(entries.WantItem(queue="q", lease_id=lease_id, lease=MINUTE_US, max=1, owner=owner))


@pytest.mark.parametrize("reload", [False, True])
@pytest.mark.parametrize("owner", ["bob", "ann", None])
def test_an_end_for_an_owner_spares_what_another_made(log, owner, reload):
    log.add(submit("op", "ann"))
    lend(log, "lease", "ann")
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
    log.add(submit("op", "ann", idem="one", timeout=1))
    log.add(entries.SignalKey(key="k", idem="two", owner="ann"))
    lend(log, "lease", "ann")
    log.add(entries.EndLease(lease_id="lease"))
    if reload:
        log.reload()
    assert log.add(entries.SignalKey(key="k", idem="two", owner="ann")).replayed
    assert not log.add(entries.SignalKey(key="k", idem="two", owner="bob")).replayed
    assert log.add(submit("other", "ann", idem="one", timeout=1)) == results.Submitted("op", "expired", True)
    assert log.add(entries.EndLease(lease_id="lease", owner="bob")) == results.Refused("unknown-lease")
    log.add(entries.Tick(), seconds=58)
    assert log.fold.operations.forgotten_of == {"op": "ann"}
    if reload:
        log.reload()
        assert log.fold.operations.forgotten_of == {"op": "ann"}
    log.add(entries.Tick(), seconds=120)
    fold = log.fold
    assert (fold.operations.forgotten_of, fold.queues.ended_of, fold.operations.by_idem) == ({}, {}, {})


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
    log.add(entries.WantItem(queue="q", lease_id="lease", wait=MINUTE_US, max=1, owner="ann"))
    log.reload()
    log.add(entries.PutItem(queue="q", item=Raw(b"1"), delay=0))
    assert log.fold.queues.leases["lease"].owner == "ann"


def test_entries_without_an_owner_leave_a_checkpoint_without(log):
    log.add(submit("op", None, idem="one", timeout=1))
    log.add(submit("pending", None))
    lend(log, "lease", None)
    lend(log, "ended", None)
    log.add(entries.EndLease(lease_id="ended"))
    assert b"owner" not in b"".join(parts(log.fold))
    assert log.fold.operations.by_id["pending"].owner is None
