"""What the library's objects answer to the interpreter and to a user's subclasses, one line each.

python -m tests.native.surface       both builds must print the same

Left out is what a compiled class cannot do: inherit from Generic, annotate its methods, give up an attribute of a C
type or take another type for it.
"""

import copy
import gc
import inspect
import pickle
import re
import sys
import warnings
import weakref
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Generic, TypeVar, get_type_hints

from purgatory_async import DelayedOperation, Outcome, Purgatory, Timer, TimerHandle
from purgatory_async.testing import ManualClock
from purgatory_async.timing import HashedWheel, TimerEntry, TimingWheel
from tests.native.described import attempt

T = TypeVar("T")
CLASSES = (DelayedOperation, Purgatory, Timer, TimerHandle, TimerEntry, TimingWheel, HashedWheel)
OF_A_C_TYPE = ("closed", "deadline_tick", "now_tick", "timeout", "timer")
ADDRESS = re.compile(r"\b0x[0-9a-f]+")


class Plain:
    """A user's base class."""

    word = "plain"


class Slotless:
    __slots__ = ()


class Cooperative:
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.begun = "cooperative"


class Alone:
    def __init__(self, *_):
        self.begun = "alone"


class Template(ABC):
    @abstractmethod
    def render(self):
        """To override."""


class WithPlain(DelayedOperation, Plain):
    """Has a dict."""


class WithSlotless(DelayedOperation, Slotless):
    __slots__ = ()


class SlotlessFirst(Slotless, DelayedOperation):
    __slots__ = ("own",)


class WithCooperative(Cooperative, DelayedOperation):
    """Both constructors run."""


class WithAlone(Alone, DelayedOperation):
    """The operation's own constructor does not run."""


class CooperativeLast(DelayedOperation, Cooperative):
    """The other constructor does not run."""


class WithGeneric(DelayedOperation[T], Generic[T]):
    __slots__ = ()


class WithTemplate(DelayedOperation, Template):
    def render(self):
        return "rendered"


class Unrendered(DelayedOperation, Template):
    """Still abstract."""


@dataclass(eq=False)
class Data(DelayedOperation):
    number: int = 1
    seen: list = field(default_factory=list)

    def __post_init__(self):
        super().__init__(5)


@dataclass(eq=False, slots=True)
class SlottedData(DelayedOperation):
    number: int = 1

    def __post_init__(self):
        DelayedOperation.__init__(self, 5)


@dataclass
class Equal(DelayedOperation):
    number: int = 1

    __hash__ = DelayedOperation.__hash__

    def __post_init__(self):
        super().__init__(5)


class Unshown:
    """No key: it has no hash, and cannot be shown either."""

    __hash__ = None

    def __repr__(self):
        raise ValueError("unshown")


class Once:
    """Has a hash, once."""

    hashed = False

    def __hash__(self):
        if self.hashed:
            raise ValueError("again")
        self.hashed = True
        return 1


class Forgetful(DelayedOperation):
    def __init__(self, timeout=None):
        self.forgot = timeout


class Counting(Purgatory):
    """Overrides verbs."""

    def __init__(self, **given):
        super().__init__("counting", **given)
        self.calls = []

    def try_complete_else_watch(self, operation, keys):
        self.calls.append(("watch", tuple(keys)))
        return super().try_complete_else_watch(operation, keys)

    def complete_for_key(self, key, result=None):
        self.calls.append(("complete", key))
        return super().complete_for_key(key, result)

    def check_and_complete(self, key, *, limit=None):
        self.calls.append(("check", key))
        return super().check_and_complete(key, limit=limit)

    def wait(self, *keys, until=None, timeout=None):
        self.calls.append(("wait", keys))
        return super().wait(*keys, until=until, timeout=timeout)


class OwnVerbs(DelayedOperation):
    """Overrides what ends it."""

    def force_complete(self, result=None):
        return super().force_complete((result, "own"))

    def cancel(self):
        self.result = "cancelled by its own verb"
        return super().cancel()

    def fail(self, exception):
        return super().fail(ValueError(f"instead of {exception}"))


