"""Commands that a purgatory and its reference both perform, and the log by which they are compared.

A command is a tuple: a verb and its arguments. A plan says what one operation is going to do when it is asked and
when its hooks run, and may hold further commands. The log has what happens in order: who was asked, who ended how
and when, which hook ran and what it saw, which exception was reported, what every verb returned.
"""

import sys
from asyncio import CancelledError
from collections import deque
from contextlib import suppress
from math import inf
from typing import NamedTuple

from purgatory_async import DelayedOperation, Outcome, Purgatory, PurgatoryError, PurgatoryFull, Timer
from purgatory_async.events import OperationEnded, OperationRescheduled, OperationSubmitted
from purgatory_async.testing import ManualClock
from purgatory_async.timing import HashedWheel, TimingWheel
from tests.core.model.reference import Reference


class PlannedError(Exception):
    """What a planned failure raises."""


class TouchyError(PlannedError):
    """What the comparison of two touchy keys raises, now and then."""


class Touchy:
    """A key that every lookup of another one compares, for all have one hash."""

    raises_at = 0  # the comparison that raises, counted from the next; 0 for none

    def __hash__(self):
        return 7

    def __eq__(self, other):
        if Touchy.raises_at:
            Touchy.raises_at -= 1
            if not Touchy.raises_at:
                raise TouchyError
        return self is other


# A single key may itself be a tuple, which must not count as two keys.
KEYS = ("a", "b", "c", ("a", "b"), 0, frozenset(), Touchy(), Touchy(), Touchy())
GROUPS = (("a", "b"), ("a", "b", "c"))  # keys that many operations watch together
GATES = 3
# From less than the clock can tell, over a part of a tick, one and several of them, to 100 years.
TIMEOUTS = (
    *(None, inf, 0, -1, -0.0002, -0.0, 1e-10, 1e-7, 0.0003, 0.001, 0.001000001, 0.0025, 0.003, 0.07, 0.256),
    *(1.001, 60, 3600.0, 90061.001, 3_155_760_000),
)
ADVANCES = (0, 1e-9, 0.0003, 0.000999, 0.001, 0.002, 0.017, 0.25, 1.0, 61.5, 3600.0, 100_000.0, 40_000_000)
TICKS = (0.001, 0.0004, 1)
# The deadlines wait in each of these in turn, small enough to go round often.
QUEUES = {
    **{f"timing wheel of {size}": (TimingWheel, size) for size in (2, 3, 8, 20)},
    **{f"hashed wheel of {size}": (HashedWheel, size) for size in (2, 3, 16, 64)},
}
RECENT = 16  # how many operations can be named in a command, and are compared also when they have ended


RAISED = {"failure": PlannedError, "cancelled": CancelledError, "stop": StopIteration}


class Plan(NamedTuple):
    """What an operation is going to do."""

    keys: tuple
    timeout: float | None = None
    gate: int = 0  # its condition
    check: str = "complete"  # what its check does when the gate is open
    on_complete: tuple = ()
    on_expiration: tuple = ()
    touchy: int = 0  # which comparison of its keys raises when it is watched; 0 for none


class Planned:
    """An operation that follows its plan, on either side."""

    def try_complete(self):
        self.side.log.append(("asked", self.number, self.side.purgatory.checking))
        return self.side.gates[self.plan.gate] and CHECKS[self.plan.check](self)

    def on_complete(self):
        self.hook("on_complete", self.plan.on_complete)

    def on_expiration(self):
        self.hook("on_expiration", self.plan.on_expiration)

    def hook(self, name, commands):
        self.side.log.append((name, self.number, self.outcome, self.result, self.keys, self.side.counts()))
        for verb, *arguments in commands:
            if verb == "throw":
                raise RAISED[arguments[0]](self.number)
            self.side.perform((verb, *arguments))

    def raise_failure(self):
        raise PlannedError(self.number)

    def complete_and_raise(self):
        self.force_complete("before it raised")
        self.raise_failure()

    def complete_another(self):
        return self.side.perform(("force_complete", 1, "by another"))

    def put_off(self):
        with suppress(PurgatoryFull):
            self.reschedule(0.003)

    def signal_inside_the_check(self):
        return self.side.perform(("complete", self.plan.keys[0], "inside a check"))


