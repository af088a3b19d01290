"""Callbacks that raise, re-enter, act on the purgatory they are called by, or are no plain functions."""

import asyncio
import sys

import pytest

from purgatory_async import DelayedOperation, Outcome, Purgatory, PurgatoryClosed, Timer
from purgatory_async.testing import ManualClock, assert_clean, settle
from tests.core.recording import Recorded, Switch, errors_of_loop
from tests.loop.stepped_clock import SteppedClock

MANY = 100
ERRORS = [ValueError, asyncio.CancelledError, GeneratorExit, StopIteration]


def watch(purgatory, *operations, keys=("k",)):
    for operation in operations:
        purgatory.try_complete_else_watch(operation, keys)


# B1


def raises_when(switch, error):
    def condition() -> bool:
        if switch():
            raise error
        return False

    return condition


@pytest.mark.parametrize("position", [0, 50, 99])
def test_of_100_the_one_whose_check_raises_fails_and_99_complete(position, purgatory):
    """The fault list lets it stay pending and expire; the contract ends it as FAILED, and the contract wins."""
    switch, error = Switch(), KeyError("the condition")
    operations = [
        Recorded([], timeout=60, holds=raises_when(switch, error) if number == position else switch)
        for number in range(MANY)
    ]
    watch(purgatory, *operations)
    switch.on = True
    assert purgatory.check_and_complete("k") == MANY - 1
    bad = operations.pop(position)
    assert (bad.outcome, bad.exception) == (Outcome.FAILED, error)
    assert {operation.outcome for operation in operations} == {Outcome.COMPLETED}


def test_a_check_that_raises_in_watch_reaches_the_submitter(purgatory):
    switch = Switch()
    switch.on = True
    with pytest.raises(KeyError):
        watch(purgatory, Recorded([], holds=raises_when(switch, KeyError("the condition"))))
    assert_clean(purgatory)


# B2 and B4


class Troubled(Recorded):
    """Raises in both hooks."""

    def __init__(self, log, error, **options) -> None:
        super().__init__(log, **options)
        self.error = error

    def on_complete(self) -> None:
        super().on_complete()
        raise self.error("on_complete")

    def on_expiration(self) -> None:
        super().on_expiration()
        raise self.error("on_expiration")


