"""`wait`: a coroutine that waits for keys, with or without a condition."""

import asyncio
from math import nan

import pytest

from purgatory_async import (
    OperationCancelled,
    OperationExpired,
    Outcome,
    Purgatory,
    PurgatoryClosed,
    PurgatoryError,
    PurgatoryFull,
    Timer,
)
from purgatory_async.testing import settle

pytestmark = pytest.mark.asyncio


async def waiting(purgatory, *keys, **options):
    """A task in the middle of a wait."""
    task = asyncio.create_task(purgatory.wait(*keys, **options))
    await settle()
    return task


def counts(purgatory):
    return purgatory.pending, purgatory.watched, purgatory.keys, purgatory.timer.pending


KINDS = [pytest.param(None, id="without until"), pytest.param(lambda: False, id="with until")]


# How it ends.


async def test_without_until_it_ends_with_the_result_given_for_the_key(purgatory):
    task = await waiting(purgatory, "a", "b")
    assert counts(purgatory) == (1, 2, 2, 0)
    assert purgatory.complete_for_key("b", "result") == 1
    assert await task == "result"


async def test_without_a_result_it_ends_with_none(purgatory):
    task = await waiting(purgatory, "a")
    purgatory.complete_for_key("a")
    assert await task is None


async def test_a_check_of_its_key_does_not_end_a_wait_without_until(purgatory):
    task = await waiting(purgatory, "a")
    assert purgatory.check_and_complete("a") == 0
    purgatory.complete_for_key("a", 1)
    assert await task == 1


async def test_until_is_tried_at_once_and_returns_its_truthy_value(purgatory):
    assert await purgatory.wait("a", until=lambda: "there already") == "there already"
    assert counts(purgatory) == (0, 0, 0, 0)


async def test_until_is_tried_at_each_check_of_its_keys_until_truthy(purgatory):
    answers = ["rest", [7], "", 0, None]
    task = await waiting(purgatory, "a", "b", until=answers.pop)
    assert [purgatory.check_and_complete(key) for key in "abcaa"] == [0, 0, 0, 1, 0]
    assert await task == [7]
    assert answers == ["rest"]


@pytest.mark.parametrize("until", KINDS)
async def test_expiry_raises_operation_expired_a_timeout_error(until, purgatory, manual_clock):
    task = await waiting(purgatory, "order:42", until=until, timeout=2.5)
    manual_clock.advance(2.499)
    await settle()
    assert not task.done()
    manual_clock.advance(0.001)
    with pytest.raises(OperationExpired, match=r"'order:42'.*2\.5") as expired:
        await task
    assert isinstance(expired.value, TimeoutError)
    assert isinstance(expired.value, PurgatoryError)


@pytest.mark.parametrize("until", KINDS)
@pytest.mark.parametrize("timeout", [pytest.param(0, id="zero"), pytest.param(-1.5, id="negative")])
async def test_a_wait_of_no_time_expires_on_the_next_loop_turn(until, timeout):
    async with Purgatory() as purgatory:
        with pytest.raises(OperationExpired):
            await purgatory.wait("a", until=until, timeout=timeout)


@pytest.mark.parametrize("until", KINDS)
async def test_cancel_for_key_raises_operation_cancelled_in_the_wait(until, purgatory):
    task = await waiting(purgatory, "a", until=until)
    assert len(purgatory.cancel_for_key("a")) == 1
    with pytest.raises(OperationCancelled) as cancelled:
        await task
    assert not isinstance(cancelled.value, asyncio.CancelledError)
    assert not task.cancelled()


@pytest.mark.parametrize("until", KINDS)
async def test_closing_raises_purgatory_closed(until, purgatory):
    task = await waiting(purgatory, "a", until=until)
    assert len(purgatory.close()) == 1
    with pytest.raises(PurgatoryClosed):
        await task


@pytest.mark.parametrize("until", KINDS)
async def test_fail_for_key_raises_its_exception(until, purgatory):
    error = KeyError("lost")
    task = await waiting(purgatory, "a", until=until)
    purgatory.fail_for_key("a", error)
    with pytest.raises(KeyError) as raised:
        await task
    assert raised.value is error


@pytest.mark.parametrize(
    "first", [pytest.param(True, id="at once"), pytest.param(False, id="in a later check")]
)
@pytest.mark.parametrize(
    "error", [KeyError("k"), asyncio.CancelledError("mine"), GeneratorExit("mine")], ids=repr
)
async def test_an_exception_from_until_comes_out_as_it_is(first, error, purgatory):
    turns = [first, True]

    def until() -> None:
        if turns.pop(0):
            raise error

    async def wait() -> BaseException | None:
        try:
            await purgatory.wait("a", until=until)
        except BaseException as exception:  # noqa: BLE001 - GeneratorExit is one of the cases
            return exception
        return None

    task = asyncio.create_task(wait())
    await settle()
    if not first:
        assert purgatory.check_and_complete("a") == 0
    assert await task is error
    assert counts(purgatory) == (0, 0, 0, 0)


