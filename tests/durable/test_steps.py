"""A long step is taken in several passes of the loop, and none sees it half done."""

import asyncio

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from purgatory_async.durable import steps
from purgatory_async.durable.documents import KeyedSignal
from purgatory_async.durable.fold import signal_rules
from purgatory_async.durable.fold.entries import SignalKey, SignalKeys, SubmitOperation
from purgatory_async.durable.fold.log_clock import LogClock
from purgatory_async.durable.later import at_last
from purgatory_async.durable.state import Guard
from purgatory_async.service.http_service import HttpService
from purgatory_async.service.settings.settings import Settings
from purgatory_async.testing import VirtualTimeLoop
from tests.durable import test_on_log_machine
from tests.durable.log_workers import Workers

MANY = 200


@pytest.fixture(autouse=True)
def _a_pass_for_each_break(monkeypatch):
    monkeypatch.setattr(steps, "PASS_NS", 0)
    monkeypatch.setattr(steps, "BREAKS", 1)
    monkeypatch.setattr(signal_rules, "FEW", 4)
    monkeypatch.setattr(LogClock, "slice", 2)


def in_memory(story):
    async def main():
        service = HttpService(Settings())
        for number in range(MANY):
            await at_last(service.state.propose(SubmitOperation(id=f"o{number}", keys=("hot",)), Guard()))
        try:
            await story(service)
        finally:
            service.close()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())


async def begun(service):
    """The task of a signal that has ended some operations, and not yet the others."""
    task = asyncio.create_task(at_last(service.state.propose(SignalKey(key="hot"), Guard())))
    await asyncio.sleep(0)  # until it waits for the rest
    while service.fold.operations.purgatory.pending == MANY:  # noqa: ASYNC110 - it looks between passes
        await asyncio.sleep(0)
    assert service.fold.operations.purgatory.pending
    return task


def test_others_wait_for_the_end_of_a_step():
    async def story(service):
        signal = await begun(service)
        pending, order = service.fold.operations.purgatory, []

        async def read():
            await service.state.caught_up()
            order.append(("read", pending.pending))

        async def change(name):
            answer = await at_last(service.state.propose(SignalKey(key=name), Guard()))
            order.append((name, answer.result.index, service.fold.operations.by_id["o0"].state))

        others = [read(), change("a"), change("b"), read()]
        await asyncio.gather(*others)
        assert (await signal).result.completed == MANY
        first = (await signal).result.index
        assert order == [
            ("read", 0),
            ("a", first + 1, "completed"),
            ("b", first + 2, "completed"),
            ("read", 0),
        ]

    in_memory(story)


def test_a_step_goes_on_when_its_caller_leaves():
    async def story(service):
        signal = await begun(service)
        signal.cancel()
        await service.state.settled()
        assert service.fold.operations.purgatory.pending == 0
        assert (await at_last(service.state.propose(SignalKey(key="hot"), Guard()))).result.completed == 0

    in_memory(story)


def test_closing_comes_to_the_end_of_a_step():
    async def story(service):
        signal = await begun(service)
        service.state.post(SignalKey(key="late"))
        service.close()
        assert (await signal).result.completed == MANY
        assert service.fold.signals.latest("late") is None

    in_memory(story)


def test_what_is_posted_meanwhile_comes_next():
    async def story(service):
        signal = await begun(service)
        service.state.post(SignalKey(key="late"))
        await service.state.settled()
        assert service.fold.signals.latest("late").index == (await signal).result.index + 1

    in_memory(story)


def test_batches_at_once_find_their_places():
    async def story(service):
        batch = [KeyedSignal(key="hot") for _ in range(5)]
        answers = await asyncio.gather(
            *[at_last(service.state.propose(SignalKeys(signals=tuple(batch)), Guard())) for _ in range(3)]
        )
        assert [answer.result.completed for answer in answers] == [MANY, 0, 0]

    in_memory(story)


def test_an_error_in_a_step_reaches_its_caller(monkeypatch):
    async def story(service):
        def broken(*_):
            raise RuntimeError("broken")

        signal = await begun(service)
        monkeypatch.setattr(service.state, "_heard", broken)
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        with pytest.raises(RuntimeError, match="broken"):
            await signal
        await service.state.settled()

    in_memory(story)


@pytest.mark.parametrize("reader", [0, 1])
def test_no_worker_shows_a_step_half_done(reader):
    async def main():
        async with Workers() as workers:
            first, second = [await workers.start() for _ in range(2)]
            await asyncio.gather(
                *[
                    at_last(first.state.propose(SubmitOperation(id=f"o{number}", keys=("hot",)), Guard()))
                    for number in range(MANY)
                ]
            )
            signal = asyncio.create_task(at_last(first.state.propose(SignalKey(key="hot"), Guard())))
            state = (first, second)[reader].state
            seen = set()
            while 0 not in seen:
                await state.caught_up()
                seen.add(state.fold.operations.purgatory.pending)
            assert seen <= {0, MANY}
            await signal

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())


def test_workers_agree_wherever_their_steps_have_breaks():
    run_state_machine_as_test(
        test_on_log_machine.Workers, settings=settings(max_examples=10, stateful_step_count=25)
    )