KINDS = (
    *(DelayedOperation, WithPlain, WithSlotless, SlotlessFirst, WithCooperative, WithAlone, CooperativeLast),
    *(WithGeneric, WithTemplate, Unrendered, Data, SlottedData, Equal, Forgetful, OwnVerbs),
)


def new_purgatory(kind=Purgatory):
    return kind(timer=Timer(clock=ManualClock()))


def watched(purgatory, operation, *keys):
    purgatory.try_complete_else_watch(operation, keys or ["k"])
    return operation


def shape(answer):
    """An answer without what is another in each process."""
    if isinstance(answer, (str, int, float, tuple, list, dict, Outcome, type(None))):
        return answer
    return type(answer).__name__


def parameters_of(member):
    """What is called with which arguments; whether a method's ``self`` has a name is all the same."""
    parameters = [one for one in inspect.signature(member).parameters.values() if one.name != "self"]
    return [(one.name, one.kind.name, one.default) for one in parameters]


def bases_of(kind):
    """The names of a class and its bases."""
    return [each.__name__ for each in kind.__mro__ if each is not Generic]


# The sections; each yields what was asked and the answer.


def copies():
    """No object can be copied: two would share their places in wheel and lists."""
    purgatory = new_purgatory()
    ended = DelayedOperation()
    ended.cancel()
    timer = purgatory.timer
    queued = TimingWheel()
    queued.schedule(TimerEntry(9))
    objects = {
        "new operation": DelayedOperation(3),
        "operation with a dict": WithPlain(3),
        "pending operation": watched(purgatory, DelayedOperation(9)),
        "ended operation": ended,
        "purgatory": purgatory,
        "timer": timer,
        "handle": timer.call_later(3, int),
        "wheel": TimingWheel(),
        "wheel with an entry": queued,
        "hashed wheel": HashedWheel(4),
        "entry": TimerEntry(3, "payload"),
    }
    copiers = {"copy": copy.copy, "deepcopy": copy.deepcopy}
    copiers |= {
        f"pickle {n}": lambda it, n=n: pickle.dumps(it, n) for n in range(pickle.HIGHEST_PROTOCOL + 1)
    }
    for name, it in objects.items():
        for how, copier in copiers.items():
            yield f"{how} of {name}", shape(attempt(copier, it))
    wait = purgatory.wait("k")
    for how, copier in copiers.items():  # the message names a coroutine, or a wait
        yield f"{how} of a wait", str(attempt(copier, wait)).partition(":")[0]
    wait.close()
    purgatory.close()
    gc.collect()


def subclasses():
    """A user's subclasses, through a life."""
    for kind in KINDS:
        purgatory = new_purgatory()
        operation = attempt(kind)
        yield f"{kind.__name__}()", shape(operation)
        yield "its bases", bases_of(kind)
        if isinstance(operation, str):
            continue
        yield "its dict", attempt(vars, operation)
        yield "a new attribute", attempt(setattr, operation, "anything", 1)
        yield "its reference", shape(attempt(weakref.ref, operation))
        yield "watched", shape(attempt(purgatory.try_complete_else_watch, operation, ["a", "b"]))
        yield "shown", attempt(repr, operation)
        yield "a second", shape(attempt(lambda kind=kind, at=purgatory: watched(at, kind(), "a", "b")))
        yield "completed", attempt(purgatory.complete_for_key, "a", "result")
        yield "in the end", attempt(lambda it=operation: (it.outcome, it.result, it.keys, it.exception))
        yield "counts", (purgatory.pending, purgatory.watched, purgatory.keys)
        purgatory.check_invariants()
        purgatory.close()


