"""`cancel_sweep` cancels a scenario wherever it can be suspended, and finds the classic mistakes."""

import asyncio
from contextlib import suppress

import pytest

from purgatory_async.testing import cancel_sweep, settle


class Registry:
    """Something a scenario registers in and has to leave again."""

    def __init__(self) -> None:
        self.inside = 0
        self.runs = 0

    def enter(self) -> None:
        self.runs += 1
        self.inside += 1

    def leave(self) -> None:
        self.inside -= 1

    def check(self) -> None:
        assert self.inside == 0, f"{self.inside} registrations are left"


async def pause() -> None:
    """Wait for a future that comes two passes later: late enough to be cancelled before."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_soon(loop.call_soon, lambda: future.done() or future.set_result(None))
    await future


@pytest.mark.asyncio
async def test_it_returns_the_number_of_suspension_points() -> None:
    async def suspended_three_times() -> None:
        await asyncio.sleep(0)
        await pause()
        await asyncio.get_running_loop().create_task(asyncio.sleep(0))

    assert await cancel_sweep(suspended_three_times) == 3


@pytest.mark.asyncio
async def test_a_scenario_that_is_never_suspended_has_no_points() -> None:
    async def straight_through() -> None:
        pass

    assert await cancel_sweep(straight_through) == 0


@pytest.mark.asyncio
async def test_it_cancels_at_every_suspension_and_as_that_ends() -> None:
    seen: list[str] = []

    async def scenario() -> None:
        here = "at the start"
        try:
            here = "in the first wait"
            await pause()
            here = "in the second wait"
            await pause()
            here = "at the end"
        finally:
            seen.append(here)

    assert await cancel_sweep(scenario) == 2
    # One run without a cancellation, two for each point.
    expected = ["at the end", *["in the first wait"] * 2, *["in the second wait"] * 2]
    assert sorted(seen) == sorted(expected)


@pytest.mark.asyncio
async def test_points_that_only_a_cancellation_leads_to_are_swept_too() -> None:
    async def slow_to_leave() -> None:
        try:
            await pause()
        finally:
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    assert await cancel_sweep(slow_to_leave) >= 3


@pytest.mark.asyncio
async def test_a_scenario_that_cleans_up_passes() -> None:
    registry = Registry()

    async def clean() -> None:
        registry.check()
        registry.enter()
        try:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        finally:
            registry.leave()

    await cancel_sweep(clean)
    registry.check()
    assert registry.runs > 2


@pytest.mark.asyncio
async def test_it_finds_that_nothing_cleans_up() -> None:
    registry = Registry()

    async def no_cleanup() -> None:
        registry.check()
        registry.enter()
        await asyncio.sleep(0)
        registry.leave()

    with pytest.raises(AssertionError, match="1 registrations are left"):
        await cancel_sweep(no_cleanup)


@pytest.mark.asyncio
async def test_it_finds_an_await_before_the_try() -> None:
    registry = Registry()

    async def await_before_try() -> None:
        registry.check()
        registry.enter()
        await asyncio.sleep(0)
        try:
            await asyncio.sleep(0)
        finally:
            registry.leave()

    with pytest.raises(AssertionError, match="1 registrations are left"):
        await cancel_sweep(await_before_try)


@pytest.mark.asyncio
async def test_it_finds_a_swallowed_cancellation() -> None:
    async def swallows() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    with pytest.raises(
        AssertionError, match=r"swallowed its cancellation (at point 1|before its first step)"
    ):
        await cancel_sweep(swallows)


@pytest.mark.asyncio
async def test_a_scenario_that_is_meant_to_swallow_may_say_so() -> None:
    async def shuts_down_in_order() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)

    assert await cancel_sweep(shuts_down_in_order, may_swallow=True) == 1


@pytest.mark.asyncio
async def test_it_finds_a_result_lost_in_the_pass_of_its_arrival() -> None:
    tokens = ["the only token"]
    loop = asyncio.get_running_loop()

    async def take_and_give_back() -> None:
        assert tokens == ["the only token"], "the token is lost"
        handed_over: asyncio.Future[str] = loop.create_future()

        def hand_over() -> None:
            if not handed_over.cancelled():
                handed_over.set_result(tokens.pop())

        loop.call_soon(hand_over)
        # Cancelled while it waits, nothing is lost; cancelled when the token is on its way, it is.
        tokens.append(await handed_over)

    with pytest.raises(AssertionError, match="the token is lost"):
        await cancel_sweep(take_and_give_back)


@pytest.mark.asyncio
async def test_other_exceptions_have_a_note_of_the_cancellation_point() -> None:
    async def fails_when_cancelled() -> None:
        await asyncio.sleep(0)
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            raise ConnectionError("could not say goodbye") from None

    with pytest.raises(ConnectionError, match="could not say goodbye") as caught:
        await cancel_sweep(fails_when_cancelled)
    assert any("point 2" in note for note in caught.value.__notes__)


@pytest.mark.asyncio
async def test_a_scenario_that_fails_by_itself_fails_the_sweep() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise LookupError("no such door")

    with pytest.raises(LookupError, match="no such door"):
        await cancel_sweep(fails)


@pytest.mark.asyncio
async def test_a_scenario_that_cancels_itself_is_not_taken_for_swept() -> None:
    async def gives_up() -> None:
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await cancel_sweep(gives_up)


@pytest.mark.asyncio
async def test_a_sweep_that_is_cancelled_itself_stops() -> None:
    runs = 0

    async def endless() -> None:
        nonlocal runs
        runs += 1
        await asyncio.Event().wait()

    sweep = asyncio.create_task(cancel_sweep(endless))
    await settle()
    sweep.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sweep
    assert runs == 1


@pytest.mark.asyncio
async def test_no_task_is_left_behind() -> None:
    async def scenario() -> None:
        async with asyncio.timeout(60):
            await asyncio.sleep(0)

    await cancel_sweep(scenario)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.asyncio
async def test_a_check_follows_each_run_and_is_told_where() -> None:
    registry = Registry()

    async def scenario() -> None:
        registry.enter()
        await asyncio.sleep(0)
        registry.leave()

    checks = 0

    async def check() -> None:
        nonlocal checks
        checks += 1
        registry.check()

    with pytest.raises(AssertionError, match="1 registrations are left") as caught:
        await cancel_sweep(scenario, check=check)
    assert caught.value.__notes__ == ["cancel_sweep: the scenario was cancelled at point 1, while it waited"]
    assert checks == 3  # not cancelled, before its first step, at point 1


@pytest.mark.asyncio
async def test_a_coroutine_is_no_scenario_and_no_check() -> None:
    async def scenario() -> None:
        """Do nothing."""

    called = scenario()
    for name, arguments in (
        ("scenario", {"scenario": called}),
        ("check", {"scenario": scenario, "check": called}),
    ):
        with pytest.raises(
            TypeError, match=f"{name} must be an async function that is not called yet, got <coro"
        ):
            await cancel_sweep(**arguments)
    called.close()
