"""Every public verb a thousand times, also where it fails: no block of memory, object or reference may be left.

python -m tests.native.leaks       one line for each verb that leaves something; a debug interpreter counts references
"""

import asyncio
import gc
import sys
import warnings
from collections.abc import Callable
from functools import partial
from itertools import count

from purgatory_async import DelayedOperation, Purgatory, Timer
from purgatory_async.testing import ManualClock, VirtualTimeLoop
from purgatory_async.timing import HashedWheel, TimerEntry, TimingWheel
from tests.native.described import attempt

ROUNDS = 1_000
NOISE = 50  # what the interpreter itself may keep, in a thousand rounds
KEY, RESULT, ERROR = ("key",), object(), LookupError("shared")
# Objects that verbs return or store; a lost reference to one of them is no lost memory.
SHARED = (None, True, False, (), 0, 1, KEY, RESULT, ERROR, DelayedOperation, TimerEntry)


class Raising(DelayedOperation):
    """Raises where it is called."""

    def try_complete(self):
        raise ValueError(self.timeout)


class Hooked(DelayedOperation):
    """Completes when checked a second time; its hook raises."""

    checks = 0

    def try_complete(self):
        self.checks += 1
        return self.checks > 1 and self.force_complete(RESULT)

    def on_complete(self):
        raise ValueError(self.timeout)


class Awaiting(DelayedOperation):
    """Awaits another in its hook."""

    def on_complete(self):
        other = DelayedOperation()
        other.force_complete()
        steps = other.__await__()
        steps.send(None)
        attempt(steps.send, None)


class Unequal:
    """A key that raises when it is compared."""

    def __hash__(self):
        return 1

    def __eq__(self, other):
        raise ValueError("compared")


class Silent:
    """An observer that raises."""

    def notify(self, event):
        raise ValueError("not now")


def watch(purgatory, kind=DelayedOperation, timeout=None, keys=(KEY, "other")):
    operation = kind(timeout)
    purgatory.try_complete_else_watch(operation, keys)
    return operation


def on_purgatory():
    """Verbs of a purgatory without a loop, by name."""
    clock = ManualClock()
    timer = Timer(clock=clock)
    whole, full = Purgatory(timer=timer), Purgatory(timer=timer, max_pending=1)
    watched, closed = Purgatory(timer=timer, observer=Silent()), Purgatory(timer=timer)
    watch(full)
    closed.close()
    ended = DelayedOperation()
    ended.cancel()
    after = partial(with_watched, whole)
    return {
        "complete_for_key": after(lambda _: whole.complete_for_key(KEY, RESULT)),
        "check_and_complete": after(lambda _: whole.check_and_complete(KEY), Hooked),
        "check with a limit": after(lambda _: whole.check_and_complete(KEY, limit=1), Hooked),
        "fail_for_key": after(lambda _: whole.fail_for_key(KEY, ERROR)),
        "cancel_for_key": after(lambda _: whole.cancel_for_key(KEY)),
        "force_complete": after(lambda operation: operation.force_complete(RESULT)),
        "fail": after(lambda operation: operation.fail(ERROR)),
        "cancel": after(lambda operation: operation.cancel()),
        "reschedule": after(
            lambda operation: [operation.reschedule(timeout) for timeout in (7, None, 0.5, "1")]
        ),
        "reschedule a new one": lambda: DelayedOperation(1).reschedule(2),
        "reschedule, observed": with_watched(watched, lambda operation: operation.reschedule(3)),
        "await in a hook": lambda: Awaiting().force_complete(),
        "__init__ again": after(lambda operation: operation.__init__(1)),
        "fail with no exception": after(lambda operation: operation.fail(RESULT)),
        "expire": lambda: (watch(whole, timeout=0.001), clock.advance(0.01)),
        "expire with a hook": lambda: (watch(whole, Hooked, 0.001), clock.advance(0.01)),
        "a raising observer": lambda: watch(watched).cancel(),
        "a raising check": lambda: watch(whole, Raising),
        "a raising key": lambda: watch(whole, keys=(Unequal(), Unequal())),
        "an unhashable key": lambda: watch(whole, keys=(KEY, [])),
        "no keys": lambda: watch(whole, keys=()),
        "a bad timeout": lambda: DelayedOperation("1"),
        "full": lambda: watch(full),
        "closed": lambda: watch(closed),
        "watch again": lambda: whole.try_complete_else_watch(ended, [KEY]),
        "read": after(lambda _: (list(whole.operations(KEY)), whole.watchers(), repr(whole), whole.pending)),
        "read an operation": after(lambda operation: (repr(operation), operation.keys, operation.outcome)),
        "unwatched": lambda: (whole.complete_for_key("unwatched"), whole.check_and_complete("unwatched")),
        "close": lambda: closing(Purgatory(timer=timer)),
    }


