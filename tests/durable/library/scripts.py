"""Random scripts of verbs, and what a carrier gives for them: without its own ids, indexes and times."""

import asyncio
import dataclasses
import datetime as dt
import re
from typing import NamedTuple

from hypothesis import strategies as st

from purgatory_async.client import RequestRefused, SignalGap
from tests.durable.library.calls import cancelled, later

IDS = st.sampled_from(["o", "p", "q"])
KEYS = st.sampled_from(["o", "k", "m"])
QUEUES = st.sampled_from(["q", "r", "r.dead"])
JSON = st.sampled_from([None, 0, "v", [1.5, {"a": True}], "x " * 150])
TIMES = st.sampled_from([0, 1, 2.5, "3s", dt.timedelta(seconds=40), "1m"])
WRONG_TIMES = st.sampled_from([-1, "1 s", "1y", 1e10, True])
BY = st.sampled_from(["ann", "", "x" * 129])
CHOICES = st.sampled_from(["yes", "no", "maybe"])
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
PLACE = re.compile(r"[0-9a-f.]{16,}-(\d+)")
RANDOM = re.compile(r"(?<![\w-])[\w-]{22,}")
"""Ids that were drawn."""
NONE = {"lease": "none", "event": "0123456789abcdef-1.0"}
"""What stands for one that the script has not come by; 0 if nothing is said."""
PAST = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)


class Earlier(NamedTuple):
    """One of the leases, or of the indexes and places of signals, that the script has come by."""

    kind: str
    number: int


class Step(NamedTuple):
    """A call; ``background`` if the script goes on meanwhile."""

    verb: str
    arguments: tuple
    options: dict
    background: bool = False


def _times(**more):
    return {"timeout": st.one_of(TIMES, WRONG_TIMES), **more}


def _earlier(kind):
    return st.builds(Earlier, st.just(kind), st.integers(0, 3))


LEASES = _earlier("lease") | st.just("none")
SINCE = st.sampled_from([0, "0", "now", "-1", 2**62]) | _earlier("place") | _earlier("index")
ASK = st.sampled_from(
    [
        {"title": "Go?"},
        {"title": "Go?", "choices": ["yes", "no"], "comment": "optional"},
        {"title": "Go?", "choices": ["yes", "yes "]},
        {"title": " "},
    ]
)
NEED = st.sampled_from(["any", "all", {"amount": 3}, {"voters": 2}, {"amount": 0}, "some"])
ORDER = _times(
    need=NEED,
    data=JSON,
    since=SINCE,
    keep=TIMES,
    ask=ASK,
    announce=QUEUES,
    deliver=QUEUES,
    deadline=st.just(PAST),
)
SOME_KEYS = st.lists(KEYS | st.just("."), max_size=3) | st.none() | st.just("text")
ASKED = _times(
    choices=st.sampled_from([("yes", "no"), ("yes", "yes ")]),
    comment=st.sampled_from(["none", "required", "some"]),
    text=st.just("Why?"),
    keys=SOME_KEYS,
    keep=TIMES,
    data=JSON,
    announce=QUEUES,
    deliver=QUEUES,
    deadline=st.just(PAST),
)
SIGNALS = st.lists(
    st.fixed_dictionaries(
        {"key": KEYS | st.just("")},
        optional={"value": JSON, "amount": st.integers(0, 3), "voter": st.sampled_from(["a", "b"])},
    ),
    max_size=3,
)
ITEMS = st.lists(st.fixed_dictionaries({"item": JSON}, optional={"delay": TIMES | WRONG_TIMES}), max_size=3)
STATES = st.sampled_from(["pending", "ended", "all", "completed", "expired", "cancelled", "failed", "gone"])

CALLS = {
    "submit": ([SOME_KEYS], {"operation_id": IDS | st.just("a c"), **ORDER}),
    "attach": ([IDS, SOME_KEYS], ORDER),
    "complete": ([IDS], {"result": JSON, "by": BY}),
    "fail": ([IDS, JSON], {"by": BY}),
    "answer": ([IDS, CHOICES], {"comment": st.sampled_from(["", "c"]), "by": BY}),
    "cancel": ([IDS], {}),
    "reschedule": ([IDS], _times(deadline=st.just(PAST))),
    "forget": ([IDS], {}),
    "status": ([IDS], {"full": st.booleans()}),
    "operations": ([], {"key": KEYS | st.just(""), "state": STATES, "id_prefix": IDS}),
    "signal": ([KEYS, JSON], {"amount": st.integers(0, 3), "voter": st.sampled_from(["a", "b"])}),
    "signal_batch": ([SIGNALS], {}),
    "read": ([KEYS], {}),
    "put": ([QUEUES, JSON], {"delay": TIMES | WRONG_TIMES}),
    "put_batch": ([QUEUES, ITEMS], {}),
    "acknowledge": ([LEASES], {}),
    "give_back": ([LEASES], {"delay": TIMES | WRONG_TIMES}),
    "acknowledge_batch": ([st.lists(LEASES, max_size=3)], {}),
    "give_back_batch": ([st.lists(LEASES, max_size=3)], {}),
    "extend": ([LEASES], {"seconds": TIMES | WRONG_TIMES}),
    "leases": ([], {"queue": QUEUES}),
    "queues": ([], {"prefix": st.sampled_from(["", "r"])}),
    "queue": ([QUEUES], {}),
    "items": ([QUEUES], {"delayed": st.booleans()}),
    "set_queue": (
        [QUEUES],
        {
            "lease": TIMES | WRONG_TIMES,
            "max_attempts": st.sampled_from([1, 2, None, 0]),
            "max_items": st.sampled_from([3, None]),
            "max_bytes": st.sampled_from([600, None]),
        },
    ),
    "forget_queue": ([QUEUES], {}),
    "purge": ([QUEUES], {}),
    "redrive": ([QUEUES], {"most": st.integers(0, 2)}),
    "take": ([QUEUES], {"lease": TIMES | WRONG_TIMES, "timeout": st.sampled_from([0, 0, 5])}),
    "take_batch": ([QUEUES, st.integers(0, 3)], {"lease": TIMES, "timeout": st.sampled_from([0, 0, 5])}),
}
WAITS = {
    "follow": ([IDS], {"timeout": TIMES}),
    "watch": ([KEYS, st.just(0) | _earlier("index")], {"timeout": TIMES}),
    "wait": ([KEYS, KEYS], {"timeout": TIMES, "need": NEED, "data": JSON}),
    "ask": ([IDS, st.just("Go?")], ASKED),
    "take": ([QUEUES], {"lease": TIMES, "timeout": st.sampled_from([5, None])}),
    "signals": ([KEYS], {"prefixes": st.just(["m"]), "since": SINCE}),
    "events": ([], {"after": _earlier("event")}),
}
FOLLOWED = frozenset({"signals", "events"})
"""Without an end: they are read for a while."""


