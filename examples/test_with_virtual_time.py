"""Tests of waiting code on virtual time: a file to copy beside your own tests.

Run it with pytest, or by itself. The fixtures ``purgatory`` and ``manual_clock`` come with the package; the
async tests need pytest-asyncio in strict mode. It does not test the network: virtual time does not wait for
that.
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


# The code under test takes the purgatory from its caller, so that a test can pass its own.


async def approval(purgatory: Purgatory, request: str) -> str:
    """Wait an hour for an approval."""
    try:
        return f"approved by {await purgatory.wait(request, timeout=HOUR)}"
    except OperationExpired:
        return "not approved"


async def serve_next(queue: HandOff[str, str], served: list[str]) -> None:
    """Serve the next customer; if cancelled, put the customer back."""
    _, customer = await queue.take("counter")
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        queue.put("counter", customer)
        raise
    served.append(customer)


async def diary(days: int) -> float:
    """Sleep with asyncio's own timers; returns the time at the end."""
    for _ in range(days):
        await asyncio.sleep(DAY)
    return asyncio.get_running_loop().time()


# Time stands still unless a test moves it: `settle` runs all ready tasks, `advance` moves the time.


@pytest.mark.asyncio
async def test_an_hour_passes_in_a_millisecond(purgatory: Purgatory, manual_clock: ManualClock) -> None:
    answer = asyncio.create_task(approval(purgatory, "holiday"))
    await settle()
    manual_clock.advance(HOUR - 0.001)
    await settle()
    assert not answer.done()
    manual_clock.advance(0.001)
    assert await answer == "not approved"


@pytest.mark.asyncio
async def test_an_answer_in_time_is_returned(purgatory: Purgatory, manual_clock: ManualClock) -> None:
    answer = asyncio.create_task(approval(purgatory, "holiday"))
    await settle()
    manual_clock.advance(HOUR - 0.001)
    purgatory.complete_for_key("holiday", "Ann")
    assert await answer == "approved by Ann"


@pytest.mark.asyncio
async def test_a_pending_operation_is_named(purgatory: Purgatory) -> None:
    forgotten = asyncio.create_task(approval(purgatory, "holiday"))
    await settle()
    with pytest.raises(AssertionError, match="on 'holiday'"):
        assert_clean(purgatory)  # as the fixture does after each test
    forgotten.cancel()
    await settle()
    assert_clean(purgatory)


def test_an_expired_quorum_names_the_missing_voters(purgatory: Purgatory, manual_clock: ManualClock) -> None:
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
async def test_a_cancelled_clerk_loses_no_customer(purgatory: Purgatory) -> None:
    async def scenario() -> None:
        queue: HandOff[str, str] = HandOff(purgatory)
        served: list[str] = []
        asyncio.get_running_loop().call_soon(queue.put, "counter", "Bob")
        try:
            await serve_next(queue, served)
        finally:
            waiting = [customer for _, customer in queue.clear()]
            assert served + waiting == ["Bob"]

    assert await cancel_sweep(scenario) == 2  # cancelled while it waits, and while it serves


def test_a_year_of_asyncio_sleeps_takes_no_time() -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert runner.run(diary(days=365)) == 365 * DAY


if __name__ == "__main__":
    # Only these two plugins.
    plugins = [
        "--disable-plugin-autoload",
        "-p",
        "pytest_asyncio.plugin",
        "-p",
        "purgatory_async.testing.plugin",
    ]
    command = [sys.executable, "-m", "pytest", "--verbose", "--no-header", "-p", "no:cacheprovider", *plugins]
    sys.exit(subprocess.run([*command, __file__], check=False).returncode)  # noqa: S603 - this file
