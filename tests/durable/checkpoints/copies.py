"""Entries that leave something of each kind in the state of a store, and what is in a store."""

from contextlib import asynccontextmanager, closing

from msgspec import Raw

from purgatory_async.durable.checkpoints.loading import folded
from purgatory_async.durable.documents import Ask, CountNeed, KeyedSignal
from purgatory_async.durable.fold import entries as kinds
from purgatory_async.durable.fold.checkpoint import digest
from purgatory_async.durable.fold.codec import encode
from purgatory_async.durable.urls import opened
from tests.durable.checkpoints.conftest import append

HOUR = 3_600_000_000
WORKER = "a" * 24


def everything():
    """Entries for an empty log."""
    text = Raw(b'{"text":"\xc3\xa4"}')
    ask = Ask(title="Pay?", choices=("yes", "no"))

    def idem(name):
        return {"idem": name, "digest": "d", "owner": "me"}

    made = (
        kinds.SetLevel(level=2),
        kinds.Alive(writer=WORKER, number=1),
        kinds.SetLimits(keep_signals=7, retention_us=2 * HOUR, max_pending=500),
        kinds.SetQueue(queue="mail", lease_us=HOUR, max_attempts=1, max_items=9),
        kinds.SubmitOperation(
            id="open", keys=("k1", "k2"), need="all", timeout_us=HOUR, data=text, owner="me"
        ),
        kinds.SubmitOperation(id="counts", keys=("k1",), need=CountNeed(amount=9)),
        kinds.SubmitOperation(
            id="asks", keys=("asks",), ask=ask, announce="asked", deliver="told", **idem("asks")
        ),
        kinds.SubmitOperation(id="moved", keys=("moved",), timeout_us=HOUR),
        kinds.RescheduleOperation(id="moved", timeout_us=2 * HOUR),
        kinds.SubmitOperation(id="done", keys=("done",)),
        kinds.CompleteOperation(id="done", result=text, by="me"),
        kinds.SubmitOperation(id="failed", keys=("failed",), keep_us=HOUR),
        kinds.FailOperation(id="failed", error=text),
        kinds.SubmitOperation(id="gone", keys=("gone",)),
        kinds.EndOperation(id="gone", how="cancelled"),
        kinds.ForgetOperation(id="gone"),
        kinds.SubmitOperation(id="kept", keys=("kept",), keep_us=HOUR, **idem("kept")),
        kinds.EndOperation(id="kept", how="completed"),
        kinds.ForgetOperation(id="kept"),
        kinds.SignalKey(key="k1", value=text, amount=3, voter="v", **idem("signal")),
        kinds.Tick(),
        kinds.SignalKeys(signals=(KeyedSignal(key="k1", amount=2), KeyedSignal(key="k3", value=text))),
        kinds.PutItem(queue="mail", item=text, delay_us=0, **idem("put")),
        kinds.PutItem(queue="mail", item=text, delay_us=HOUR),
        *(kinds.PutItem(queue="mail", item=Raw(b"%d" % number), delay_us=0) for number in range(4)),
        kinds.WantItem(queue="mail", lease_id="l1", max=1, idem="take", digest="d"),
        kinds.WantItem(queue="mail", lease_id="l2", max=1),
        kinds.EndLease(lease_id="l2"),
        kinds.WantItem(queue="mail", lease_id="l3", max=1),
        kinds.EndLease(lease_id="l3", back=True),  # its only attempt: a dead one
        kinds.WantItem(writer=WORKER, number=2, queue="empty", lease_id="l4", wait_us=HOUR, max=1),
    )
    return [encode(entry) for entry in made]


async def fill(store, *entries):
    async with opened(store) as (log, _):
        await append(log, *entries)


@asynccontextmanager
async def state_of(store):
    """The store's head, and the fold at its end."""
    async with opened(store) as (log, head):
        with closing(await folded(log, strict=True)) as fold:
            yield head, fold


async def digest_of(store):
    async with state_of(store) as (_, fold):
        return digest(fold)


async def is_empty(store):
    """Whether a store is as one that was just created."""
    async with opened(store) as (log, head):
        return (head.position, head.checkpoint, await log.load()) == (0, 0, None)


def silent(_):
    """Drop a line of progress."""
