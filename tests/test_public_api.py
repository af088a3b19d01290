"""The public contract, pinned: names, signatures, the error tree, the outcomes, and a docstring on each.

Code outside relies on what stands here. Adding a name below the top level is free; renaming or changing
one means editing this file.
"""

import dataclasses
import importlib
import inspect
import pydoc
import re
from enum import StrEnum
from types import ModuleType
from typing import get_type_hints

import pytest

import purgatory_async

TOP_LEVEL = {
    "DelayedOperation",
    "Observer",
    "OperationCancelled",
    "OperationExpired",
    "Outcome",
    "Purgatory",
    "PurgatoryClosed",
    "PurgatoryError",
    "PurgatoryFull",
    "PurgatoryPortal",
    "Timer",
    "TimerHandle",
}
SWITCHES = {"compiled"}  # values, not classes

SUBMODULES = {
    "clock": {"MAX_TIMEOUT", "Clock", "MonotonicClock", "check_timeout", "describe"},
    "cluster": {
        *("Appended", "Checkpoint", "Cluster", "Entry", "Head", "Log", "LogDamaged", "LogError", "LogGap"),
        *(
            "LogRefused",
            "LogUnavailable",
            "MemoryLog",
            "MemoryStore",
            "PostgresLog",
            "RedisLog",
            "Signalled",
            "SqliteLog",
        ),
    },
    "events": {"KeySignalled", "Observer", "Observers", "OperationEnded", "OperationSubmitted"},
    "kafka": {"Broker"},
    "kafka.testing": {"KafkaBroker", "Record", "Refusal"},
    "journal": {"Journal", "JournalError", "Sync", "WhenFull", "read_journal"},
    "otel": {"OtelObserver"},
    "patterns": {
        *("Barrier", "Correlator", "Generation", "HandOff", "Heartbeat", "Periodic", "Quorum", "Reply"),
        "QuorumImpossible",
        *("KeyedLock", "KeyedSemaphore", "Retrier", "Watermark"),
    },
    "timing": {"HashedWheel", "TimerEntry", "TimerQueue", "TimingWheel", "WheelLevel"},
    "web": {"aiohttp_poll", "asgi_poll", "starlette_poll"},
    "testing": {
        "ManualClock",
        "VirtualTimeLoop",
        "assert_clean",
        "cancel_sweep",
        "settle",
        "StreamPair",
        "stream_pair",
    },
}

# Of these, what is not in the standard library.
NEEDS_EXTRA = {
    "cluster": "asyncpg",
    "journal": "msgspec",
    "kafka": "kio",
    "kafka.testing": "kio",
    "otel": "opentelemetry",
}