CHECKS = {
    "complete": lambda self: self.force_complete(self.number),
    "complete without saying so": lambda self: self.force_complete(self.number) and None,
    "say so without completing": lambda self: True,
    "complete and raise": Planned.complete_and_raise,
    "complete another": Planned.complete_another,
    "cancel": lambda self: self.cancel(),
    "fail": lambda self: self.fail(PlannedError(self.number)),
    "raise": Planned.raise_failure,
    "signal": Planned.signal_inside_the_check,
    "put off": Planned.put_off,
}


class Side:
    """One of the two; performs commands and keeps the log."""

    def __init__(self):
        self.log = []
        self.gates = [False] * GATES
        self.made = 0
        self.recent = deque(maxlen=RECENT)

    def perform(self, command):
        verb, *arguments = command
        Touchy.raises_at = 0
        try:
            answer = getattr(self, verb)(*arguments)
        except PurgatoryError as error:
            answer = type(error).__name__
        except PlannedError as failure:
            answer = repr(failure)
        Touchy.raises_at = 0
        self.log.append((verb, answer))
        return answer

    def submit(self, plan):
        operation = self.make(plan.timeout)
        operation.side, operation.plan, operation.number = self, plan, self.made
        self.made += 1
        self.recent.append(operation)
        return self.purgatory.try_complete_else_watch(operation, plan.keys)

    def submit_again(self, age):
        operation = self.by_age(age)
        return operation and self.purgatory.try_complete_else_watch(operation, operation.plan.keys)

    def check(self, key):
        return self.purgatory.check_and_complete(key)

    def force_complete(self, age, result):
        operation = self.by_age(age)
        return operation and operation.force_complete(result)

    def force_fail(self, age):
        operation = self.by_age(age)
        return operation and operation.fail(PlannedError(age))

    def force_cancel(self, age):
        operation = self.by_age(age)
        return operation and operation.cancel()

    def reschedule(self, age, timeout):
        operation = self.by_age(age)
        return operation and operation.reschedule(timeout)

    def cancel_among_touchy_keys(self, age, touchy):
        Touchy.raises_at = touchy
        return self.force_cancel(age)

    def flip(self, gate):
        self.gates[gate] = not self.gates[gate]

    def close(self):
        return numbers(self.purgatory.close())

    def by_age(self, age):
        return self.recent[-1 - age] if age < len(self.recent) else None

    def state(self):
        """Everything that can be seen from outside."""
        purgatory = self.purgatory
        return {
            "time": self.time_ns(),
            "closed": purgatory.closed,
            "counts": self.counts(),
            "pending": numbers(purgatory.operations()),
            **{key: numbers(purgatory.operations(key)) for key in KEYS},
            "ends": [(each.outcome, each.result, repr(each.exception), each.keys) for each in self.recent],
            "timeouts": [each.timeout for each in self.recent],
        }


class RealOperation(Planned, DelayedOperation):
    """Planned, and a delayed operation."""

    def try_complete(self):
        try:
            return super().try_complete()
        finally:
            Touchy.raises_at = 0 if self.keys else self.plan.touchy


