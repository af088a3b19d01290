"""Jobs are judged: one that is lost, done twice under a lease or done and not acknowledged is counted."""

import pytest
from msgspec import Raw

from purgatory_async.cluster import Entry
from purgatory_async.durable.fold.codec import encode
from purgatory_async.durable.fold.entries import (
    EndLease,
    LeaveLine,
    PutItem,
    SetLevel,
    SignalKey,
    SubmitOperation,
    WantItem,
)
from tests.soak.chaos.answers import Faults
from tests.soak.chaos.witness import noted
from tests.soak.rolling.judge import Heard, Log, judge
from tests.soak.rolling.rounds import ANNOUNCED, ENDED, JOBS, WORKERS, asked_by, name_of, order_of, paid_by

SECOND_US = 1_000_000
START_US = 1_700_000_000 * SECOND_US
PAY = "pay-10"
TAKE = {"lease_us": 9 * SECOND_US, "wait_us": 0, "max": 9}
# A job is given back once, then done; an order is paid.
SOUND = [
    SetLevel(level=2),
    PutItem(queue=JOBS, item=Raw(b"7"), delay_us=0),
    WantItem(queue=JOBS, lease_id="one", **TAKE),
    EndLease(lease_id="one", back=True),
    WantItem(queue=JOBS, lease_id="two", **TAKE),
    EndLease(lease_id="two"),
    SubmitOperation(id=PAY, keys=(paid_by(PAY),), announce=ANNOUNCED, deliver=ENDED, attach=True),
    SignalKey(key=paid_by(PAY), value=Raw(b"1")),
    WantItem(queue=ANNOUNCED, lease_id="three", **TAKE),
    WantItem(queue=ENDED, lease_id="four", **TAKE),
]
PAID = ("completed", None, None)
TOLD = [
    {"name": JOBS, "step": "put", "job": 7},
    {"name": JOBS, "step": "run", "job": 7, "lease": "one"},
    {"name": JOBS, "step": "run", "job": 7, "lease": "two"},
    {"name": JOBS, "step": "ran", "job": 7, "lease": "two"},
    {"name": PAY, "step": "ask"},
    {"name": PAY, "step": "read", "view": dict(zip(("state", "result", "by"), PAID, strict=True))},
]


def faults(entries=SOUND, told=TOLD, more=(), killed=()):
    """What is wrong with a log of entries a second apart, and with what was told."""
    found = Faults()
    heard = Heard(found)
    heard.killed.update(killed)
    for at, line in enumerate([*told, *more]):
        heard.hear("worker 0", {"at": float(at), **line}, "run")
    raw = [Entry(at, START_US + at * SECOND_US, encode(entry)) for at, entry in enumerate(entries, 1)]
    judge(found, heard, noted(raw, Log()), {PAY: PAID})
    return {name: count for name, count in found.counts.items() if count}


def test_nothing_is_wrong_with_a_sound_run():
    assert faults() == {}


@pytest.mark.parametrize(
    ("fault", "more"),
    [
        ("lost", {"step": "put", "job": 8}),
        ("doubled", {"step": "run", "job": 7, "lease": "two"}),
        ("doubled", {"step": "ran", "job": 7, "lease": "one"}),
        ("different", {"step": "run", "job": 7, "lease": "none"}),
        ("different", {"step": "odd", "what": "500"}),
    ],
)
def test_what_was_told_otherwise_is_counted(fault, more):
    assert faults(more=[{"name": JOBS, **more}]) == {fault: 1}


def test_all_that_a_taker_has_goes_back_as_it_leaves():
    entries = [
        SetLevel(level=2),
        *(PutItem(queue=JOBS, item=Raw(job), delay_us=0) for job in (b"7", b"8")),
        WantItem(queue=JOBS, lease_id="one", **TAKE),
        LeaveLine(lease_id="one"),
        WantItem(queue=JOBS, lease_id="two", **TAKE),
        EndLease(lease_id="two"),
        EndLease(lease_id="two.1"),
    ]
    told = [
        {"name": JOBS, "step": "ran", "job": job, "lease": f"two{more}"} for job, more in ((7, ""), (8, ".1"))
    ]
    assert faults([*entries, *SOUND[6:]], [*told, *TOLD[4:]]) == {}


def test_a_job_done_by_a_killed_worker_may_be_done_again():
    done = {"name": JOBS, "step": "ran", "job": 7, "lease": "one"}
    assert faults(more=[done], killed=["run"]) == {}


def test_an_acknowledged_job_that_was_not_done_is_lost():
    assert faults(told=[line for line in TOLD if line["step"] != "ran"]) == {"lost": 1}


def test_a_job_that_was_never_done_is_lost():
    told = [line for line in TOLD if line.get("lease") != "two"]
    assert faults([*SOUND[:4], *SOUND[6:]], told) == {"lost": 1}


def test_an_order_whose_end_is_not_delivered_is_lost():
    assert faults(SOUND[:-1]) == {"lost": 1}


def test_each_round_is_asked_by_two_workers_in_one_way():
    for number in range(100):
        one, two = asked_by(number)
        assert one != two
        assert {one, two} <= set(range(WORKERS))
        assert order_of(name_of(number)) == order_of(name_of(number))
    assert {name_of(number).partition("-")[0] for number in range(13)} == {
        "ask",
        "race",
        "left",
        "move",
        "pay",
    }
