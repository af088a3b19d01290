"""The delayed operation: it waits, and ends exactly once."""

import asyncio
import weakref
from math import inf, nan

import pytest

from purgatory_async import DelayedOperation, Outcome, Purgatory, PurgatoryError
from purgatory_async.testing import settle
from tests.core.recording import Recorded

HUNDRED_YEARS = 3_155_760_000

ENDS = [
    pytest.param(
        lambda p, operation, clock: operation.force_complete("all"), Outcome.COMPLETED, id="completed"
    ),
    pytest.param(lambda p, operation, clock: clock.advance(10), Outcome.EXPIRED, id="expired"),
    pytest.param(lambda p, operation, clock: operation.cancel(), Outcome.CANCELLED, id="cancelled"),
    pytest.param(lambda p, operation, clock: operation.fail(KeyError("k")), Outcome.FAILED, id="failed"),
    pytest.param(lambda p, operation, clock: p.close(), Outcome.CLOSED, id="closed"),
]


def test_the_outcomes_are_five_strings():
    assert [str(outcome) for outcome in Outcome] == ["completed", "expired", "cancelled", "failed", "closed"]


# The timeout.


@pytest.mark.parametrize(
    "timeout",
    [
        pytest.param(None, id="none"),
        pytest.param(inf, id="inf"),
        pytest.param(0, id="zero"),
        pytest.param(-3.5, id="negative"),
        pytest.param(2, id="an integer"),
        pytest.param(HUNDRED_YEARS, id="100 years"),
    ],
)
def test_a_timeout_is_kept_as_it_was_given(timeout):
    assert DelayedOperation(timeout).timeout == timeout


@pytest.mark.parametrize(
    ("timeout", "shown"),
    [
        pytest.param(nan, "nan", id="nan"),
        pytest.param(-inf, "-inf", id="minus inf"),
        pytest.param(HUNDRED_YEARS + 1, "3155760001", id="above 100 years"),
        pytest.param(10**5000, "16610", id="an integer too long to print, by its bits"),
    ],
)
def test_an_impossible_timeout_is_refused_with_value_and_bound(timeout, shown):
    with pytest.raises(ValueError, match=r"100 years|3155760000") as refusal:
        DelayedOperation(timeout)
    assert shown in str(refusal.value).replace("_", "").replace(" ", "")


@pytest.mark.parametrize(
    "timeout",
    [pytest.param(True, id="bool"), pytest.param("5", id="str"), pytest.param([1], id="list")],
)
def test_a_timeout_that_is_no_number_is_refused_with_its_type(timeout):
    with pytest.raises(TypeError, match=type(timeout).__name__):
        DelayedOperation(timeout)


@pytest.mark.parametrize("timeout", [pytest.param(None, id="none"), pytest.param(inf, id="inf")])
def test_without_a_timeout_there_is_no_deadline(timeout, purgatory, manual_clock):
    operation = DelayedOperation(timeout)
    purgatory.try_complete_else_watch(operation, ["k"])
    manual_clock.advance(HUNDRED_YEARS)
    assert operation.outcome is None
    operation.cancel()


@pytest.mark.parametrize("timeout", [pytest.param(0, id="zero"), pytest.param(-1.0, id="negative")])
def test_a_timeout_of_zero_or_less_expires_on_the_next_advance(timeout, purgatory, manual_clock):
    operation = DelayedOperation(timeout)
    assert not purgatory.try_complete_else_watch(operation, ["k"])
    assert operation.outcome is None
    manual_clock.advance(0)
    assert operation.outcome is Outcome.EXPIRED


@pytest.mark.asyncio
async def test_a_timeout_of_zero_expires_on_the_next_loop_turn():
    async with Purgatory() as purgatory:
        operation = DelayedOperation(0)
        purgatory.try_complete_else_watch(operation, ["k"])
        assert operation.outcome is None
        await asyncio.sleep(0)
        assert operation.outcome is Outcome.EXPIRED


def test_a_condition_that_holds_wins_over_a_zero_timeout(purgatory, manual_clock):
    log: list[str] = []
    operation = Recorded(log, timeout=0, holds=lambda: True)
    assert purgatory.try_complete_else_watch(operation, ["k"])
    manual_clock.advance(0)
    assert operation.outcome is Outcome.COMPLETED
    assert "op expired" not in log


def test_it_expires_at_its_deadline_rounded_up_to_a_tick(purgatory, manual_clock):
    operation = DelayedOperation(1.0004)
    purgatory.try_complete_else_watch(operation, ["k"])
    manual_clock.advance(1.0004)
    assert operation.outcome is None
    manual_clock.advance(0.0006)
    assert operation.outcome is Outcome.EXPIRED


