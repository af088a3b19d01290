"""Public verbs with arguments that are wrong, odd or hostile: both builds refuse alike, and leave nothing behind."""

import re
from functools import partial
from inspect import signature
from itertools import count
from math import inf, nan
from random import Random

from purgatory_async import DelayedOperation, Purgatory, Timer
from purgatory_async.testing import ManualClock
from purgatory_async.timing import HashedWheel, TimerEntry, TimingWheel
from tests.core.model.lockstep import reports_go_to
from tests.native.described import attempt, error_text, noted_warnings

EPISODE = 200
NUMBERS = (
    0,
    -1,
    1,
    7,
    2**31,
    2**62,
    2**63,
    -(2**63),
    10**400,
    nan,
    inf,
    -inf,
    0.5,
    1e300,
    3_155_760_000.5,
    1j,
)
OTHERS = (
    None,
    None,
    True,
    False,
    "text",
    b"bytes",
    (),
    (1, 2),
    ([],),
    ["a"],
    [[]],
    ...,
    NotImplemented,
    int,
    len,
)
SPECIAL = ("hash", "eq", "index", "float", "bool", "call", "iter", "len", "lt", "repr")
MODULE = re.compile(
    r"\bpurgatory_async\.[a-z_.]+\.(?=[A-Z])"
)  # in the interpreter's name of a compiled class
# Closing is tested elsewhere: here it would end most episodes at once.
LEFT_OUT = {"close", "check_invariants", "checking", "new_waiter"}


class Hostile:
    """Its special methods raise, or signal the purgatory; which of them it has is random."""

    def __init__(self, steps):
        self.steps = steps


def hostile_class(names):
    def act(self, *_):
        return self.steps.act()

    return type("Hostile", (Hostile,), {f"__{name}__": act for name in names})


class Calm(DelayedOperation):
    """Shows no address."""

    def __repr__(self):
        return f"calm {self.outcome}"


class ArgumentSteps:
    """One object of each kind, and what they were given."""

    def __init__(self, random):
        self.random, self.any = random, random.choice
        self.log, self.depth = [], 0
        self.clock = ManualClock()
        self.timer = Timer(clock=self.clock, max_pending=self.any((None, 5)))
        self.purgatory = Purgatory(timer=self.timer, max_pending=self.any((None, 5)))
        self.wheels = TimingWheel(4), HashedWheel(4)

    def act(self):
        """What hostile objects do: signal, or fail."""
        if self.depth < 2 and self.random.random() < 0.3:
            self.depth += 1
            try:
                return self.purgatory.complete_for_key("a")
            finally:
                self.depth -= 1
        raise self.any((ValueError, LookupError))("hostile")

    def hostile(self):
        return hostile_class(self.random.sample(SPECIAL, 2))(self)

    def value(self):
        makers = (
            self.hostile,
            lambda: Calm(3),
            lambda: TimerEntry(5),
            lambda: self.purgatory,
            lambda: ["a", "b"],
        )
        return self.any((*(lambda: self.any(NUMBERS),) * 3, *(lambda: self.any(OTHERS),) * 3, *makers))()

    def target(self):
        pending = self.any((Calm(2), Calm("2" if self.random.random() < 0.1 else 2)))
        if self.random.random() < 0.8:
            attempt(self.purgatory.try_complete_else_watch, pending, ["a", self.any(("b", "c"))])
        handles = self.timer.call_later(1, int) if self.timer.pending < 5 else self.timer
        return self.any((self.purgatory, self.purgatory, self.timer, *self.wheels, pending, pending, handles))

    def step(self):
        """Call a public method or set a public attribute; returns what was done and the answer."""
        target = attempt(self.target)
        names = [name for name in dir(type(target)) if not name.startswith("_") and name not in LEFT_OUT]
        name = self.any(names)
        method = getattr(target, name, None)
        give = self.value
        if target in self.wheels and name in {"schedule", "cancel"}:
            give = partial(
                TimerEntry, 5
            )  # the reference looks at no type, and fails in the interpreter's words
        if isinstance(target, str) or not callable(method):
            return name, "not called"
        wanted = len(signature(method).parameters)
        given = [give() for _ in range(wanted if self.random.random() < 0.9 else self.any((0, 1, 4)))]
        named = (
            {self.any(("limit", "result", "timeout", "absent")): self.value()}
            if self.random.random() < 0.1
            else {}
        )
        try:
            signature(method).bind(*given, **named)
        except TypeError:  # which is told in the interpreter's words
            return (
                type(target).__name__,
                name,
                str(attempt(partial(method, *given, **named))).partition(":")[0],
            )
        answer = attempt(partial(method, *given, **named))
        if hasattr(answer, "send"):
            answer, coroutine = attempt(answer.send, None), answer
            coroutine.close()
        return type(target).__name__, name, shown(answer)

    def take_report(self, unraisable):
        """Stands in for `sys.unraisablehook`."""
        self.log.append(("reported", error_text(unraisable.exc_value)))

    def state(self):
        purgatory, timer = self.purgatory, self.timer
        counts = purgatory.pending, purgatory.watched, purgatory.keys, timer.pending, timer.next_deadline
        return counts, [(len(wheel), wheel.now_tick, wheel.next_tick) for wheel in self.wheels]


def shown(answer):
    """An answer as a text that is the same in both builds."""
    return (
        attempt(repr, answer) if isinstance(answer, (str, int, float, tuple, list)) else type(answer).__name__
    )


def argument_steps(seed):
    """Steps on one steps after the other, without end."""
    for episode in count():
        steps = ArgumentSteps(Random(f"{seed}:{episode}"))
        with reports_go_to(steps), noted_warnings(steps.log):
            try:
                for _ in range(EPISODE):
                    steps.log.clear()
                    done = steps.step()
                    yield MODULE.sub("", f"{done!r} {steps.log!r} {attempt(steps.state)!r}")
                    steps.purgatory.check_invariants()
                    steps.timer.check_invariants()
            finally:
                steps.purgatory.close()
