"""The state on the real engines: two workers, a cut, a checkpoint, and a start from it."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from msgspec import Raw

from purgatory_async import Timer
from purgatory_async.durable.documents import Ask
from purgatory_async.durable.fold.checkpoint import digest, parts
from purgatory_async.durable.fold.entries import (
    AnswerOperation,
    PutItem,
    SignalKey,
    SubmitOperation,
    WantItem,
)
from purgatory_async.durable.fold.results import Answered, Attached, Leased, Refused, Submitted
from purgatory_async.durable.on_log import OnLog
from purgatory_async.durable.state import Guard
from tests.cluster.conftest import engine, engine_name  # noqa: F401 - fixtures
from tests.cluster.reading import each

pytestmark = [pytest.mark.asyncio(loop_factories=["asyncio", "uvloop"]), pytest.mark.slow]


async def started(stack, engine):  # noqa: F811
    timer = Timer()
    stack.callback(timer.close)
    state = OnLog(
        engine.log(),
        timer=timer,
        timeout=10.0,
        applied=lambda result, effects: result,
        replaced=lambda fold: None,
        limits=None,
    )
    await state.open()
    running = asyncio.create_task(state.run())
    stack.push_async_callback(lambda: asyncio.wait([running]))
    stack.push_async_callback(state.aclose)
    return state


def question(number):
    return SubmitOperation(
        id=f"question-{number}",
        keys=("questions",),
        keep_us=3_600_000_000,
        ask=Ask("Go?"),
        announce="asked",
        deliver="answered",
        attach=True,
    )


async def test_two_workers_and_a_later_one_are_equal(engine):  # noqa: F811
    async with AsyncExitStack() as stack:
        here, there = await started(stack, engine), await started(stack, engine)

        async def client(state, name):
            for number in range(20):
                one = SubmitOperation(
                    id=f"{name}-{number}", keys=(f"{name}-{number}",), timeout_us=60_000_000
                )
                assert await state.propose(one, Guard()) == Submitted(one.id, "pending")
                signalled = await state.propose(SignalKey(key=f"{name}-{number}"), Guard())
                assert signalled.completed == 1
                # All ask the same question, and answer it differently.
                asked = await state.propose(question(number), Guard())
                assert isinstance(asked, Submitted | Attached)
                answer = AnswerOperation(id=f"question-{number}", choice="ok", by=name)
                assert await state.propose(answer, Guard()) in {
                    Answered("completed"),
                    Refused("already-ended"),
                }

        await asyncio.gather(
            *(client(state, name) for name, state in zip("abcd", [here, there] * 2, strict=True))
        )
        await engine.cut()
        await here.propose(PutItem(queue="q", item=Raw(b'"x"'), delay_us=0), Guard())
        await there.caught_up()
        assert there.fold.queues.kept == 41  # one of each question and of each end
        wanted = await there.propose(WantItem(queue="q", lease_id="l", lease_us=100_000, max=1), Guard())
        assert isinstance(wanted, Leased)
        saved, state = here.fold.position, list(parts(here.fold))  # before anything else is applied
        log = engine.log()
        await log.open()
        await log.save(saved, each(state), keep=0)
        await log.aclose()
        late = await started(stack, engine)
        for _ in range(1000):  # the lease ends by a tick
            if late.fold.queues.kept == 41:
                break
            await asyncio.sleep(0.02)
        assert late.fold.queues.kept == 41
        await late.propose(SignalKey(key="last"), Guard())
        while len({state.position for state in (here, there, late)}) > 1:
            await asyncio.gather(*(state.caught_up() for state in (here, there, late)))
        assert len({(state.position, digest(state.fold)) for state in (here, there, late)}) == 1
        assert [state.recovery.diverged for state in (here, there, late)] == [0, 0, 0]
        assert [state.recovery.gaps for state in (here, there, late)] == [0, 0, 0]
