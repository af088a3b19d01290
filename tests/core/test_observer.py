"""The observer receives every submission, signal and end, and does no harm."""

import asyncio
from dataclasses import FrozenInstanceError

import pytest

from purgatory_async import DelayedOperation, Outcome, Purgatory, Timer
from purgatory_async.events import KeySignalled, OperationEnded, OperationSubmitted
from purgatory_async.testing import settle
from tests.core.recording import Recorded, Switch, errors_of_loop, errors_without_loop

SECOND = 1_000_000_000


class Diary:
    """Keeps every event, and checks after each that the sums are right."""

    def __init__(self) -> None:
        self.events: list[object] = []
        self.purgatory: Purgatory | None = None

    def notify(self, event) -> None:
        self.events.append(event)
        if self.purgatory is not None:
            assert self.of(OperationSubmitted) == self.of(
                OperationEnded
            ) + self.purgatory.pending + self.open(event)

    def of(self, kind) -> int:
        return sum(isinstance(event, kind) for event in self.events)

    @staticmethod
    def open(event) -> int:
        """One that completes at once is submitted and has ended in one breath: it is never pending."""
        return int(isinstance(event, OperationSubmitted) and event.operation.outcome is not None)

    def summary(self) -> list[str]:
        return [
            f"{type(event).__name__} {getattr(event, 'outcome', getattr(event, 'key', ''))}".strip()
            for event in self.events
        ]


@pytest.fixture
def diary() -> Diary:
    return Diary()


@pytest.fixture
def observed(diary, manual_clock):
    """A purgatory whose observer is the diary."""
    diary.purgatory = Purgatory("observed", timer=Timer(clock=manual_clock), observer=diary)
    yield diary.purgatory
    diary.purgatory.close()


def test_submitted_is_ended_plus_pending_after_every_event(observed, diary, manual_clock):
    switch = Switch()
    for number in range(4):
        observed.try_complete_else_watch(Recorded([], timeout=5, holds=switch), ["k", number])
    next(observed.operations()).cancel()
    manual_clock.advance(1)
    observed.try_complete_else_watch(Recorded([], holds=lambda: True), ["k"])
    observed.fail_for_key(1, KeyError("k"))
    manual_clock.advance(4)
    observed.try_complete_else_watch(DelayedOperation(), ["k"])
    switch.on = True
    observed.close()
    assert (diary.of(OperationSubmitted), diary.of(OperationEnded), observed.pending) == (6, 6, 0)
    assert diary.summary() == [
        *["OperationSubmitted"] * 4,
        "OperationEnded cancelled",
        "OperationSubmitted",
        "OperationEnded completed",
        "OperationEnded failed",
        "KeySignalled 1",
        *["OperationEnded expired"] * 2,
        "OperationSubmitted",
        "OperationEnded closed",
    ]


def test_a_submission_reports_keys_and_integer_nanoseconds(observed, diary, manual_clock):
    manual_clock.advance(2)
    operation = DelayedOperation(1.5)
    observed.try_complete_else_watch(operation, ["b", "a", "b"])
    (event,) = diary.events
    assert (event.operation, event.keys) == (operation, ("b", "a"))
    assert (event.timeout_ns, event.at_ns) == (1_500_000_000, 2 * SECOND)
    assert all(type(number) is int for number in (event.timeout_ns, event.at_ns, event.operation_id))


def test_a_repeated_timeout_counts_from_each_submission(observed, diary, manual_clock):
    timeout = 1.5
    for _ in range(5):
        observed.try_complete_else_watch(DelayedOperation(timeout), ["a"])
        manual_clock.advance(0.0004)
    assert [event.at_ns for event in diary.events] == [0, 400_000, 800_000, 1_200_000, 1_600_000]


def test_an_end_tells_its_outcome_its_deadline_and_when_it_came(observed, diary, manual_clock):
    operation = DelayedOperation(1.5)
    observed.try_complete_else_watch(operation, ["a", "b"])
    manual_clock.advance(1)
    operation.force_complete()
    submitted, ended = diary.events
    assert (ended.operation, ended.keys, ended.outcome) == (operation, ("a", "b"), Outcome.COMPLETED)
    assert (ended.submitted_ns, ended.deadline_ns, ended.at_ns) == (0, 1_500_000_000, SECOND)
    assert ended.operation_id == submitted.operation_id