def with_watched(purgatory, use, kind=DelayedOperation):
    """A round that watches one operation more, uses it and leaves none."""

    def play():
        attempt(use, watch(purgatory, kind, 10))
        purgatory.cancel_for_key(KEY)

    return play


def closing(purgatory):
    watch(purgatory, timeout=1)
    watch(purgatory)
    return purgatory.close()


def fail():
    raise LookupError


def stop():
    raise StopIteration


def on_timer():
    """Verbs of a timer without a loop, by name."""
    clock = ManualClock()
    timer, full = Timer(clock=clock), Timer(clock=clock, max_pending=1)
    hashed = Timer(clock=clock, queue=HashedWheel(4))
    full.call_later(1e6, int)
    return {
        "call_later": lambda: (timer.call_later(0.001, int, RESULT), clock.advance(0.01)),
        "call_later on a hashed wheel": lambda: (hashed.call_later(0.5, int), clock.advance(1)),
        "call_at": lambda: (timer.call_at(timer.time() + 0.001, int), clock.advance(0.01)),
        "cancel": lambda: timer.call_later(7, int, RESULT).cancel(),
        "reschedule": lambda: rescheduled(timer),
        "never": lambda: timer.call_later(float("inf"), int).cancel(),
        "a raising callback": lambda: (timer.call_later(0, fail), clock.advance(0.01)),
        "a bad delay": lambda: timer.call_later("1", int),
        "a bad callback": lambda: timer.call_later(1, RESULT),
        "full": lambda: full.call_later(1, int),
        "read": lambda: (timer.pending, timer.next_deadline, repr(timer), timer.tick),
        "close": lambda: closed_timer(clock),
    }


def rescheduled(timer):
    handle = timer.call_later(7, int)
    handle.reschedule(8)
    attempt(handle.reschedule, "9")
    return repr(handle), handle.when, handle.cancel()


def closed_timer(clock):
    timer = Timer(clock=clock, queue=TimingWheel(3))
    timer.call_later(1, int)
    left = timer.close()
    attempt(timer.call_later, 1, int)
    return left


def on_wheels():
    """Verbs of both wheels, by name."""
    return {
        f"{kind.__name__}, {name}": partial(use, kind(3))
        for kind in (TimingWheel, HashedWheel)
        for name, use in (("advance", advanced), ("cancel", cancelled_in), ("drop", dropped), ("read", read))
    }


def entries_in(wheel):
    entries = [TimerEntry(wheel.now_tick + distance, RESULT) for distance in (0, 1, 2, 9, 9, 100)]
    for entry in entries:
        wheel.schedule(entry)
    attempt(wheel.schedule, entries[-1])
    return entries


def advanced(wheel):
    entries_in(wheel)
    wheel.advance(wheel.now_tick + 9, 2)
    attempt(wheel.advance, wheel.now_tick, 0)
    return wheel.advance(wheel.now_tick + 200)


def cancelled_in(wheel):
    found = [wheel.cancel(entry) for entry in entries_in(wheel)]
    wheel.advance(wheel.now_tick + 1_000)
    return found


def dropped(wheel):
    other = type(wheel)(3)
    for entry in entries_in(other):
        other.cancel(entry)


def read(wheel):
    entries = entries_in(wheel)
    shown = repr(wheel), repr(entries), len(wheel), wheel.next_tick, getattr(wheel, "levels", int)()
    wheel.advance(wheel.now_tick + 200)
    return shown


def awaited_elsewhere(timer):
    return {
        "drain": drained,
        "sleep": lambda: slept(timer, 0.01),
        "sleep, cancelled": lambda: slept(timer, 1, cancel=True),
        "sleep, refused": lambda: slept(timer, "1"),
    }