class RealSide(Side):
    """The purgatory, on a manual clock and without a loop."""

    def __init__(self, queue, tick, max_pending, max_deadlines):
        super().__init__()
        self.touched = []
        kind, size = QUEUES[queue]
        self.clock = ManualClock()
        self.tick = tick
        self.timer = Timer(clock=self.clock, queue=kind(size), tick=tick, max_pending=max_deadlines)
        self.max_pending = max_pending
        self.open()

    make = RealOperation

    def submit(self, plan):
        return self.noting_touched(self.made, super().submit, plan)

    def submit_again(self, age):
        operation = self.by_age(age)
        return operation and self.noting_touched(operation.number, super().submit_again, age)

    def noting_touched(self, number, watch, argument):
        """Watch, and note the number of an operation whose keys' comparison raised."""
        try:
            return watch(argument)
        except TouchyError:
            self.touched.append(number)
            raise

    def open(self):
        self.purgatory = Purgatory(timer=self.timer, max_pending=self.max_pending, observer=self)

    def notify(self, event):
        if isinstance(event, OperationSubmitted):
            event.operation.watched = event.operation.outcome is None
        elif isinstance(event, OperationRescheduled):
            self.log.append(("rescheduled", event.operation.number, event.timeout_ns, event.at_ns))
        elif isinstance(event, OperationEnded) and event.operation.watched:
            self.log.append(("ended", event.operation.number, event.outcome, event.at_ns))

    def complete(self, key, result):
        return self.purgatory.complete_for_key(key, result)

    def fail(self, key):
        return self.purgatory.fail_for_key(key, PlannedError(key))

    def cancel(self, key):
        return numbers(self.purgatory.cancel_for_key(key))

    def advance(self, seconds):
        self.clock.advance(seconds)

    def advance_to_next(self):
        return self.clock.advance_to_next()

    def time_ns(self):
        return self.clock.time_ns()

    def counts(self):
        return self.purgatory.pending, self.purgatory.watched, self.purgatory.keys, self.timer.pending

    def check_invariants(self):
        self.purgatory.check_invariants()
        self.timer.check_invariants()

    def take_report(self, unraisable):
        """Replaces `sys.unraisablehook`, which a purgatory without a loop calls."""
        if isinstance(unraisable.exc_value, TouchyError):
            return
        if isinstance(unraisable.exc_value, tuple(RAISED.values())):
            self.log.append(("reported", repr(unraisable.exc_value)))
        else:
            sys.__unraisablehook__(unraisable)


class ReferenceOperation(Planned):
    """Planned, and as simple as the reference."""

    def __init__(self, home, timeout):
        self.home, self.timeout, self.keys = home, timeout, ()
        self.outcome, self.result, self.exception = None, None, None

    def compare_keys(self):
        """Raise as often as on the real side."""
        if self.number in self.side.touched:
            self.side.touched.remove(self.number)
            raise TouchyError

    def force_complete(self, result=None):
        return self.home.end(self, Outcome.COMPLETED, result=result)

    def fail(self, exception):
        return self.home.end(self, Outcome.FAILED, exception=exception)

    def cancel(self):
        return self.home.end(self, Outcome.CANCELLED)

    def reschedule(self, timeout):
        return self.home.reschedule(self, timeout)


class ReferenceSide(Side):
    """The reference model."""

    def __init__(self, tick, max_pending, max_deadlines, touched):
        super().__init__()
        self.touched = touched  # on the real side, and not yet on this
        self.purgatory = Reference(round(tick * 1e9), max_pending or inf, max_deadlines or inf, self.tell)

    def make(self, timeout):
        return ReferenceOperation(self.purgatory, timeout)

    def open(self):
        self.purgatory.closed = False

    def tell(self, what, whom, timeout=None):
        if what == "ended":
            self.log.append(("ended", whom.number, whom.outcome, self.time_ns()))
        elif what == "rescheduled":
            timeout_ns = None if timeout is None else round(max(timeout, 0) * 1e9)
            self.log.append(("rescheduled", whom.number, timeout_ns, self.time_ns()))
        else:
            self.log.append(("reported", repr(whom)))

    def complete(self, key, result):
        return len(self.purgatory.end_all(key, Outcome.COMPLETED, result=result))

    def fail(self, key):
        return len(self.purgatory.end_all(key, Outcome.FAILED, exception=PlannedError(key)))

    def cancel(self, key):
        return numbers(self.purgatory.end_all(key, Outcome.CANCELLED))

    def advance(self, seconds):
        self.purgatory.advance_to(self.purgatory.now_ns + round(seconds * 1e9))

    def advance_to_next(self):
        if not self.purgatory.deadlines:
            return None
        self.purgatory.advance_to(self.purgatory.deadlines[0][0])
        return self.time_ns() / 1e9

    def time_ns(self):
        return self.purgatory.now_ns

    def counts(self):
        arrived = self.purgatory.arrived
        pairs = [key for operation in arrived for key in operation.keys]
        return len(arrived), len(pairs), len(set(pairs)), len(self.purgatory.deadlines)


def numbers(operations):
    return [operation.number for operation in operations]