# What one writes in a call: names, kinds and defaults. ``async`` where the call is awaited.
SIGNATURES = {
    "DelayedOperation": "(timeout=None)",
    "DelayedOperation.try_complete": "()",
    "DelayedOperation.on_complete": "()",
    "DelayedOperation.on_expiration": "()",
    "DelayedOperation.force_complete": "(result=None)",
    "DelayedOperation.fail": "(exception)",
    "DelayedOperation.cancel": "()",
    "DelayedOperation.reschedule": "(timeout)",
    "Observer.notify": "(event)",
    "Purgatory": "(name='purgatory', *, timer=None, max_pending=None, observer=None)",
    "Purgatory.try_complete_else_watch": "(operation, keys)",
    "Purgatory.check_and_complete": "(key, *, limit=None)",
    "Purgatory.complete_for_key": "(key, result=None)",
    "Purgatory.fail_for_key": "(key, exception)",
    "Purgatory.cancel_for_key": "(key)",
    "Purgatory.reschedule": "(operation, timeout)",
    "Purgatory.wait": "async (*keys, until=None, timeout=None)",
    "Purgatory.run": "async (operation, keys)",
    "Purgatory.operations": "(key=None, *, limit=None)",
    "Purgatory.watchers": "(keys=None)",
    "Purgatory.drain": "async (timeout=None)",
    "Purgatory.close": "()",
    "Purgatory.portal": "()",
    "PurgatoryPortal.check_and_complete": "(key)",
    "PurgatoryPortal.complete_for_key": "(key, result=None)",
    "PurgatoryPortal.fail_for_key": "(key, exception)",
    "PurgatoryPortal.cancel_for_key": "(key)",
    "PurgatoryPortal.call": "(fn, *args)",
    "Timer": "(*, tick=0.001, queue=None, clock=None, max_pending=None)",
    "Timer.call_later": "(delay, callback, *args)",
    "Timer.call_at": "(when, callback, *args)",
    "Timer.sleep": "async (delay)",
    "Timer.timeout": "(delay)",
    "Timer.time": "()",
    "Timer.close": "()",
    "TimerHandle.cancel": "()",
    "TimerHandle.reschedule": "(delay)",
    "clock.Clock.time_ns": "()",
    "clock.Clock.call_at_ns": "(when_ns, callback)",
    "clock.MonotonicClock": "()",
    "clock.MonotonicClock.call_at_ns": "(when_ns, callback)",
    "kafka.testing.KafkaBroker": "(*, clock=None, **settings)",
    "kafka.testing.KafkaBroker.create_topic": "(topic, *, partitions, configs=None)",
    "kafka.testing.KafkaBroker.expire_session": "(group, *member_ids)",
    "kafka.testing.KafkaBroker.fail_next": "(api, error, *, times=1)",
    "kafka.testing.KafkaBroker.hold": "(api)",
    "kafka.testing.KafkaBroker.next_request": "async (api, *, timeout=10.0)",
    "kafka.testing.KafkaBroker.pause": "(topic, partition=None)",
    "kafka.testing.KafkaBroker.produce": (
        "async (topic, *values, key=None, partition=0, headers=(), timestamp_ms=None)"
    ),
    "kafka.testing.KafkaBroker.records": "(topic, partition=None)",
    "kafka.testing.KafkaBroker.release": "(api)",
    "kafka.testing.KafkaBroker.resume": "(topic, partition=None)",
    "cluster.Cluster": "(purgatory, log, *, apply=None, on_gap=None)",
    "cluster.Cluster.signal": "async (key, value=None, *, amount=1, voter=None, timeout=5.0)",
    "cluster.Cluster.caught_up": "async (position=None, timeout=None)",
    "cluster.MemoryLog": "()",
    "cluster.PostgresLog": "(dsn, *, name='purgatory', sync='always')",
    "cluster.RedisLog": "(url, *, name='purgatory')",
    "cluster.SqliteLog": "(path, *, sync='always')",
    **{
        f"cluster.{log}.{method}": signature
        for log in ("Log", "MemoryLog", "PostgresLog", "RedisLog", "SqliteLog")
        for method, signature in {
            "open": "async ()",
            "append": "async (entries)",
            "follow": "(after)",
            "end": "async ()",
            "save": "async (position, parts, keep)",
            "load": "async ()",
            "aclose": "async ()",
        }.items()
    },
    "journal.Journal": (
        "(directory, *, timer, sync=<Sync.GROUP: 'group'>, when_full=<WhenFull.DROP: 'drop'>, max_buffered=200000,"
        " segment_bytes=67108864, keep=None, keep_bytes=None, node=None, weigh=None, on_trouble=None)"
    ),
    "journal.Journal.notify": "(event)",
    "journal.Journal.gauge": "(purgatory)",
    "journal.Journal.commit": "async ()",
    "journal.Journal.flush": "async ()",
    "journal.Journal.close": "()",
    "journal.read_journal": "(directory)",
    "patterns.Quorum": "(need, *, of=None, timeout=None)",
    "patterns.Quorum.vote": "(voter)",
    "patterns.Quorum.against": "(voter)",
    "patterns.Watermark": "(initial=0, *, timer=None)",
    "patterns.Watermark.reach": "async (value, timeout=None)",
    "patterns.Watermark.advance": "(value)",
    "patterns.Watermark.fail_all": "(exception)",
    "patterns.Barrier": "(purgatory, key, *, expect, timeout, initial_delay=0, on_release=None)",
    "patterns.Barrier.arrive": "async (member)",
    "patterns.Barrier.reset": "()",
    "patterns.Barrier.abort": "(exception)",
    "patterns.Generation": "(number, members, complete, missing=None)",
    "patterns.Correlator": "(purgatory, *, ids=range(1, 2147483648))",
    "patterns.Correlator.expect": "(request_id, timeout)",
    "patterns.Correlator.request": "async (send, *, timeout)",
    "patterns.Correlator.resolve": "(request_id, value)",
    "patterns.Correlator.reject": "(request_id, exception)",
    "patterns.Correlator.fail_all": "(exception)",
    "patterns.Correlator.close": "(exception)",
    "patterns.Reply.cancel": "()",
    "patterns.Reply.reschedule": "(timeout)",
    "patterns.HandOff": "(purgatory, *, max_items=None)",
    "patterns.HandOff.put": "(key, item)",
    "patterns.HandOff.put_wait": "async (key, item, *, timeout=None)",
    "patterns.HandOff.put_back": "(key, item)",
    "patterns.HandOff.take": "async (*keys, timeout=None)",
    "patterns.HandOff.take_nowait": "(*keys)",
    "patterns.HandOff.items": "(*keys)",
    "patterns.HandOff.task_done": "(key)",
    "patterns.HandOff.join": "async (*keys, timeout=None)",
    "patterns.HandOff.clear": "()",
    "patterns.HandOff.shutdown": "(immediate=False)",
    "patterns.KeyedLock": "(purgatory)",
    "patterns.KeyedSemaphore": "(purgatory, permits)",
    **{
        f"patterns.{keyed}.{method}": signature
        for keyed in ("KeyedLock", "KeyedSemaphore")
        for method, signature in {
            "hold": "(key, *, timeout=None)",
            "acquire": "async (key, *, timeout=None)",
            "release": "(key)",
            "locked": "(key)",
            "waiting": "(key)",
        }.items()
    },
    "patterns.Retrier": (
        "(timer, *, delay=5.0, attempts=3, backoff=1.0, jitter=0.0, max_pending=100, first_delay=0.0, total=None, "
        "on_failure=None, on_give_up=None)"
    ),
    "patterns.Retrier.run": "async (key, attempt)",
    "patterns.Retrier.submit": "(key, attempt)",
    "patterns.Retrier.cancel": "(key)",
    "patterns.Retrier.aclose": "async ()",
    "patterns.Heartbeat": "(timer, *, interval=60.0, idle_timeout=None, send, on_dead)",
    "patterns.Heartbeat.dead": "async (*, timeout=None)",
    "patterns.Heartbeat.saw_read": "()",
    "patterns.Heartbeat.saw_write": "()",
    "patterns.Periodic": "(timer, period, work, *, mode='fixed_delay', missed='skip')",
    "timing.TimerEntry": "(deadline_tick, payload=None)",
    "timing.TimingWheel": "(wheel_size=256, start_tick=0)",
    "timing.TimingWheel.levels": "()",
    "timing.TimingWheel.buckets": "()",
    "timing.HashedWheel": "(wheel_size=512, start_tick=0)",
    **{
        f"timing.{queue}.{method}": signature
        for queue in ("TimerQueue", "TimingWheel", "HashedWheel")
        for method, signature in {
            "schedule": "(entry)",
            "cancel": "(entry)",
            "advance": "(now_tick, limit=None)",
            "check_invariants": "()",
            "__len__": "()",
        }.items()
    },
    "testing.ManualClock": "(start=0.0)",
    "testing.ManualClock.time": "()",
    "testing.ManualClock.advance": "(seconds)",
    "testing.ManualClock.advance_to_next": "()",
    "testing.VirtualTimeLoop.time": "()",
    "testing.settle": "async ()",
    "testing.assert_clean": "(purgatory)",
    "testing.cancel_sweep": "async (scenario)",
}

