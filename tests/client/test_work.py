"""`work`: what becomes of an item, however its handler or its lease ends."""

import asyncio
import itertools
from contextlib import suppress

import pytest

from purgatory_async.client import AsyncVerbs
from purgatory_async.client import _work as module
from purgatory_async.testing import VirtualTimeLoop, settle
from tests.client.queues_in_memory import QueuesInMemory
from tests.client.working import Boom, Working, started, virtual


@pytest.mark.asyncio
async def test_what_a_handler_returned_from_is_acknowledged():
    working = await started("a", "b")
    assert working.store.acknowledged == []
    await working.end("a")
    assert (working.store.acknowledged, [*working.running]) == (["a"], ["b"])
    await working.end("b")
    lease = working.runs[0]
    assert (lease.item, lease.attempts, type(lease.id)) == ("a", 1, str)
    await working.stop()
    assert working.store.acknowledged == ["a", "b"]


@pytest.mark.asyncio
async def test_a_handler_that_is_not_async_fails_with_a_sentence():
    errors = []
    working = await started(
        "a", handler=lambda lease: lease.attempts, on_error=lambda _, error: errors.append(error)
    )
    assert [type(error) for error in errors] == [TypeError]
    assert "handler must be an async function, <function" in str(errors[0])
    assert str(errors[0]).endswith("returned 1")
    await working.stop()


@pytest.mark.asyncio
async def test_an_item_that_comes_later_is_handled():
    working = await started()
    working.store.put("q", "a")
    await settle()
    assert [*working.running] == ["a"]
    await working.end("a")
    await working.stop()


@pytest.mark.asyncio
async def test_no_more_run_than_may():
    working = await started(*range(10), concurrency=3)
    assert [*working.running] == [0, 1, 2]
    await working.end(1)
    assert [*working.running] == [0, 2, 3]
    for item in (0, 2, 3, *range(4, 10)):
        await working.end(item)
    assert working.most == 3
    await working.stop()
    assert {each.attempts for each in working.runs} == {1}


@pytest.mark.asyncio
async def test_several_queues_are_tried_in_their_order():
    working = Working(queues=("b", "a", "b"))
    for queue, number in itertools.product("ab", range(2)):
        working.store.put(queue, f"{queue}{number}")
    working.start()
    for item in ("b0", "b1", "a0", "a1"):
        await settle()
        assert [*working.running] == [item]
        await working.end(item)
    await working.stop()


@pytest.mark.asyncio
async def test_several_queues_are_waited_for_at_once():
    working = await started(queues=("a", "b", "c"))
    for queue in "cab":
        working.store.put(queue, queue)
        await settle()
        assert [*working.running] == [queue]
        await working.end(queue)
    await working.stop()


@pytest.mark.asyncio
async def test_items_beyond_the_slots_go_back_without_an_attempt():
    working = await started(queues=("a", "b", "c"), concurrency=2)
    for queue in "abc":
        working.store.put(queue, queue)
    await settle()
    assert [*working.running] == ["a", "b"]
    assert [each.attempts for each in working.store.ready["c"]] == [0]
    assert working.store.given_back == []
    await working.end("a")
    assert [*working.running] == ["b", "c"]
    assert working.runs[-1].attempts == 1
    for item in "bc":
        await working.end(item)
    await working.stop()


@pytest.mark.asyncio
async def test_items_that_come_at_any_time_need_one_attempt():
    for planned in range(20):
        working = await started(queues=("a", "b"), concurrency=2)

        def more(store=working.store):
            for queue, item in (("a", "a2"), ("b", "b1")):
                store.put(queue, item)

        working.store.at_trip(planned, more)
        working.store.put("a", "a1")
        await settle()
        for item in ("a1", "a2", "b1"):
            if item in working.running:
                await working.end(item)
        assert (working.store.given_back, working.most <= 2) == ([], True)
        assert {each.attempts for each in working.runs} == {1}
        await working.stop()


@pytest.mark.asyncio
async def test_a_store_that_answers_without_a_pause_is_worked_off():
    working = Working(queues=("a", "b"), concurrency=2)
    working.store.trip = None
    working.start()
    await settle()
    for number in range(4):
        working.store.put("a", number)
    for number in range(4):
        await settle()
        assert working.store.ready["a"] == [] or len(working.running) == 2
        await working.end(number)
    await working.stop()
    assert working.store.acknowledged == [0, 1, 2, 3]


