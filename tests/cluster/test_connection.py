"""What the logs of all engines share."""

import asyncio
import copy
import pickle

import pytest

from purgatory_async.cluster import LogDamaged, LogError, LogGap, LogRefused, LogUnavailable
from purgatory_async.cluster.connection import Backoff, SharedTrip


def engine_end(answers):
    """A round trip that answers when its future does."""

    async def trip():
        answers.append(asyncio.get_running_loop().create_future())
        return await answers[-1]

    return trip


async def turns():
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.asyncio
async def test_a_late_caller_does_not_get_an_earlier_answer():
    answers = []
    end = SharedTrip(engine_end(answers))
    early = [asyncio.create_task(end()) for _ in range(3)]
    await turns()
    late = [asyncio.create_task(end()) for _ in range(3)]
    await turns()
    assert len(answers) == 1
    answers[0].set_result(1)
    assert await asyncio.gather(*early) == [1, 1, 1]
    await turns()
    answers[1].set_result(2)
    assert await asyncio.gather(*late) == [2, 2, 2]
    assert len(answers) == 2


@pytest.mark.asyncio
async def test_a_cancelled_caller_leaves_the_trip_to_others():
    answers = []
    end = SharedTrip(engine_end(answers))
    leaving, staying = asyncio.create_task(end()), asyncio.create_task(end())
    await turns()
    leaving.cancel()
    await turns()
    answers[0].set_result(7)
    assert await staying == 7


@pytest.mark.asyncio
async def test_a_failed_trip_fails_its_callers_and_no_later_one():
    answers = []
    end = SharedTrip(engine_end(answers))
    first = asyncio.create_task(end())
    await turns()
    second = asyncio.create_task(end())
    await turns()
    answers[0].set_exception(LogUnavailable("engine is away after 3 s"))
    with pytest.raises(LogUnavailable):
        await first
    await turns()
    answers[1].set_result(5)
    assert await second == 5


@pytest.mark.asyncio
async def test_closing_cancels_the_trips():
    end = SharedTrip(engine_end([]))
    first = asyncio.create_task(end())
    await turns()
    second = asyncio.create_task(end())
    await turns()
    await end.aclose()
    for task in (first, second):
        with pytest.raises(LogError, match="log is closed"):
            await task


def test_delays_grow_from_10_ms_to_2_s_and_start_over():
    backoff = Backoff()
    delays = [backoff.next_delay() for _ in range(200)]
    assert min(delays) >= 0.010
    assert 0.020 < max(delays) <= 2.0
    assert all(delay <= 0.010 * 2 ** (attempt + 1) for attempt, delay in enumerate(delays[:7]))
    assert len(set(delays)) > 100  # random, so that workers spread out
    backoff.reset()
    assert backoff.next_delay() <= 0.020


ERRORS = {
    LogError("log is closed: cannot append"): {},
    LogUnavailable("connection refused"): {},
    LogGap("trimmed", oldest=7, epoch="e"): {"oldest": 7, "epoch": "e"},
    LogDamaged("entry 9 is damaged", position=9): {"position": 9},
    LogRefused("maxmemory-policy must be noeviction, got allkeys-lru"): {},
}


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("carry", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_keeps_its_values_on_its_way(error, carry):
    carried = carry(error)
    assert isinstance(carried, LogError)
    assert (type(carried), carried.args) == (type(error), error.args)
    assert {name: getattr(carried, name) for name in ERRORS[error]} == ERRORS[error]
