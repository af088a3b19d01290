"""Random calls and attributes that no caller should use, on every class of the core that runs: none may crash.

python -m tests.native.misuse 7 20000            prints how many steps were taken
python -m tests.native.misuse 7 20000 --show     prints each step before it is taken, so the last one crashed
"""

import argparse
import asyncio
import faulthandler
import gc
import sys
import warnings
from collections import Counter
from inspect import signature
from math import inf, nan
from random import Random

import purgatory_async
from purgatory_async import DelayedOperation, Purgatory, Timer
from purgatory_async.core import hooks
from purgatory_async.native import core
from purgatory_async.testing import ManualClock, VirtualTimeLoop
from purgatory_async.timing import HashedWheel, TimerEntry, TimingWheel

EPISODE = 100  # steps on the same objects
PATIENCE_S = 120  # for an episode: longer is a hang
NUMBERS = (
    0,
    -1,
    1,
    7,
    255,
    2**31,
    2**62,
    2**63 - 1,
    2**63,
    -(2**63),
    2**64,
    10**400,
    nan,
    inf,
    -inf,
    0.5,
    1e300,
)
OTHERS = (
    None,
    None,
    True,
    "text",
    b"bytes",
    (),
    [],
    {},
    (1, 2),
    [[]],
    {1: 2},
    set(),
    int,
    object,
    len,
    ...,
    1j,
)
PROTOCOLS = ("hash", "eq", "index", "float", "bool", "call", "iter", "len", "lt", "repr", "await", "next")
HEAP_TYPE = 1 << 9  # of CPython's Py_TPFLAGS
LEFT_OUT = {"__class__", "__init_subclass__", "__subclasshook__"}  # they change no instance
# They make rings without an end, or follow one: of entries in two places.
ENDLESS = {"append", "prepend", "take", "drop"}
OF_UNLINKED = {"_next", "_prev", "_older", "_newer"}


class Restless(DelayedOperation):
    """Its condition and hooks do something random."""

    act = int

    def try_complete(self):
        return self.act()

    on_complete = on_expiration = try_complete


class Yard:
    """Objects of each kind in use, one of each class that was never initialised, and what is done to them."""

    def __init__(self, random, *, show):
        self.random, self.any, self.show = random, random.choice, show
        self.depth = 0
        self.answers = Counter()
        hooks._per_thread.hooks = hooks.HookQueue()  # the last one may be spoilt
        self.clock = ManualClock()
        self.timer, self.on_loop = Timer(clock=self.clock), Purgatory()
        self.purgatory = Purgatory(timer=self.timer, max_pending=50)
        self.classes = [kind for kind in vars(core).values() if is_compiled(kind)]
        self.classes += [Purgatory, Timer, HashedWheel, Restless]
        self.targets = [*self.in_use(), *map(uninitialised, self.classes)]

    def in_use(self):
        wheels = TimingWheel(4), HashedWheel(4)
        for wheel in wheels:
            for tick in (1, 1, 9, 100):
                wheel.schedule(TimerEntry(tick))
        watched = [self.watched(kind) for kind in (DelayedOperation, DelayedOperation, Restless)]
        waits = [self.on_loop.wait("a", timeout=3), self.on_loop.wait("a", "b", until=self.act)]
        started = [self.on_loop.wait("a", "b", timeout=3), self.on_loop.wait("a", until=bool)]
        awaited = [self.watched(DelayedOperation).__await__() for _ in range(2)]
        for wait in started:
            wait.send(None)
        handles = [self.timer.call_later(delay, self.act) for delay in (0.5, 7, 7, inf)]
        lists = [found for found in self.purgatory._watchers.values() if isinstance(found, dict)]
        purgatories = [self.purgatory, self.on_loop, self.on_loop._dispatcher, self.on_loop._admission]
        timers = [self.timer, self.on_loop.timer, self.timer.queue, self.on_loop._hooks]
        return [*wheels, *watched, *waits, *started, *awaited, *handles, *lists, *purgatories, *timers]

    def watched(self, kind):
        operation = kind(5)
        self.purgatory.try_complete_else_watch(operation, self.any((["a"], ["a", "b"], ["c"])))
        if kind is Restless:
            operation.act = self.act
        return operation

    def act(self, *_):
        """What hostile objects and callbacks do: another step, or fail."""
        if self.depth < 3 and self.random.random() < 0.5:
            self.step()
            return self.any(NUMBERS)
        raise ValueError("hostile")

    def hostile(self):
        """An object whose special methods act."""
        names = self.random.sample(PROTOCOLS, 3)
        return type("Hostile", (), {f"__{name}__": self.act for name in names})()

    def leaf(self):
        """A value that leads to no other object: links among live ones could make a ring that has no end."""
        makers = (self.hostile, self.hostile, DelayedOperation, core.Link, TimingWheel, lambda: TimerEntry(5))
        return self.any((lambda: self.any(NUMBERS), lambda: self.any(OTHERS), *makers))()

    def value(self):
        return self.any(self.targets) if self.random.random() < 0.4 else self.leaf()

    def step(self):
        """Take one random step, and count how it ended."""
        self.depth += 1
        try:
            self.any((self.call, self.call, self.call, self.call_unbound, self.put, self.delete, self.use))()
            self.answers["returned"] += 1
        except SystemError:  # a broken promise of C code
            raise
        except BaseException as error:  # noqa: BLE001 - any is right, as long as the process lives
            self.answers[type(error).__name__] += 1
        finally:
            self.depth -= 1

    def member(self):
        target = self.any(self.targets)
        linked = isinstance(target, core.Link) and target._next is not None
        return target, self.any(names_of(type(target), linked=linked))

    def arguments(self, name, call):
        """Mostly as many as it takes."""
        one = (
            self.leaf if name.startswith("_") else self.value
        )  # verbs refuse what is linked, inner methods rely on it
        named = {"limit": one()} if self.random.random() < 0.1 else {}
        fits = self.random.random() < 0.8 and is_function(call)
        count = len(signature(call).parameters) if fits else self.any((0, 1, 2))
        return [one() for _ in range(count)], named

    def tell(self, *what):
        if self.show:
            sys.stdout.write(f"{'  ' * self.depth}{' '.join(map(kind_and_text, what))}\n")
            sys.stdout.flush()

    def call(self):
        target, name = self.member()
        method = getattr(target, name)
        arguments, named = self.arguments(name, method)
        self.tell("call", target, name, *arguments, named)
        keep(method(*arguments, **named))

    def call_unbound(self):
        kind, target = self.any(self.classes), self.any(self.targets)
        name = self.any(names_of(kind, linked=True))
        method = getattr(kind, name)
        arguments, named = self.arguments(name, method)
        self.tell("unbound", kind.__name__, name, target, *arguments, named)
        keep(method(target, *arguments[: max(0, len(arguments) - 1)], **named))

    def put(self):
        target, name = self.member()
        value = self.leaf()
        self.tell("set", target, name, value)
        setattr(target, name, value)

    def delete(self):
        target, name = self.member()
        self.tell("delete", target, name)
        delattr(target, name)

    def use(self):
        """Use what may be spoilt by now as intended."""
        self.tell("use")
        uses = (
            lambda: self.watched(Restless),
            lambda: self.watched(DelayedOperation).cancel(),
            lambda: self.purgatory.complete_for_key("a", 1),
            lambda: self.purgatory.check_and_complete("a", limit=self.any((None, 1))),
            lambda: self.clock.advance(self.any((0.001, 1, 100))),
            lambda: self.timer.call_later(self.any((0.001, 7)), self.act),
            lambda: self.on_loop.complete_for_key("a"),
            lambda: self.on_loop.wait("a").send(None),
            lambda: [repr(target) for target in self.targets],
            gc.collect,
        )
        self.any(uses)()