def test_without_a_timeout_there_is_no_deadline_to_tell(observed, diary):
    operation = DelayedOperation()
    observed.try_complete_else_watch(operation, ["a"])
    operation.cancel()
    submitted, ended = diary.events
    assert submitted.timeout_ns is None
    assert ended.deadline_ns is None


def test_ids_tell_operations_apart(observed, diary):
    for _ in range(3):
        observed.try_complete_else_watch(DelayedOperation(), ["a"])
    assert len({event.operation_id for event in diary.events}) == 3


SIGNALS = [
    pytest.param(lambda p: p.check_and_complete("k"), id="check_and_complete"),
    pytest.param(lambda p: p.complete_for_key("k"), id="complete_for_key"),
    pytest.param(lambda p: p.fail_for_key("k", KeyError()), id="fail_for_key"),
    pytest.param(lambda p: p.cancel_for_key("k"), id="cancel_for_key"),
]


@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize(
    "used", [pytest.param(True, id="after a watch"), pytest.param(False, id="never used")]
)
def test_a_signal_without_waiters_is_reported(signal, used, observed, diary, manual_clock):
    if used:
        observed.try_complete_else_watch(DelayedOperation(), ["other"])
    manual_clock.advance(3)
    signal(observed)
    assert diary.events[used:] == [KeySignalled(key="k", completed=0, at_ns=3 * SECOND)]


@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.asyncio
async def test_on_a_loop_a_signal_before_any_watch_is_reported(signal, diary):
    async with Purgatory(observer=diary) as purgatory:
        signal(purgatory)
        assert diary.summary() == ["KeySignalled k"]


@pytest.mark.parametrize("signal", SIGNALS[1:])
def test_a_signal_tells_how_many_it_ended(signal, observed, diary):
    for _ in range(2):
        observed.try_complete_else_watch(DelayedOperation(), ["k"])
    signal(observed)
    assert diary.events[-1].completed == 2


@pytest.mark.asyncio
async def test_a_wait_is_an_operation_too(observed, diary):
    task = asyncio.create_task(observed.wait("k"))
    await settle()
    assert await observed.wait("k", until=lambda: True)
    observed.complete_for_key("k")
    await task
    assert diary.summary() == [
        "OperationSubmitted",
        "OperationSubmitted",
        "OperationEnded completed",
        "OperationEnded completed",
        "KeySignalled k",
    ]


def test_a_refused_submission_is_not_reported(observed, diary):
    def fails() -> bool:
        raise KeyError

    with pytest.raises(KeyError):
        observed.try_complete_else_watch(Recorded([], holds=fails), ["k"])
    with pytest.raises(ValueError, match="at least one"):
        observed.try_complete_else_watch(DelayedOperation(), [])
    assert diary.events == []


@pytest.mark.parametrize(
    ("end", "checks", "signal"),
    [
        pytest.param(lambda p, _: p.check_and_complete("k"), 1, ["KeySignalled"], id="in a check"),
        pytest.param(lambda p, _: p.complete_for_key("k"), 0, ["KeySignalled"], id="through its key"),
        pytest.param(lambda _, op: op.force_complete(), 0, [], id="by itself"),
    ],
)
def test_an_end_and_its_signal_are_reported_before_the_hooks(end, checks, signal, manual_clock):
    log: list[str] = []

    class Logging:
        def notify(self, event) -> None:
            log.append(type(event).__name__)

    purgatory = Purgatory(timer=Timer(clock=manual_clock), observer=Logging())
    condition = Switch()
    operation = Recorded(log, holds=condition)
    purgatory.try_complete_else_watch(operation, ["k"])
    condition.on = True
    end(purgatory, operation)
    reported = ["OperationEnded", *signal, "op completed"]
    assert log == ["op checked", "OperationSubmitted", *["op checked"] * checks, *reported]