# Readable attributes; the class must declare each as a property, a slot or an annotation.
READABLE = {
    "DelayedOperation": ("outcome", "result", "exception", "timeout", "keys"),
    "Purgatory": ("pending", "watched", "keys", "closed", "name", "timer", "checking"),
    "Timer": ("pending", "next_deadline", "closed", "queue", "tick", "clock"),
    "TimerHandle": ("when", "fired", "cancelled"),
    "cluster.Cluster": ("position", "epoch", "connected", "lag"),
    "journal.Journal": ("accepting", "buffered", "dropped", "trouble", "usage"),
    "patterns.Quorum": ("votes", "missing"),
    "patterns.Watermark": ("waiting", "value", "timer"),
    "patterns.Correlator": ("late", "unknown"),
    "patterns.HandOff": ("returned", "timer"),
    "patterns.Barrier": (
        "expect",
        "timeout",
        "initial_delay",
        "present",
        "n_waiting",
        "broken",
        "on_release",
    ),
    "patterns.Generation": ("number", "members", "complete", "missing"),
    "timing.TimerEntry": ("deadline_tick", "payload", "scheduled"),
    "timing.TimerQueue": ("next_tick", "now_tick"),
    "timing.TimingWheel": ("next_tick", "now_tick", "wheel_size"),
    "timing.WheelLevel": ("ticks_per_bucket", "buckets"),
    "timing.HashedWheel": ("next_tick", "now_tick"),
}