@pytest.mark.parametrize("until", KINDS)
async def test_cancelling_the_task_removes_its_wait_at_once(until, purgatory):
    task = await waiting(purgatory, "a", "b", "a", until=until, timeout=60)
    assert counts(purgatory) == (1, 2, 2, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert counts(purgatory) == (0, 0, 0, 0)
    assert purgatory.complete_for_key("a") == 0


async def test_waits_on_one_key_are_served_in_the_order_they_came(purgatory):
    served = []

    async def serve(number) -> None:
        await purgatory.wait("a")
        served.append(number)

    tasks = [asyncio.create_task(serve(number)) for number in range(100)]
    await settle()
    purgatory.complete_for_key("a")
    await asyncio.gather(*tasks)
    assert served == list(range(100))


# What can be wrong.


@pytest.mark.parametrize(
    ("keys", "options", "error"),
    [
        pytest.param((), {}, ValueError, id="no keys"),
        pytest.param(([],), {}, TypeError, id="a key that cannot be hashed"),
        pytest.param(("a", []), {}, TypeError, id="one of two keys that cannot be hashed"),
        pytest.param(([],), {"until": lambda: True}, TypeError, id="an unhashable key and a true condition"),
        pytest.param(("a",), {"timeout": nan}, ValueError, id="nan"),
        pytest.param(("a",), {"timeout": True}, TypeError, id="a bool for a timeout"),
        pytest.param(("a",), {"until": lambda: True, "timeout": "5"}, TypeError, id="a str for a timeout"),
        pytest.param(("a",), {"until": True}, TypeError, id="an until that cannot be called"),
    ],
)
async def test_bad_arguments_are_refused_and_nothing_is_registered(keys, options, error, purgatory):
    with pytest.raises(error):
        await purgatory.wait(*keys, **options)
    assert counts(purgatory) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    "key", [pytest.param([], id="a list"), pytest.param((1, []), id="a list in a tuple")]
)
async def test_an_unhashable_key_is_refused_before_all_else(key, purgatory):
    unused, waits = Purgatory(), "a watch key is hashable, .* is not; give keys one by one"
    with pytest.raises(TypeError, match=f"^unhashable type: 'list': {waits}$"):
        await unused.wait(key, timeout=1)
    assert (unused.pending, unused._loop) == (0, None)
    purgatory.close()
    with pytest.raises(TypeError, match=waits):
        await purgatory.wait(key)


async def test_a_bad_timeout_is_refused_before_anything_else(purgatory):
    purgatory.close()
    with pytest.raises(ValueError, match="timeout must be finite"):
        await purgatory.wait("a", timeout=nan)


async def test_a_str_is_one_key(purgatory):
    task = await waiting(purgatory, "order:42")
    assert purgatory.complete_for_key("order:42", 1) == 1
    assert await task == 1


@pytest.mark.parametrize("until", [*KINDS, pytest.param(lambda: True, id="with a true until")])
async def test_a_closed_purgatory_takes_no_wait(until, purgatory):
    purgatory.close()
    with pytest.raises(PurgatoryClosed):
        await purgatory.wait("a", until=until)


@pytest.mark.parametrize("until", KINDS)
async def test_a_full_purgatory_returns_only_what_holds_at_once(until, manual_clock):
    async with Purgatory(timer=Timer(clock=manual_clock), max_pending=1) as purgatory:
        first = await waiting(purgatory, "a")
        with pytest.raises(PurgatoryFull, match="1"):
            await purgatory.wait("a", until=until, timeout=1)
        assert await purgatory.wait("a", until=lambda: "now") == "now"
        assert counts(purgatory) == (1, 1, 1, 0)
        purgatory.complete_for_key("a", "first")
        assert await first == "first"


async def test_a_wait_that_never_began_has_registered_nothing(purgatory):
    coroutine = purgatory.wait("a")
    coroutine.close()
    assert counts(purgatory) == (0, 0, 0, 0)


async def test_a_wait_that_nothing_awaits_is_warned_of(purgatory):
    with pytest.warns(RuntimeWarning, match=r"coroutine 'Purgatory\.wait' was never awaited"):
        purgatory.wait("k", timeout=5)


# As an operation: `operations`, `close` and observers show it.


async def awaiting(operation):
    """A task in the middle of awaiting an operation."""

    async def outcome():
        return await operation

    task = asyncio.create_task(outcome())
    await settle()
    return task


async def test_another_task_may_await_a_wait_too(purgatory):
    task = await waiting(purgatory, "k")
    (operation,) = purgatory.operations("k")
    other = await awaiting(operation)
    assert purgatory.complete_for_key("k", "done") == 1
    assert (await task, await other, await operation) == ("done", Outcome.COMPLETED, Outcome.COMPLETED)


async def test_cancelling_the_other_task_leaves_the_wait(purgatory):
    task = await waiting(purgatory, "k")
    (operation,) = purgatory.operations("k")
    other = await awaiting(operation)
    other.cancel()
    await settle()
    assert (other.cancelled(), purgatory.complete_for_key("k", "done"), await task) == (True, 1, "done")


async def test_cancelling_a_wait_wakes_the_other_task(purgatory):
    task = await waiting(purgatory, "k")
    (operation,) = purgatory.operations("k")
    other = await awaiting(operation)
    task.cancel()
    assert await other is Outcome.CANCELLED
    assert purgatory.pending == 0