def on_loop(loop):
    """Verbs that are awaited, by name; each is a coroutine function."""
    purgatory, timer = Purgatory(), Timer()

    async def ended_by(end, *, until=None, timeout=5):
        task = loop.create_task(purgatory.wait(KEY, "other", until=until, timeout=timeout))
        await asyncio.sleep(0)
        end(task)
        return await asyncio.gather(task, return_exceptions=True)

    async def run_by(end):
        tasks = [loop.create_task(purgatory.run(DelayedOperation(3), [KEY]))]
        await asyncio.sleep(0)
        (operation,) = purgatory.operations(KEY)
        tasks += [loop.create_task(awaited(operation)) for _ in range(2)]
        await asyncio.sleep(0)
        end(tasks[-1])
        return await asyncio.gather(*tasks, return_exceptions=True)

    def complete(_):
        return purgatory.complete_for_key(KEY, RESULT)

    return {
        "wait": lambda: ended_by(complete),
        "wait, failed": lambda: ended_by(lambda _: purgatory.fail_for_key(KEY, LookupError())),
        "wait, expired": lambda: ended_by(bool, timeout=0.01),
        "wait, cancelled": lambda: ended_by(asyncio.Task.cancel),
        "wait, cancelled for its key": lambda: ended_by(lambda _: purgatory.cancel_for_key(KEY)),
        "wait, completed and cancelled": lambda: ended_by(lambda task: (complete(task), task.cancel())),
        "wait until": lambda: ended_by(complete, until=bool),
        "wait until, cancelled": lambda: ended_by(asyncio.Task.cancel, until=bool),
        "wait until, raising": lambda: ended_by(complete, until=fail),
        "wait until, stopping": lambda: ended_by(complete, until=stop),
        "wait, failed with a stop": lambda: ended_by(lambda _: purgatory.fail_for_key(KEY, StopIteration())),
        "run": lambda: run_by(complete),
        "run, one cancelled": lambda: run_by(asyncio.Task.cancel),
        **awaited_elsewhere(timer),
        "portal": lambda: ended_by(lambda _: purgatory.portal().complete_for_key(KEY, RESULT)),
    }


async def drained():
    own = Purgatory()
    task = asyncio.create_task(own.wait(KEY, timeout=1))
    await asyncio.sleep(0)
    found = await own.drain(0.01), await own.drain()
    own.close()
    return found, await asyncio.gather(task, return_exceptions=True)


async def slept(timer, seconds, *, cancel=False):
    task = asyncio.create_task(timer.sleep(seconds))
    await asyncio.sleep(0)
    if cancel:
        task.cancel()
    return await asyncio.gather(task, return_exceptions=True)


async def awaited(operation):
    return await operation


def counted():
    """Blocks, objects and, on a debug interpreter, references; and references to what is shared."""
    gc.collect()
    ERROR.__traceback__ = ERROR.__context__ = None
    references = getattr(sys, "gettotalrefcount", int)()
    objects = len(gc.get_objects())
    return sys.getallocatedblocks(), objects, references, *map(sys.getrefcount, SHARED)


def growth(play: Callable[[], object], rounds: int = ROUNDS) -> dict[str, int]:
    """What a thousand rounds leave behind, by kind; {} for nothing."""
    for attempts in count(1):
        before = counted()
        for _ in range(rounds):
            attempt(play)
        after = counted()
        kinds = ("blocks", "objects", "references", *(f"references to {each!r:.40}" for each in SHARED))
        left = {kind: now - then for kind, then, now in zip(kinds, before, after, strict=True)}
        grown = {kind: number for kind, number in left.items() if number > NOISE * rounds / ROUNDS}
        if not grown or attempts == 3:  # the first rounds fill caches
            return grown
    raise AssertionError(f"{play} was not played")


def all_verbs(loop):
    """All rounds by name."""
    for group in (on_purgatory, on_timer, on_wheels):
        for name, play in group().items():
            yield f"{group.__name__}: {name}", play
    for name, coroutine_of in on_loop(loop).items():
        yield f"on_loop: {name}", lambda of=coroutine_of: loop.run_until_complete(of())


def leaking(rounds: int = ROUNDS) -> dict[str, dict[str, int]]:
    """The verbs that leave something, each with what."""
    before, sys.unraisablehook = sys.unraisablehook, lambda _: None
    loop = VirtualTimeLoop()
    loop.set_exception_handler(lambda *_: None)
    asyncio.set_event_loop(loop)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # some are dropped full
            found = {name: growth(play, rounds) for name, play in all_verbs(loop)}
    finally:
        sys.unraisablehook = before
        asyncio.set_event_loop(None)
        loop.close()
    return {name: left for name, left in found.items() if left}


if __name__ == "__main__":
    leaks = leaking()
    for verb, kinds in leaks.items():
        sys.stdout.write(f"{verb} leaves {kinds} in {ROUNDS} rounds\n")
    sys.exit(1 if leaks else 0)