def test_a_watch_inside_a_hook_is_reported_after_the_signal(observed, diary):
    """Else a reader of the events would count the signal for an operation that was not there."""
    later = DelayedOperation()
    first = Recorded([], then=lambda: observed.try_complete_else_watch(later, ["k"]))
    observed.try_complete_else_watch(first, ["k"])
    observed.complete_for_key("k")
    assert diary.summary()[1:] == ["OperationEnded completed", "KeySignalled k", "OperationSubmitted"]


def test_an_end_tells_how_often_the_operation_was_asked(observed, diary):
    watched, immediate = DelayedOperation(), Recorded([], holds=lambda: True)
    observed.try_complete_else_watch(watched, ["k", "l"])
    observed.check_and_complete("k")
    observed.check_and_complete("l")
    watched.cancel()
    observed.try_complete_else_watch(immediate, ["k"])
    assert [event.checks for event in diary.events if isinstance(event, OperationEnded)] == [3, 1]


class RunningClock:
    """Reads a `ManualClock` and moves it by a microsecond on each reading."""

    needs_loop = False

    def __init__(self, clock) -> None:
        self.call_at_ns = clock.call_at_ns
        self.reads = 0

    def time_ns(self) -> int:
        self.reads += 1
        return 1000 * self.reads


def test_a_submission_reports_the_start_of_its_timeout(manual_clock, diary):
    """A tick may begin between the two, and then the deadline would look a tick longer than it was."""
    clock = RunningClock(manual_clock)
    purgatory = Purgatory(timer=Timer(clock=clock), observer=diary)
    before = clock.reads
    operation = DelayedOperation(1.0)
    purgatory.try_complete_else_watch(operation, ["k"])
    [submitted] = diary.events
    assert submitted.at_ns == 1000 * (before + 1), "the clock was read again, to tell"
    purgatory.close()


def test_events_are_frozen_values(observed, diary):
    observed.check_and_complete("k")
    with pytest.raises(FrozenInstanceError):
        diary.events[0].key = "other"
    assert diary.events[0] == KeySignalled(key="k", completed=0, at_ns=0)


class Raising:
    """Raises at every event."""

    def __init__(self, exception) -> None:
        self.exception = exception

    def notify(self, event) -> None:
        raise self.exception


@pytest.mark.parametrize(
    "error", [ValueError("mine"), asyncio.CancelledError("mine"), StopIteration("mine")], ids=repr
)
@pytest.mark.asyncio
async def test_a_raising_observer_goes_to_the_loop_handler_harmlessly(error):
    reported = errors_of_loop()
    log: list[str] = []
    async with Purgatory(observer=Raising(error)) as purgatory:
        operations = [Recorded(log, name) for name in "ab"]
        for operation in operations:
            purgatory.try_complete_else_watch(operation, ["k"])
        task = asyncio.create_task(purgatory.wait("k"))
        await settle()
        log.clear()
        assert purgatory.complete_for_key("k", "r") == 3
        assert await task == "r"
        purgatory.check_invariants()
    assert log == ["a completed", "b completed"]
    assert [context["exception"] for context in reported] == [error] * 7


def test_without_a_loop_a_raising_observer_goes_to_excepthook(manual_clock, monkeypatch):
    reported = errors_without_loop(monkeypatch)
    purgatory = Purgatory(timer=Timer(clock=manual_clock), observer=Raising(ValueError("mine")))
    operation = DelayedOperation()
    purgatory.try_complete_else_watch(operation, ["k"])
    assert purgatory.complete_for_key("k", "r") == 1
    assert operation.result == "r"
    assert [str(unraisable.exc_value) for unraisable in reported] == ["mine"] * 3


def test_what_is_no_observer_is_refused():
    with pytest.raises(TypeError, match="notify"):
        Purgatory(observer=print)


class Unbound:
    """An observer's class, and by mistake what is passed."""

    def notify(self, event) -> None: ...


class Whole:
    """A class that is an observer itself."""

    @staticmethod
    def notify(event) -> None: ...


def test_the_class_of_an_observer_is_refused_with_what_to_do():
    with pytest.raises(TypeError, match=r"got its class .*Unbound.*; call it to make one"):
        Purgatory(observer=Unbound)
    Purgatory(observer=Whole)
