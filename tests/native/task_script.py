"""Random steps with tasks on virtual time: waits, runs, sleeps and drains that are cancelled, timed out and ended."""

import asyncio
from collections import deque
from math import inf
from random import Random

from purgatory_async import DelayedOperation, Purgatory, Timer
from purgatory_async.testing import VirtualTimeLoop
from purgatory_async.timing import HashedWheel
from tests.native.described import attempt, error_text, noted_warnings

EPISODE = 300
KEYS = ("a", "b", ("a", "b"), 7)
TIMEOUTS = (None, None, inf, 0, -1, 0.001, 0.0025, 0.5, 3, 60.0)
# What a condition raises, or a wait fails with. All but the first also mean something to the awaiting code.
ERRORS = (KeyError, StopIteration, StopAsyncIteration, GeneratorExit, asyncio.CancelledError)
PAUSES = (0, 0, 0, 0.0005, 0.001, 0.01, 0.6, 100)
ODDS = {
    "wait": 20,
    "wait_until": 8,
    "run": 10,
    "share": 6,
    "share_listed": 12,
    "share_again": 4,
    "sleep": 8,
    "drain": 0.5,
    "cancel": 14,
    "abandon": 3,
    "complete": 12,
    "check": 10,
    "flip": 6,
    "fail": 3,
    "cancel_key": 3,
    "through_portal": 4,
    "expire_early": 3,
    "end_listed": 3,
    "reschedule_listed": 4,
    "close": 0.4,
}


class Fetch(DelayedOperation):
    """Completes while its gate is open, and says what happens to it."""

    def __init__(self, steps, number, timeout):
        super().__init__(timeout)
        self.steps, self.number = steps, number

    def try_complete(self):
        self.steps.log.append(("asked", self.number, self.abandoned))
        if self.number % 13 == 0:
            raise self.steps.error()
        return self.steps.gate and not self.abandoned and self.force_complete(self.number)

    def on_complete(self):
        self.steps.log.append(("on_complete", self.number, self.outcome))
        if self.number % 11 == 0:
            raise LookupError(self.number)
        if self.number % 5 == 0:
            self.steps.purgatory.check_and_complete("a")
        if self.number % 7 == 0:
            self.steps.start(awaited(self))
            self.steps.run()

    def on_expiration(self):
        self.steps.log.append(("on_expiration", self.number))