def own_verbs():
    """Overridden verbs are called from inside too."""
    purgatory = new_purgatory(Counting)
    for end in (
        lambda: purgatory.complete_for_key("k", 7),
        lambda: purgatory.cancel_for_key("k"),
        lambda: purgatory.fail_for_key("k", KeyError("k")),
        lambda: purgatory.timer.clock.advance(10),
        purgatory.close,
    ):
        operation = watched(purgatory, OwnVerbs(9), "k", "l")
        yield "ended", shape(attempt(end))
        yield "as", (operation.outcome, operation.result, repr(operation.exception))
    yield "refused", attempt(purgatory.wait("k").send, None)
    yield "called", purgatory.calls


def attributes():
    """Reading, setting and deleting what is public."""
    for make in (
        lambda: DelayedOperation(3),
        lambda: watched(new_purgatory(), DelayedOperation(3)),
        new_purgatory,
        lambda: Timer(clock=ManualClock()),
        lambda: Timer(clock=ManualClock()).call_later(3, int),
        lambda: TimerEntry(3, "payload"),
        lambda: TimingWheel(8),
        lambda: HashedWheel(8),
    ):
        it = make()
        names = [name for name in dir(type(it)) if not name.startswith("_")]
        yield f"names of {type(it).__name__}", names
        for name in names:
            if callable(getattr(type(it), name, None)):
                yield f"set {name}", attempt(setattr, make(), name, 1)
                continue
            yield name, shape(attempt(getattr, it, name))
            if name in OF_A_C_TYPE:
                continue
            changed, bare = make(), make()
            yield f"set {name}", attempt(setattr, changed, name, 1)
            yield f"then {name}", shape(attempt(getattr, changed, name))
            yield f"delete {name}", attempt(delattr, bare, name)
        yield "absent", (attempt(getattr, it, "absent"), attempt(setattr, it, "absent", 1))


def classes():
    """The classes themselves."""
    for kind in CLASSES:
        yield kind.__name__, (kind.__module__, kind.__qualname__, type(kind).__name__, repr(kind))
        yield "bases", bases_of(kind)
        yield "parameters", attempt(lambda kind=kind: repr(kind[int])).partition(":")[0]
        yield "constructor", parameters_of(kind)
        yield "docstring", kind.__doc__
        yield "hints", sorted(attempt(get_type_hints, kind)) if kind is DelayedOperation else None
        for name in (name for name in dir(kind) if not name.startswith("_")):
            member = inspect.getattr_static(kind, name)
            yield f"doc of {name}", inspect.getdoc(getattr(kind, name))
            if callable(member):
                yield f"signature of {name}", parameters_of(member)
                yield f"kind of {name}", (inspect.iscoroutinefunction(member), inspect.isroutine(member))
                yield f"names of {name}", (member.__name__, member.__qualname__)
        for other in CLASSES:
            yield f"also a {other.__name__}", issubclass(kind, other)
    yield "of an instance", [isinstance(DelayedOperation(), kind) for kind in CLASSES]


def waits():
    """A wait is no operation before it is watched, and its coroutine stays none if that is refused."""
    purgatory, closed = new_purgatory(), new_purgatory()
    closed.close()
    fresh, dropped, refused = (place.wait("k") for place in (purgatory, purgatory, closed))
    failing = purgatory.wait("k", until=lambda: 1 / 0)
    dropped.close()
    for wait in (fresh, dropped, refused, failing):
        if wait in (refused, failing):
            yield "sent", attempt(wait.send, None)
        yield "as an operation", attempt(purgatory.try_complete_else_watch, wait, ["k"])
        yield "in run", attempt(purgatory.run(wait, ["k"]).send, None)
        yield "shown", repr(wait)
        wait.close()
    for keys in ((["key"],), (Unshown(),), (Once(), ["key"])):
        yield "no key", attempt(purgatory.wait(*keys).send, None)
    yield "counts", (purgatory.pending, purgatory.watched, purgatory.keys)


SECTIONS = (copies, subclasses, own_verbs, attributes, classes, waits)


def main():
    """Print every answer."""
    warnings.simplefilter("ignore")
    for section in SECTIONS:
        for asked, answer in section():
            sys.stdout.write(ADDRESS.sub("0x", f"{section.__name__}: {asked}: {answer!r}\n"))


if __name__ == "__main__":
    main()