def test_the_timeout_starts_when_the_operation_is_watched(purgatory, manual_clock):
    operation = DelayedOperation(5)
    manual_clock.advance(100)
    purgatory.try_complete_else_watch(operation, ["k"])
    manual_clock.advance(4.999)
    assert operation.outcome is None
    manual_clock.advance(0.001)
    assert operation.outcome is Outcome.EXPIRED


# Ending.


def test_unless_overridden_nothing_completes_it_but_a_verb(purgatory):
    operation = DelayedOperation()
    assert operation.try_complete() is False
    assert not purgatory.try_complete_else_watch(operation, ["k"])
    assert purgatory.check_and_complete("k") == 0
    operation.cancel()


def test_force_complete_is_true_for_exactly_one_caller(purgatory):
    operation = DelayedOperation()
    purgatory.try_complete_else_watch(operation, ["k"])
    assert [operation.force_complete("first"), operation.force_complete("second")] == [True, False]
    assert operation.result == "first"


@pytest.mark.parametrize(("end", "outcome"), ENDS)
def test_what_has_ended_cannot_end_again(end, outcome, purgatory, manual_clock):
    operation = DelayedOperation(10)
    purgatory.try_complete_else_watch(operation, ["k"])
    end(purgatory, operation, manual_clock)
    ended = (operation.outcome, operation.result, operation.exception)
    assert not operation.force_complete("late")
    assert not operation.fail(ValueError("late"))
    assert not operation.cancel()
    manual_clock.advance(20)
    assert purgatory.close() == []
    assert (operation.outcome, operation.result, operation.exception) == ended
    assert operation.outcome is outcome


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        pytest.param(lambda operation: operation.force_complete(), Outcome.COMPLETED, id="completed"),
        pytest.param(lambda operation: operation.cancel(), Outcome.CANCELLED, id="cancelled"),
        pytest.param(lambda operation: operation.fail(KeyError("k")), Outcome.FAILED, id="failed"),
    ],
)
def test_an_operation_can_end_before_it_is_watched(end, outcome):
    operation = DelayedOperation()
    assert operation.outcome is None
    assert end(operation)
    assert operation.outcome is outcome
    assert not end(operation)


def test_completing_without_a_result_keeps_that_of_the_check():
    class Fetch(DelayedOperation[str]):
        def try_complete(self) -> bool:
            self.result = "collected"
            return self.force_complete()

    fetch = Fetch()
    assert fetch.try_complete()
    assert fetch.result == "collected"


@pytest.mark.parametrize("exception", [pytest.param(KeyError, id="a class"), pytest.param("no", id="a str")])
def test_failing_with_a_non_exception_is_refused(exception):
    operation = DelayedOperation()
    with pytest.raises(TypeError, match="exception instance"):
        operation.fail(exception)
    assert operation.outcome is None


def test_only_a_failed_operation_has_an_exception(purgatory):
    failed, completed, error = DelayedOperation(), DelayedOperation(), KeyError("k")
    assert failed.exception is None
    failed.fail(error)
    completed.force_complete()
    assert failed.exception is error
    assert completed.exception is None


# Hooks.


@pytest.mark.parametrize(
    ("end", "hooks"),
    [
        pytest.param(lambda p, op, clock: op.force_complete(), ["op completed"], id="completed"),
        pytest.param(lambda p, op, clock: clock.advance(9), ["op completed", "op expired"], id="expired"),
        pytest.param(lambda p, op, clock: op.cancel(), [], id="cancelled"),
        pytest.param(lambda p, op, clock: op.fail(KeyError("k")), [], id="failed"),
        pytest.param(lambda p, op, clock: p.close(), [], id="closed"),
    ],
)
def test_on_complete_runs_once_and_on_expiration_after_it(end, hooks, purgatory, manual_clock):
    log: list[str] = []
    operation = Recorded(log, timeout=9)
    purgatory.try_complete_else_watch(operation, ["a", "b"])
    log.clear()
    end(purgatory, operation, manual_clock)
    end(purgatory, operation, manual_clock)
    assert log == hooks


def test_on_complete_may_set_the_result_of_an_expired_operation(purgatory, manual_clock):
    class Fetch(DelayedOperation[str]):
        def on_complete(self) -> None:
            self.result = f"half, {self.outcome}"

    fetch = Fetch(1)
    purgatory.try_complete_else_watch(fetch, ["k"])
    manual_clock.advance(1)
    assert fetch.result == "half, expired"