@pytest.mark.asyncio
async def test_a_take_that_returns_although_cancelled_goes_back():
    working = Working(queues=("a", "b"))
    taken = working.store.take

    async def take(*order, **named):
        taking = asyncio.ensure_future(taken(*order, **named))
        while not taking.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({taking})
        return taking.result()

    working.store.take = take
    working.start()
    await settle()
    for queue in "ab":
        working.store.put(queue, queue)
        await settle()
    assert [*working.running] == ["a"]
    assert [item.item for item, _ in working.store.given_back] == ["b"]
    await working.end("a")
    await working.end("b")
    working.task.cancel()
    await settle()
    assert not working.task.done(), "its takes have yet to return"
    for queue in "ab":
        working.store.put(queue, f"late in {queue}")
    await settle()
    assert working.task.cancelled()
    assert len(working.store.given_back) == 3


@pytest.mark.asyncio
async def test_held_takes_leave_their_lines_when_no_slot_is_free():
    working = await started(queues=("a", "b"))
    working.store.put("a", "first")
    await settle()
    working.store.put("b", "second")
    await settle()
    assert [each.item for each in working.store.ready["b"]] == ["second"]
    await working.end("first")
    await working.end("second")
    await working.stop()


@virtual
async def test_an_error_is_told_and_its_item_tried_again():
    told = []
    working = await started("a", on_error=lambda lease, error: told.append((lease.attempts, error)))
    await working.end("a", Boom("x"))
    assert (working.waiting, working.store.acknowledged) == ([], [])
    await asyncio.sleep(1)
    assert [*working.running] == ["a"]
    assert [(attempts, str(error)) for attempts, error in told] == [(1, "x")]
    assert [each.attempts for each in working.runs] == [1, 2]
    await working.end("a")
    await working.stop()
    assert not working.reported


@virtual
async def test_an_async_on_error_is_awaited_before_its_item_goes_back():
    seen = []

    async def tell(lease, error):
        await asyncio.sleep(100)  # its lease is extended meanwhile
        seen.append(error)

    working = await started("a", on_error=tell)
    await working.end("a", Boom())
    await asyncio.sleep(99)
    assert working.store.given_back == []
    await asyncio.sleep(2)
    assert len(seen) == len(working.store.given_back) == 1
    await working.stop()


@virtual
@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_an_error_of_on_error_is_reported_and_work_goes_on(kind):
    def plain(lease, error):
        raise LookupError(lease.item)

    async def later(lease, error):
        raise LookupError(lease.item)

    working = await started("a", "b", on_error=plain if kind == "plain" else later)
    await working.end("a", Boom())
    assert [type(context["exception"]) for context in working.reported] == [LookupError]
    assert "on_error" in working.messages[0]
    assert [*working.running] == ["b"]
    await working.end("b")
    await asyncio.sleep(1)
    await working.end("a")
    await working.stop()
    assert working.store.acknowledged == ["b", "a"]


@virtual
async def test_without_on_error_the_loop_reports_the_handlers():
    working = await started("a")
    await working.end("a", Boom())
    assert [type(context["exception"]) for context in working.reported] == [Boom]
    await working.stop()


@pytest.mark.parametrize("draw", [0.0, 0.5, 1.0])
@virtual
async def test_delays_grow_to_the_longest_and_half_is_random(monkeypatch, draw):
    monkeypatch.setattr(module.random, "random", lambda: draw)
    working = await started("a", retry=(1.0, 2.0, 60.0), on_error=lambda *_: None)
    for _ in range(9):
        await working.end("a", Boom())
        await asyncio.sleep(61)
    delays = [delay for _, delay in working.store.given_back]
    assert delays == [each * (0.5 + draw / 2) for each in (1, 2, 4, 8, 16, 32, 60, 60, 60)]
    await working.stop()


@virtual
async def test_a_delay_does_not_overflow_after_many_attempts():
    working = await started(retry=("1s", 1e200, "1m"), on_error=lambda *_: None)
    working.store.put("q", "a")
    for _ in range(4):
        await settle()
        await working.end("a", Boom())
        await asyncio.sleep(61)
    assert 30 <= working.store.given_back[-1][1] <= 60
    await working.stop()


@virtual
async def test_an_item_is_dead_after_its_attempts():
    working = await started("a", max_attempts=2, on_error=lambda *_: None)
    for _ in range(2):
        await working.end("a", Boom())
        await asyncio.sleep(2)
    assert (working.store.dead, [*working.running]) == (["a"], [])
    await working.stop()


@pytest.mark.asyncio
async def test_a_handler_that_cancels_itself_gives_back_at_once():
    working = await started("a", on_error=lambda *_: pytest.fail("it is no error"))
    await working.end("a", asyncio.CancelledError())
    assert [delay for _, delay in working.store.given_back] == [None]
    assert [each.attempts for each in working.runs] == [1, 2]
    await working.stop()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
