"""Random steps on a timer: callbacks, their handles, limits, queues, context, closing, and what it refuses."""

from collections import deque
from contextvars import ContextVar
from functools import partial
from math import inf, nan
from random import Random

from purgatory_async import Timer
from purgatory_async.testing import ManualClock
from purgatory_async.timing import HashedWheel, TimingWheel
from tests.core.model.lockstep import reports_go_to
from tests.native.described import attempt, error_text, noted_warnings
from tests.timing.sorted_queue import SortedQueue

EPISODE = 500
TICKS = (0.001, 0.0004, 1, 1e-6)
QUEUES = (lambda: None, lambda: TimingWheel(3), lambda: HashedWheel(4), HashedWheel, SortedQueue)
DELAYS = (
    *(0, -1, -0.0, 1e-10, 0.0003, 0.001, 0.0011, 0.002, 0.017, 0.25, 1, 1.0, 7.5, 61.5, 3600, 1e5),
    *(3_155_760_000, inf),
)
BAD_DELAYS = (nan, -inf, 3_155_760_000.5, 1e308, 2**63, 10**400, None, True, "1", b"1", 1j, [1])
ADVANCES = (0, 1e-9, 0.0003, 0.000999, 0.001, 0.002, 0.017, 0.25, 1.0, 61.5, 3600.0, 40_000_000)
VARIABLE = ContextVar("VARIABLE", default=0)
ODDS = {
    "call_later": 30,
    "call_later_as_before": 15,
    "call_at": 10,
    "reschedule": 8,
    "cancel": 15,
    "advance": 20,
    "advance_to_next": 8,
    "set_variable": 2,
    "misuse": 3,
    "close": 0.3,
}
BY_A_CALLBACK = ("call_later", "call_later_as_before", "cancel", "reschedule", "throw", "close", "advance")


async def coroutine_function():
    """No callback: it would never be awaited."""


class Calls:
    """A callable object, whose repr has no address."""

    def __init__(self, steps, number):
        self.steps, self.number = steps, number

    def __repr__(self):
        return f"call {self.number}"

    def __call__(self, *arguments):
        self.steps.fire(self.number, arguments)

    def method(self, *arguments):
        self.steps.fire(self.number, arguments)


class TimerSteps:
    """A timer on a manual clock, and the handles that were last made."""

    def __init__(self, random):
        self.random, self.any = random, random.choice
        self.log = []
        self.clock = ManualClock(self.any((0, 0.0, 1.7, 1e9)))
        self.handles = deque(maxlen=12)
        self.made = self.depth = 0
        self.delay = 1.0
        self.reopen()

    def reopen(self):
        limit, queue = self.any((None, None, 1, 3, 20)), self.any(QUEUES)()
        self.timer = Timer(clock=self.clock, queue=queue, tick=self.any(TICKS), max_pending=limit)

    def callback(self):
        """Something new to call, of a random kind."""
        self.made += 1
        calls = Calls(self, self.made)
        return self.any(
            (calls, calls.method, partial(calls, "partial"), lambda *given: calls.method("function", *given))
        )

    def fire(self, number, arguments):
        self.log.append(("fired", number, arguments, self.timer.time_ns(), VARIABLE.get()))
        if self.depth < 3 and self.random.random() < 0.3:
            self.depth += 1
            try:
                getattr(self, self.any(BY_A_CALLBACK))()
            finally:
                self.depth -= 1

    def keep(self, handle):
        self.handles.append(handle)
        return handle

    def call_later(self):
        self.delay = self.any(DELAYS)
        return self.keep(self.timer.call_later(self.delay, self.callback(), *range(self.made % 3)))

    def call_later_as_before(self):
        return self.keep(self.timer.call_later(self.delay, self.callback()))

    def call_at(self):
        return self.keep(self.timer.call_at(self.timer.time() + self.any(DELAYS), self.callback()))

    def reschedule(self):
        return self.handles and self.any(self.handles).reschedule(self.any(DELAYS))

    def cancel(self):
        return self.handles and self.any(self.handles).cancel()

    def advance(self):
        self.clock.advance(self.any(ADVANCES))

    def advance_to_next(self):
        return self.clock.advance_to_next()

    def set_variable(self):
        VARIABLE.set(self.made)

    def throw(self):
        raise self.any((ValueError, LookupError, StopIteration))(self.made)

    def close(self):
        return self.timer.close()

    def misuse(self):
        timer, bad = self.timer, self.any(BAD_DELAYS)
        handle = self.any(self.handles) if self.handles else None
        sleep = timer.sleep(bad)
        wrong = (
            lambda: timer.call_later(bad, int),
            lambda: timer.call_at(bad, int),
            lambda: timer.call_later(1, bad),
            lambda: timer.call_at(1, coroutine_function),
            lambda: handle and handle.reschedule(bad),
            lambda: handle and handle.__init__(timer, int, ()),
            timer.__init__,
            lambda: sleep.send(None),
            lambda: Timer(tick=bad),
            lambda: Timer(max_pending=bad),
            lambda: Timer(queue=timer.queue),
        )
        try:
            return attempt(self.any(wrong))
        finally:
            sleep.close()

    def take_report(self, unraisable):
        """Stands in for `sys.unraisablehook`."""
        self.log.append(("reported", error_text(unraisable.exc_value), unraisable.err_msg))

    def state(self):
        timer = self.timer
        shown = [
            repr(timer),
            repr(timer.queue),
            len(timer.queue),
            timer.queue.next_tick,
            timer.queue.now_tick,
        ]
        shown += [timer.time_ns(), timer.time(), timer.pending, timer.next_deadline, timer.closed, timer.tick]
        if isinstance(timer.queue, TimingWheel):
            shown.append(timer.queue.levels())
        return shown, [(handle, handle.when, handle.fired, handle.cancelled) for handle in self.handles]


def timer_steps(seed):
    """Steps on one timer after the other, without end."""
    episode = 0
    while True:
        steps = TimerSteps(Random(f"{seed}:{episode}"))
        episode += 1
        with reports_go_to(steps), noted_warnings(steps.log):
            for _ in range(EPISODE):
                verb = "reopen"
                if not steps.timer.closed:
                    (verb,) = steps.random.choices(tuple(ODDS), ODDS.values())
                steps.log.clear()
                answer = attempt(getattr(steps, verb))
                yield f"{verb} {answer!r} {steps.log!r} {steps.state()!r}"
                attempt(steps.timer.check_invariants)