@pytest.mark.parametrize(("end", "outcome"), ENDS[:2])
def test_when_its_hook_runs_it_has_left_the_timer_and_every_key(end, outcome, purgatory, manual_clock):
    seen = []

    class Looking(DelayedOperation[str]):
        def on_complete(self) -> None:
            counts = (purgatory.pending, purgatory.watched, purgatory.keys, purgatory.timer.pending)
            seen.append((self.outcome, self.keys, counts, list(purgatory.operations())))

    looking = Looking(10)
    purgatory.try_complete_else_watch(looking, ["a", "b", "c"])
    end(purgatory, looking, manual_clock)
    assert seen == [(outcome, (), (0, 0, 0, 0), [])]


@pytest.mark.parametrize("hook", ["try_complete", "on_complete", "on_expiration"])
def test_a_subclass_with_an_async_hook_is_refused(hook):
    async def late(self) -> None: ...

    with pytest.raises(TypeError, match=hook):
        type("Late", (DelayedOperation,), {hook: late})


# Keys.


def test_keys_are_what_it_watches_in_order_without_duplicates(purgatory):
    operation = DelayedOperation()
    assert operation.keys == ()
    purgatory.try_complete_else_watch(operation, iter(["b", "a", "b", ("a", 1), "a"]))
    assert operation.keys == ("b", "a", ("a", 1))
    operation.cancel()
    assert operation.keys == ()


def test_a_single_key_that_is_a_tuple_is_one_key(purgatory):
    operation = DelayedOperation()
    purgatory.try_complete_else_watch(operation, [("topic", 3)])
    assert operation.keys == (("topic", 3),)
    assert purgatory.keys == 1
    assert purgatory.cancel_for_key(("topic", 3)) == [operation]


# Awaiting.


@pytest.mark.asyncio
@pytest.mark.parametrize(("end", "outcome"), [end for end in ENDS if end.id != "failed"])
async def test_awaiting_it_gives_the_outcome_to_every_task(end, outcome, purgatory, manual_clock):
    async def wait() -> Outcome:
        return await operation

    operation = DelayedOperation(10)
    purgatory.try_complete_else_watch(operation, ["k"])
    tasks = [asyncio.create_task(wait()) for _ in range(3)]
    await settle()
    assert not any(task.done() for task in tasks)
    end(purgatory, operation, manual_clock)
    assert await asyncio.gather(*tasks) == [outcome] * 3
    assert await operation is outcome


@pytest.mark.asyncio
async def test_awaiting_a_failed_operation_raises_in_every_task(purgatory):
    async def wait() -> Outcome:
        return await operation

    operation, error = DelayedOperation(), KeyError("k")
    purgatory.try_complete_else_watch(operation, ["k"])
    tasks = [asyncio.create_task(wait()) for _ in range(3)]
    await settle()
    operation.fail(error)
    assert await asyncio.gather(*tasks, return_exceptions=True) == [error] * 3
    with pytest.raises(KeyError) as raised:
        await operation
    assert raised.value is error


@pytest.mark.asyncio
async def test_raising_one_exception_often_does_not_grow_its_traceback(purgatory):
    operation = DelayedOperation()
    operation.fail(KeyError("k"))
    lengths = set()
    for _ in range(5):
        with pytest.raises(KeyError) as raised:
            await operation
        lengths.add(len(raised.traceback))
    assert len(lengths) == 1


@pytest.mark.asyncio
async def test_awaiting_an_unwatched_operation_raises():
    with pytest.raises(PurgatoryError, match="never watched"):
        await DelayedOperation()


@pytest.mark.asyncio
async def test_awaiting_what_ended_unwatched_gives_its_outcome():
    operation = DelayedOperation()
    operation.cancel()
    assert await operation is Outcome.CANCELLED


@pytest.mark.asyncio
async def test_waiters_run_only_after_the_hooks(purgatory):
    log: list[str] = []
    operation = Recorded(log)
    purgatory.try_complete_else_watch(operation, ["k"])

    async def wait() -> None:
        log.append(f"woken {await operation}")

    task = asyncio.create_task(wait())
    await settle()
    log.clear()
    operation.force_complete()
    assert log == ["op completed"]
    await task
    assert log == ["op completed", "woken completed"]


# The object.


def test_an_operation_is_weakly_referable_and_freed_promptly(purgatory):
    operation = DelayedOperation(5)
    purgatory.try_complete_else_watch(operation, ["a", "b"])
    reference = weakref.ref(operation)
    operation.cancel()
    del operation
    assert reference() is None


def test_a_subclass_that_skips_the_base_init_gets_an_error(purgatory):
    class Forgetful(DelayedOperation[str]):
        def __init__(self) -> None:
            pass

    with pytest.raises(TypeError, match=r"Forgetful.*super\(\).__init__"):
        purgatory.try_complete_else_watch(Forgetful(), ["k"])
