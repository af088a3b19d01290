"""Tests of code that waits, in which nobody does: a file to copy and put beside one's own tests.

Run it with pytest, or by itself. The fixtures ``purgatory`` and ``manual_clock`` come with the package; the async tests
are pytest-asyncio's, in its strict mode. What it does not test is the network: virtual time does not wait for that.
"""

import asyncio
import subprocess
import sys

import pytest

from purgatory_async import OperationExpired, Outcome, Purgatory
from purgatory_async.patterns import HandOff, Periodic, Quorum
from purgatory_async.testing import ManualClock, VirtualTimeLoop, assert_clean, cancel_sweep, settle

HOUR = 3600
DAY = 24 * HOUR


# What is tested: code that takes the purgatory from its caller, so that a test can give it one of its own.


async def approval(purgatory: Purgatory, request: str) -> str:
    """Wait an hour for somebody to approve of a request."""
    try:
        return f"approved by {await purgatory.wait(request, timeout=HOUR)}"
    except OperationExpired:
        return "nobody looked at it"


async def serve_next(queue: HandOff[str, str], served: list[str]) -> None:
    """Serve the next customer; one who is interrupted lets him wait for somebody else."""
    _, customer = await queue.take("counter")
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        queue.put("counter", customer)
        raise
    served.append(customer)


async def diary(days: int) -> float:
    """An application that sleeps in its own way; returns when it ended."""
    for _ in range(days):
        await asyncio.sleep(DAY)
    return asyncio.get_running_loop().time()


# The tests. Time stands still unless they move it: `settle` lets everything run that can, `advance` lets time pass.


@pytest.mark.asyncio
async def test_an_hour_passes_in_a_millisecond(purgatory: Purgatory, manual_clock: ManualClock) -> None:
    answer = asyncio.create_task(approval(purgatory, "holiday"))
    await settle()
    manual_clock.advance(HOUR - 0.001)
    await settle()
    assert not answer.done()
    manual_clock.advance(0.001)
    assert await answer == "nobody looked at it"


@pytest.mark.asyncio
async def test_an_answer_in_time_is_an_answer(purgatory: Purgatory, manual_clock: ManualClock) -> None:
    answer = asyncio.create_task(approval(purgatory, "holiday"))
    await settle()
    manual_clock.advance(HOUR - 0.001)
    purgatory.complete_for_key("holiday", "Ann")
    assert await answer == "approved by Ann"


@pytest.mark.asyncio
async def test_what_is_left_waiting_is_named(purgatory: Purgatory) -> None:
    forgotten = asyncio.create_task(approval(purgatory, "holiday"))
    await settle()
    with pytest.raises(AssertionError, match="on 'holiday'"):
        assert_clean(purgatory)  # as the fixture does when a test is over
    forgotten.cancel()
    await settle()
    assert_clean(purgatory)


def test_a_quorum_that_times_out_knows_who_is_missing(
    purgatory: Purgatory, manual_clock: ManualClock
) -> None:
    write = Quorum(2, of=["london", "oslo", "rome"], timeout=30)
    purgatory.try_complete_else_watch(write, ["write:1"])
    manual_clock.advance(29)
    assert write.vote("oslo")
    manual_clock.advance(1)
    assert write.outcome is Outcome.EXPIRED
    assert write.result == frozenset({"oslo"})
    assert write.missing == frozenset({"london", "rome"})


def test_a_day_of_periodic_work(purgatory: Purgatory, manual_clock: ManualClock) -> None:
    times: list[float] = []
    beat = Periodic(purgatory.timer, 60, lambda: times.append(manual_clock.time()), mode="fixed_rate")
    manual_clock.advance(DAY)
    beat.close()
    assert times == [60 * minute for minute in range(1, 24 * 60 + 1)]


@pytest.mark.asyncio
async def test_no_customer_is_lost_wherever_the_clerk_is_cancelled(purgatory: Purgatory) -> None:
    async def scenario() -> None:
        queue: HandOff[str, str] = HandOff(purgatory)
        served: list[str] = []
        asyncio.get_running_loop().call_soon(queue.put, "counter", "Bob")
        try:
            await serve_next(queue, served)
        finally:
            waiting = [customer for _, customer in queue.clear()]
            assert served + waiting == ["Bob"]

    assert await cancel_sweep(scenario) == 2  # it can be cancelled while it waits, and while it serves


def test_a_year_of_an_application_that_sleeps_in_its_own_way() -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert runner.run(diary(days=365)) == 365 * DAY


if __name__ == "__main__":
    # With these two plugins, whatever else is installed.
    plugins = [
        "--disable-plugin-autoload",
        "-p",
        "pytest_asyncio.plugin",
        "-p",
        "purgatory_async.testing.plugin",
    ]
    command = [sys.executable, "-m", "pytest", "--verbose", "--no-header", "-p", "no:cacheprovider", *plugins]
    sys.exit(subprocess.run([*command, __file__], check=False).returncode)  # noqa: S603 - this very file