def _step(verb, arguments, options, *, background=False):
    optional = st.fixed_dictionaries({}, optional=options)
    return st.builds(Step, st.just(verb), st.tuples(*arguments), optional, st.just(background))


PAUSE = st.builds(Step, st.just("later"), st.tuples(st.sampled_from([0.5, 1, 4, 70])), st.just({}))
STEPS = st.one_of(
    *(_step(verb, *drawn) for verb, drawn in CALLS.items()),
    *(_step(verb, *drawn, background=True) for verb, drawn in WAITS.items()),
    PAUSE,
)
SCRIPTS = st.lists(STEPS, min_size=1, max_size=30)


async def _some(followed):
    """What comes within a minute."""
    found = []
    try:
        async with asyncio.timeout(60):
            async for each in followed:
                found.append(each)  # noqa: PERF401 - what came before the timeout counts
    except TimeoutError:
        pass
    except SignalGap as gap:
        found.append(str(gap))
    return found


class Player:
    """Plays a script on verbs, and notes what each step gives."""

    def __init__(self, verbs):
        self._verbs = verbs
        self._came = {"lease": [], "index": [], "place": [], "event": []}
        self._names = {}  # of what the carrier has drawn or counted itself
        self._zero = None  # the first time that it shows
        self._waiting = []

    async def play(self, step):
        """Make a step; return what it gives, or None for one that goes on in the background."""
        if step.verb == "later":
            return await later(*step.arguments)
        call = self._call(step)
        if step.background:
            self._waiting.append(asyncio.create_task(call))
            # Until it waits, and for longer than a log has between two ticks: what is due next has one of its own.
            return await later(0.01)
        return await call

    async def end(self):
        """Return what the calls in the background have given; those that wait for ever are cancelled."""
        await later(200)
        done = [each for each in self._waiting if each.done()]
        for each in self._waiting:
            if not each.done():
                await cancelled(each)
        return [None if each not in done else each.result() for each in self._waiting]

    async def _call(self, step):
        arguments = [self._resolved(each) for each in step.arguments]
        options = {name: self._resolved(value) for name, value in step.options.items()}
        try:
            found = getattr(self._verbs, step.verb)(*arguments, **options)
            if step.verb in FOLLOWED:
                found = await _some(found)
            else:
                found = [each async for each in found] if hasattr(found, "__aiter__") else await found
        except RequestRefused as refused:
            found = "refused", refused.status, refused.slug, refused.detail, refused.document
        except (TypeError, ValueError) as error:
            found = type(error).__name__, str(error)
        return self.shown(found)

    def _resolved(self, value):
        if isinstance(value, list):
            return [self._resolved(each) for each in value]
        if not isinstance(value, Earlier):
            return value
        came = self._came[value.kind]
        return came[value.number % len(came)] if came else NONE.get(value.kind, 0)

    def shown(self, found, name=""):
        """What is equal on all carriers of what a call gives."""
        if dataclasses.is_dataclass(found):
            members = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
            if "attempts" in members and "expires_in" in members:  # a lease, or one in the list
                self._come_by("lease", members.get("lease") or members["id"])
            if "place" in members:
                self._come_by("place", members["place"])
            if "kind" in members and members["id"]:
                self._come_by("event", members["id"])
            kind = type(found).__name__
            return kind, {each: self.shown(value, f"{kind}.{each}") for each, value in members.items()}
        if isinstance(found, dict):
            return {each: self.shown(value, f"{name}.{each}") for each, value in found.items()}
        if isinstance(found, list | tuple):
            return [self.shown(each, name) for each in found]
        if name.endswith((".index", "item_id", "QueuedItem.id")) and found:
            if name.endswith(".index"):
                self._come_by("index", found)
            return self._name(str(found))
        if isinstance(
            found, float
        ):  # their ticks are not in step: how long something waited is in half seconds
            return round(found * 2) if name.endswith(".elapsed") else round(found, 3)
        return self._text(found) if isinstance(found, str) else found

    def _come_by(self, kind, value):
        if value not in self._came[kind]:
            self._came[kind].append(value)
        if kind == "lease":
            self._name(value)

    def _name(self, own):
        return self._names.setdefault(own, f"#{len(self._names)}")

    def _text(self, text):
        if TIME.fullmatch(text) and (at := dt.datetime.fromisoformat(text)) > PAST:
            self._zero = self._zero or at
            return f"{(at - self._zero).total_seconds():.3f}"
        text = PLACE.sub(lambda found: f"place {self._name(found[1])}", text)
        return RANDOM.sub(lambda found: self._name(found[0]), text)