ERROR_TREE = {
    "PurgatoryError": (Exception,),
    "OperationExpired": ("PurgatoryError", TimeoutError),
    "OperationCancelled": ("PurgatoryError",),
    "PurgatoryClosed": ("PurgatoryError",),
    "PurgatoryFull": ("PurgatoryError",),
}

OUTCOMES = {
    "COMPLETED": "completed",
    "EXPIRED": "expired",
    "CANCELLED": "cancelled",
    "FAILED": "failed",
    "CLOSED": "closed",
}

EVERY_NAME = sorted(
    TOP_LEVEL | {f"{module}.{name}" for module, names in SUBMODULES.items() for name in names}
)


def submodule(name: str) -> ModuleType:
    """A public module; the test is skipped where what it needs is not installed."""
    if name in NEEDS_EXTRA:
        pytest.importorskip(NEEDS_EXTRA[name])
    return importlib.import_module(f"purgatory_async.{name}")


def public(path: str) -> object:
    """The object behind ``Purgatory.wait`` or ``timing.TimingWheel.advance``."""
    module = max((name for name in SUBMODULES if path.startswith(f"{name}.")), key=len, default="")
    found: object = submodule(module) if module else purgatory_async
    for name in path.removeprefix(f"{module}." if module else "").split("."):
        found = inspect.getattr_static(found, name) if inspect.isclass(found) else getattr(found, name)
    return found


def as_called(path: str, pinned: str) -> str:
    """The signature of a public callable without ``self``, annotations and optional additions."""
    found = public(path)
    function = found.__func__ if isinstance(found, staticmethod | classmethod) else found
    assert callable(function), path
    is_method = not inspect.isclass(found) and path.rpartition(".")[0] not in SUBMODULES
    parameters = list(inspect.signature(function).parameters.values())[1 if is_method else 0 :]
    known = set(re.findall(r"\w+", pinned))
    kept = [
        # "/" may come and go: no caller gives these by name.
        parameter.replace(
            annotation=parameter.empty,
            kind=parameter.POSITIONAL_OR_KEYWORD
            if parameter.kind is parameter.POSITIONAL_ONLY
            else parameter.kind,
        )
        for parameter in parameters
        if parameter.name in known or (parameter.default is parameter.empty and not is_variadic(parameter))
    ]
    rendered = str(inspect.Signature(kept))
    return f"async {rendered}" if inspect.iscoroutinefunction(function) else rendered


def is_variadic(parameter: inspect.Parameter) -> bool:
    return parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}