@virtual
async def test_another_exception_of_a_handler_ends_the_work(kind):
    store = QueuesInMemory()
    for item in "abc":
        store.put("q", item)

    async def handle(lease):
        if lease.item == "a":
            await asyncio.sleep(1)
            raise kind("enough")
        await asyncio.sleep(5)

    # In this task: from another one the loop would raise it.
    with pytest.raises(kind, match="enough"):
        await AsyncVerbs.work(store, "q", handle, concurrency=2)
    assert [(item.item, delay) for item, delay in store.given_back] == [("a", None)]
    assert (store.acknowledged, store.leases) == (["b"], {})
    assert asyncio.get_running_loop().time() == pytest.approx(5)


@pytest.mark.asyncio
async def test_what_is_no_async_function_is_an_error_of_its_item():
    working = await started("a", handler=lambda lease: None)
    assert [type(context["exception"]) for context in working.reported] == [TypeError]
    await working.stop()


# Its lease.


@virtual
async def test_a_lease_is_extended_at_half_time_while_its_handler_runs():
    working = await started("a", lease="10s")
    await asyncio.sleep(26)
    assert [when for _, when in working.store.extended] == [5, 10, 15, 20, 25]
    assert [*working.running] == ["a"]
    await working.end("a")
    await asyncio.sleep(20)
    assert (len(working.runs), working.store.acknowledged) == (1, ["a"])
    await working.stop()


@virtual
async def test_a_handler_whose_lease_is_gone_is_cancelled():
    working = await started("a", lease=10)
    working.store.steal(working.runs[0].id)
    await asyncio.sleep(4)
    assert [*working.running] == ["a"]
    await asyncio.sleep(1.5)
    assert [each.attempts for each in working.runs] == [1, 2]
    assert (working.store.given_back, working.store.gone, working.reported) == ([], 1, [])
    await working.end("a")
    await working.stop()
    assert working.store.acknowledged == ["a"]


@virtual
async def test_a_lease_that_is_over_by_this_clock_is_lost():
    working = await started("a", lease=10)
    working.store.away = True
    await asyncio.sleep(9.9)
    assert [*working.running] == ["a"]
    await asyncio.sleep(0.2)
    assert not working.running
    working.store.comes_back()
    await asyncio.sleep(10)
    assert [*working.running] == ["a"]
    assert (working.store.acknowledged, working.store.given_back) == ([], [])
    await working.end("a")
    await working.stop()
    assert len(working.messages) == 1, "of the outage"


@virtual
async def test_a_handler_that_ignores_cancellation_keeps_its_slot():
    free, runs = asyncio.Event(), []

    async def stubborn(lease):
        runs.append(lease.item)
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue
        return "dropped"

    working = await started("a", "b", handler=stubborn, lease=10)
    lost = next(iter(working.store.leases))
    working.store.steal(lost)
    await asyncio.sleep(100)
    assert runs == ["a"]
    assert working.store.acknowledged == []
    free.set()
    await settle()
    assert working.store.acknowledged == ["a", "b"], "each by its second, or only, lease"
    assert runs == ["a", "a", "b"]
    await working.stop()


@virtual
async def test_what_a_handler_returns_after_its_lease_is_dropped():
    working = Working("a")

    async def slow_to_leave(lease):
        try:
            await working.handle(lease)
        except asyncio.CancelledError:
            return "all the same"

    working.arguments["lease"] = 10
    working.start(slow_to_leave)
    await settle()
    working.store.away = True
    await asyncio.sleep(10)
    working.store.comes_back()
    await settle()
    assert working.store.acknowledged == []
    await working.stop()


@virtual
async def test_no_extension_is_asked_for_when_the_handler_has_ended():
    working = await started("a", lease=10)
    await asyncio.sleep(4)
    await working.end("a")
    await asyncio.sleep(60)
    assert working.store.extended == []
    await working.stop()


@virtual
async def test_a_lease_is_not_thought_to_last_longer_than_it_does():
    working = await started("a", lease=10)
    working.store.trip = 2
    await asyncio.sleep(8)
    [(_, when)] = working.store.extended
    assert when == 7, "asked for at half time"
    working.store.away = True
    await asyncio.sleep(7.5)
    assert working.store.leases, "for a little longer"
    assert not working.running, "counted from before the request"
    await asyncio.sleep(2)
    await working.stop()


def test_a_loop_that_closes_gives_back_what_is_leased():
    async def leave():
        working = await started("a", "b", concurrency=2)
        assert len(working.running) == 2
        return working.store

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        store = runner.run(leave())
    assert sorted(item.item for item, _ in store.given_back) == ["a", "b"]
    assert not store.leases