def is_compiled(value):
    """Whether it is a class of the extension: Python's own classes are heap types."""
    own = isinstance(value, type) and value.__module__.startswith("purgatory_async")
    return own and not value.__flags__ & HEAP_TYPE


def names_of(kind, *, linked):
    return sorted(set(dir(kind)) - LEFT_OUT - ENDLESS - (OF_UNLINKED if linked else set()))


def is_function(value):
    return hasattr(value, "__code__") or hasattr(value, "__text_signature__")


def uninitialised(kind):
    """An instance whose constructor has not run."""
    try:
        return kind.__new__(kind)
    except TypeError:
        return kind.__new__(kind, None)  # an operation's awaiter


def keep(answer):
    """Let a coroutine be forgotten, not awaited."""
    if hasattr(answer, "cr_frame"):
        answer.close()


def kind_and_text(value):
    """A value in a step that is shown: never its own `repr`, which may be hostile."""
    return f"{value!s:.30}" if type(value) in {str, int, float, dict} else f"<{type(value).__name__}>"


async def misuse(random, steps, *, show):
    """Take steps on one yard after the other; returns how they ended."""
    answers = Counter()
    while answers.total() < steps:
        faulthandler.dump_traceback_later(PATIENCE_S, exit=True)
        yard = Yard(random, show=show)
        for number in range(EPISODE):
            yard.step()
            if number % 10 == 0:
                await asyncio.sleep(0)  # not longer: time stands still while a spoilt hook queue calls back
        answers += yard.answers
    faulthandler.cancel_dump_traceback_later()
    return answers


def main():
    """Misuse for a number of steps, and print how they ended."""
    parser = argparse.ArgumentParser(prog="python -m tests.native.misuse")
    parser.add_argument("seed", type=int)
    parser.add_argument("steps", type=int)
    parser.add_argument("--show", action="store_true")
    arguments = parser.parse_args()
    assert purgatory_async.compiled, "the reference cannot crash"
    faulthandler.enable()
    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda _: None
    loop = VirtualTimeLoop()
    loop.set_exception_handler(lambda *_: None)
    answers = loop.run_until_complete(misuse(Random(arguments.seed), arguments.steps, show=arguments.show))
    sys.stdout.write(f"{answers.total()} steps: {answers.most_common(8)}\n")


if __name__ == "__main__":
    main()