def test_the_top_level_has_exactly_its_thirteen_names() -> None:
    assert sorted(purgatory_async.__all__) == sorted(TOP_LEVEL | SWITCHES)
    assert isinstance(purgatory_async.compiled, bool)
    for name in TOP_LEVEL:
        assert getattr(purgatory_async, name).__name__ == name


@pytest.mark.parametrize(("module", "names"), SUBMODULES.items(), ids=SUBMODULES)
def test_a_public_submodule_has_its_names(module: str, names: set[str]) -> None:
    found = submodule(module)
    assert names <= set(found.__all__)
    for name in found.__all__:
        assert hasattr(found, name)


@pytest.mark.parametrize(("path", "signature"), SIGNATURES.items(), ids=SIGNATURES)
def test_a_public_callable_is_called_as_the_contract_says(path: str, signature: str) -> None:
    assert as_called(path, signature) == signature


@pytest.mark.parametrize(("path", "names"), READABLE.items(), ids=READABLE)
def test_documented_attributes_are_declared_on_the_class(path: str, names: tuple[str, ...]) -> None:
    found = public(path)
    assert isinstance(found, type)
    declared = set(dir(found)).union(*(vars(base).get("__annotations__", ()) for base in found.__mro__))
    assert set(names) <= declared


def test_purgatory_is_a_context_manager_and_operation_awaitable() -> None:
    assert hasattr(purgatory_async.Purgatory, "__aenter__")
    assert hasattr(purgatory_async.Purgatory, "__aexit__")
    assert hasattr(purgatory_async.DelayedOperation, "__await__")


@pytest.mark.parametrize(("name", "bases"), ERROR_TREE.items(), ids=ERROR_TREE)
def test_an_error_stands_at_its_place_in_the_tree(name: str, bases: tuple[str | type, ...]) -> None:
    expected = tuple(getattr(purgatory_async, base) if isinstance(base, str) else base for base in bases)
    assert getattr(purgatory_async, name).__bases__ == expected


@pytest.mark.parametrize("path", EVERY_NAME)
def test_every_object_but_a_value_can_be_referenced_weakly(path: str) -> None:
    kind = public(path)
    if not inspect.isclass(kind) or dataclasses.is_dataclass(kind) or issubclass(kind, tuple | StrEnum):
        pytest.skip("a function or a value")
    assert kind.__weakrefoffset__


def test_an_outcome_is_its_word() -> None:
    assert issubclass(purgatory_async.Outcome, StrEnum)
    assert {outcome.name: outcome.value for outcome in purgatory_async.Outcome} == OUTCOMES


def test_the_monotonic_clock_returns_integer_nanoseconds() -> None:
    clock = importlib.import_module("purgatory_async.clock")
    assert isinstance(clock.MonotonicClock(), clock.Clock)
    assert type(clock.MonotonicClock().time_ns()) is int


@pytest.mark.parametrize("event", ["OperationSubmitted", "KeySignalled", "OperationEnded"])
def test_an_event_is_a_frozen_slotted_value(event: str) -> None:
    found = public(f"events.{event}")
    assert isinstance(found, type)
    assert found.__dataclass_params__.frozen
    assert "__slots__" in vars(found)
    assert get_type_hints(found)


@pytest.mark.parametrize("path", EVERY_NAME)
def test_a_public_name_says_what_it_is_for(path: str) -> None:
    docstring = inspect.getdoc(public(path)) or ""
    assert len(docstring.split()) >= 4, docstring


@pytest.mark.parametrize("path", [path for path in SIGNATURES if "." in path.removeprefix("timing.")])
def test_a_public_method_says_what_it_does(path: str) -> None:
    found = public(path)
    if path.endswith("__len__"):
        return
    docstring = inspect.getdoc(found.__func__ if isinstance(found, staticmethod) else found) or ""
    assert len(docstring.split()) >= 4, docstring


@pytest.mark.parametrize("path", EVERY_NAME)
def test_help_shows_a_public_name_with_its_docstring(path: str) -> None:
    found = public(path)
    text = pydoc.render_doc(found, renderer=pydoc.plaintext)
    assert (inspect.getdoc(found) or "?").splitlines()[0] in text