class TaskSteps:
    """A purgatory and a timer on a virtual loop, and the tasks and operations that were last made."""

    def __init__(self, random, loop):
        self.random, self.any, self.loop = random, random.choice, loop
        self.log, self.gate, self.made = [], False, 0
        self.steps_to_close = -1  # below zero: not for now
        self.tasks = deque(maxlen=16)
        self.operations = deque(maxlen=8)
        self.listed = deque(maxlen=8)  # waits too
        loop.set_exception_handler(self.handle)
        self.reopen()

    def reopen(self):
        limit = self.any((None, None, 3, 20))
        queue = self.any((None, HashedWheel))
        self.timer = Timer(queue=queue and queue(4), max_pending=limit)
        self.purgatory = Purgatory(timer=self.any((self.timer, None)), max_pending=limit, observer=self)

    def handle(self, loop, context):
        self.log.append(("handled", context["message"], error_text(context.get("exception"))))

    def notify(self, event):
        self.log.append(("event", repr(event)))

    def start(self, coroutine):
        self.made += 1
        number = self.made
        task = self.loop.create_task(coroutine)
        self.tasks.append(task)
        task.add_done_callback(lambda done: self.log.append(("done", number, *told(done), self.loop.time())))
        return task

    def some_keys(self):
        return self.random.choices(KEYS, k=self.any((1, 1, 2, 3)))

    def wait(self, until=None):
        """Wait as a task's own coroutine, in a group, or awaited by the task's coroutine."""
        wait = self.purgatory.wait(*self.some_keys(), until=until, timeout=self.any(TIMEOUTS))
        task = self.start(self.any((lambda it: it, grouped, awaited))(wait))
        # One that never began would warn when it is collected, in a step of its own in each build.
        task.add_done_callback(lambda _: wait.close())

    def wait_until(self):
        self.wait(self.condition)

    def condition(self):
        self.log.append(("condition", self.purgatory.checking))
        if self.made % 17 == 0:
            raise self.error()
        return self.gate and self.made

    def error(self):
        return self.any(ERRORS)(self.made)

    def run(self):
        operation = Fetch(self, self.made, self.any(TIMEOUTS))
        self.operations.append(operation)
        self.start(self.purgatory.run(operation, self.some_keys()))

    def share(self):
        if self.operations:
            self.start(awaited(self.any(self.operations)))

    def share_listed(self):
        """Let one or several tasks await what the purgatory lists: mostly waits of other tasks."""
        found = [*self.purgatory.operations(self.any((None, *KEYS)), limit=self.any((None, 3)))]
        if found:
            self.listed.append(self.any(found))
            for _ in range(self.any((1, 1, 2, 3))):
                self.start(awaited(self.listed[-1]))
        return len(found)

    def share_again(self):
        """Await one listed before, which may have ended."""
        if self.listed:
            self.start(awaited(self.any(self.listed)))

    def end_listed(self):
        listed = self.listed and self.any(self.listed)
        ends = ("cancel", ()), ("force_complete", (self.made,)), ("fail", (self.error(),))
        verb, arguments = self.any(ends)
        return listed and getattr(listed, verb)(*arguments)

    def reschedule_listed(self):
        listed = self.listed and self.any(self.listed)
        return listed and (listed.reschedule(self.any(TIMEOUTS)), listed.timeout)

    def sleep(self):
        self.start(self.timer.sleep(self.any((0, -1, 0.001, 0.5, 3))))

    def drain(self):
        self.steps_to_close = 8
        self.start(self.purgatory.drain(self.any((None, 0, 0.5))))

    def expire_early(self):
        self.start(timed_out(self.purgatory, self.some_keys(), self.any((0, 0.001, 0.5))))

    def cancel(self):
        if self.tasks and self.random.random() < 0.8:
            return self.any(self.tasks).cancel("by the script")
        return self.operations and self.any(self.operations).cancel()

    def abandon(self):
        """Cancel all tasks at once, then use a verb before they have run: no task is left for the result."""
        cancelled = [task.cancel() for task in self.tasks]
        return cancelled, getattr(self, self.any(("complete", "check", "fail", "end_listed")))()

    def complete(self):
        return self.purgatory.complete_for_key(self.any(KEYS), self.made)

    def check(self):
        return self.purgatory.check_and_complete(self.any(KEYS), limit=self.any((None, None, 1)))

    def fail(self):
        return self.purgatory.fail_for_key(self.any(KEYS), self.error())

    def cancel_key(self):
        return self.purgatory.cancel_for_key(self.any(KEYS))

    def flip(self):
        self.gate = not self.gate

    def through_portal(self):
        return self.purgatory.portal().complete_for_key(self.any(KEYS), "portal")

    def close(self):
        ended = self.purgatory.close(), self.timer.close()
        self.log.append(("closed", repr(ended)))
        self.reopen()

    async def step(self):
        """Do several things within one pass of the loop, then let it run for a while."""
        self.steps_to_close -= 1
        if not self.steps_to_close:
            self.close()
        for _ in range(self.any((1, 1, 2, 4))):
            (verb,) = self.random.choices(tuple(ODDS), ODDS.values())
            self.log.append((verb, repr(attempt(getattr(self, verb)))))
        await asyncio.sleep(self.any(PAUSES))

    async def leave(self):
        self.purgatory.close()
        self.timer.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def state(self):
        purgatory, timer = self.purgatory, self.timer
        shown = [self.loop.time_ns(), repr(purgatory), repr(timer), timer.next_deadline]
        shown += [purgatory.timer.pending, [repr(each) for each in purgatory.operations()]]
        return shown, [(repr(each), each.abandoned) for each in (*self.operations, *self.listed)]


def told(task):
    """How a task ended."""
    if task.cancelled():
        return ("cancelled",)
    error = task.exception()
    return ("raised", error_text(error)) if error is not None else ("returned", repr(task.result()))


async def awaited(operation):
    return await operation


async def grouped(wait):
    async with asyncio.TaskGroup() as group:
        task = group.create_task(wait)
    return task.result()


async def timed_out(purgatory, keys, seconds):
    async with asyncio.timeout(seconds):
        return await purgatory.wait(*keys)


def task_steps(seed, *, eager=False):
    """Steps on one loop after the other, without end; eager tasks run as they are made, to their first wait."""
    episode = 0
    while True:
        loop = VirtualTimeLoop()
        loop.set_task_factory(asyncio.eager_task_factory if eager else None)
        steps = TaskSteps(Random(f"{seed}:{episode}"), loop)
        episode += 1
        with noted_warnings(steps.log):
            try:
                for _ in range(EPISODE):
                    steps.log.clear()
                    loop.run_until_complete(steps.step())
                    yield f"{steps.log!r} {attempt(steps.state)!r}"
            finally:
                loop.run_until_complete(steps.leave())
                loop.close()