@pytest.mark.asyncio
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("outcome", [Outcome.COMPLETED, Outcome.EXPIRED])
async def test_hooks_that_raise_stop_no_outcome_and_no_other_hook(outcome, error, purgatory, manual_clock):
    async def wait(operation) -> Outcome:
        return await operation

    reported = errors_of_loop()
    log: list[str] = []
    operations = [
        Troubled(log, error, timeout=1) if number % 2 else Recorded(log, timeout=1) for number in range(MANY)
    ]
    watch(purgatory, *operations)
    tasks = [asyncio.create_task(wait(operation)) for operation in operations]
    await settle()
    log.clear()
    if outcome is Outcome.COMPLETED:
        assert purgatory.complete_for_key("k") == MANY
    else:
        manual_clock.advance(1)
    assert await asyncio.gather(*tasks) == [outcome] * MANY
    hooks = ["op completed"] if outcome is Outcome.COMPLETED else ["op completed", "op expired"]
    assert log == hooks * MANY
    assert [type(context["exception"]) for context in reported] == [error] * (len(hooks) * MANY // 2)


# B3


@pytest.fixture(params=["asyncio", "uvloop"])
def loop(request):
    """A loop that the test runs itself, for what leaves `run_forever`."""
    new = pytest.importorskip(request.param).new_event_loop()
    yield new
    new.close()


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_after_an_interrupt_the_rest_is_served_once(interrupt, loop):
    clock, log = SteppedClock(), []

    def interrupts() -> None:
        raise interrupt

    async def begin() -> Purgatory:
        purgatory = Purgatory(timer=Timer(clock=clock))
        for name in "abcd":
            then = interrupts if name == "b" else None
            watch(purgatory, Recorded(log, name, timeout=1, then=then))
        log.clear()
        return purgatory

    purgatory = loop.run_until_complete(begin())
    clock.move(1)
    loop.call_soon(clock.ring)
    with pytest.raises(interrupt):
        loop.run_forever()
    loop.run_until_complete(settle())
    assert log == [f"{name} {hook}" for name in "abcd" for hook in ("completed", "expired")]
    assert_clean(purgatory)


# B5


def test_a_hook_may_signal_any_key_and_its_own_operation(purgatory):
    log: list[str] = []
    switch = Switch()
    counts = []

    def again() -> None:
        counts.append(purgatory.check_and_complete("k"))
        counts.append(purgatory.complete_for_key("other"))
        counts.append(first.force_complete())

    first = Recorded(log, "first", holds=switch, then=again)
    watch(purgatory, first, Recorded(log, "second", holds=switch))
    watch(purgatory, Recorded(log, "other"), keys=["other"])
    switch.on = True
    log.clear()
    assert purgatory.check_and_complete("k") == 2
    assert counts == [0, 1, False]
    assert log == [
        "first checked",
        "second checked",
        "first completed",
        "second completed",
        "other completed",
    ]


def test_operations_watched_by_hooks_are_checked_in_a_later_walk(purgatory):
    switch = Switch()
    made = []

    def renew() -> None:
        switch.on = False
        fresh = Recorded([], holds=switch, then=renew)
        made.append(fresh)
        watch(purgatory, fresh)
        switch.on = True

    renew()
    assert [purgatory.check_and_complete("k") for _ in range(5)] == [1] * 5
    assert purgatory.complete_for_key("k") == 1
    assert [operation.outcome for operation in made] == [Outcome.COMPLETED] * 6 + [None]
    purgatory.close()


# B6


@pytest.mark.slow
def test_a_chain_of_100_000_checks_is_as_deep_as_one(purgatory):
    depths = set()

    class Link(DelayedOperation[None]):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

        def try_complete(self) -> bool:
            return self.number <= len(done) and self.force_complete()

        def on_complete(self) -> None:
            done.append(self.number)
            depths.add(depth())
            purgatory.check_and_complete(self.number + 1)

    def depth() -> int:
        frame, deep = sys._getframe(), 0
        while frame is not None:
            frame, deep = frame.f_back, deep + 1
        return deep

    done: list[int] = []
    for number in range(1, 100_000):
        watch(purgatory, Link(number), keys=[number])
    done.append(0)
    assert purgatory.check_and_complete(1) == 1
    assert len(done) == 100_000
    assert len(depths) == 1


# B7


@pytest.mark.asyncio
async def test_a_hook_may_cancel_its_own_waiter(purgatory):
    async def wait() -> Outcome:
        return await operation

    operation = Recorded([], then=lambda: task and task.cancel())
    watch(purgatory, operation)
    task = asyncio.create_task(wait())
    await settle()
    assert purgatory.complete_for_key("k", "result") == 1
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (operation.outcome, operation.result) == (Outcome.COMPLETED, "result")


@pytest.mark.asyncio
async def test_a_hook_may_close_the_purgatory_under_those_that_wait():
    async with Purgatory(timer=Timer(clock=ManualClock())) as purgatory:
        watch(purgatory, Recorded([], then=purgatory.close))
        task = asyncio.create_task(purgatory.wait("other"))
        await settle()
        assert purgatory.complete_for_key("k") == 1
        with pytest.raises(PurgatoryClosed):
            await task
        assert_clean(purgatory)


# B8


@pytest.mark.asyncio
async def test_a_walk_continues_when_the_error_handler_raises(purgatory, caplog):
    def handler(loop, context) -> None:
        raise RuntimeError("the handler")

    asyncio.get_running_loop().set_exception_handler(handler)
    log: list[str] = []
    operations = [Troubled(log, ValueError) for _ in range(1_000)]
    watch(purgatory, *operations)
    log.clear()
    with caplog.at_level("CRITICAL", logger="asyncio"):
        assert purgatory.complete_for_key("k") == 1_000
    assert log == ["op completed"] * 1_000
    assert_clean(purgatory)


# B9


def test_a_coroutine_hook_is_refused_when_its_class_is_made():
    with pytest.raises(TypeError, match=r"Async.on_complete.*plain function"):

        class Async(DelayedOperation[None]):
            async def on_complete(self) -> None: ...


@pytest.mark.asyncio
async def test_an_until_that_is_a_coroutine_function_is_refused(purgatory):
    async def until() -> bool:
        return True

    with pytest.raises(TypeError, match="plain function"):
        await purgatory.wait("k", until=until)
    assert_clean(purgatory)


# B10


class Treacherous:
    """A key whose hash or equality fails once, after the given number of lookups."""

    failing: str | None = None
    questions_left = 0

    @classmethod
    def ask(cls, question: str) -> None:
        if cls.failing == question:
            cls.questions_left -= 1
            if cls.questions_left < 0:
                cls.failing = None
                raise ArithmeticError(f"no {question}")

    def __hash__(self) -> int:
        self.ask("hash")
        return 7

    def __eq__(self, other: object) -> bool:
        self.ask("equality")
        return self is other


@pytest.fixture
def treacherous():
    yield Treacherous
    Treacherous.failing = None


@pytest.mark.parametrize("failing", ["hash", "equality"])
@pytest.mark.parametrize("questions", range(8))
def test_a_key_that_fails_late_raises_and_registers_nothing(failing, questions, treacherous, purgatory):
    watch(purgatory, DelayedOperation(), keys=["a", treacherous(), "b"])
    before = (purgatory.pending, purgatory.watched, purgatory.keys, purgatory.timer.pending)
    operation = DelayedOperation(60)
    keys = ["a", treacherous(), "new", treacherous()]
    treacherous.failing, treacherous.questions_left = failing, questions
    try:
        watch(purgatory, operation, keys=keys)
    except ArithmeticError:
        assert (operation.outcome, operation.keys) == (None, ())
    else:
        treacherous.failing = None
        operation.cancel()
    purgatory.check_invariants()
    assert (purgatory.pending, purgatory.watched, purgatory.keys, purgatory.timer.pending) == before
    watch(purgatory, DelayedOperation(), keys=["a"])
    assert len(purgatory.close()) == 2
