"""The portal: a purgatory's verbs from other threads, which never hang."""

import asyncio
import concurrent.futures
import contextvars
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from purgatory_async import DelayedOperation, Outcome, Purgatory
from purgatory_async.testing import settle
from tests.core.recording import Recorded, Switch, errors_of_loop

THREADS = 4
CALLS = 5_000
PATIENCE = 60  # seconds until a hanging thread is called one; nothing here waits that long


def watch(purgatory, *keys):
    operation = DelayedOperation()
    purgatory.try_complete_else_watch(operation, keys or ["k"])
    return operation


# The four verbs.


@pytest.mark.asyncio
async def test_each_verb_does_from_a_thread_what_it_does_on_the_loop():
    async with Purgatory() as purgatory:
        portal = purgatory.portal()
        switch, error = Switch(), KeyError("lost")
        checked = Recorded([], holds=switch)
        purgatory.try_complete_else_watch(checked, ["checked"])
        completed, failed, cancelled = (watch(purgatory, key) for key in ("completed", "failed", "cancelled"))

        def elsewhere() -> list[bool]:
            switch.on = True  # the condition first, the signal after
            return [
                portal.check_and_complete("checked"),
                portal.complete_for_key("completed", "result"),
                portal.fail_for_key("failed", error),
                portal.cancel_for_key("cancelled"),
            ]

        assert await asyncio.to_thread(elsewhere) == [True] * 4
        await settle()
        assert [o.outcome for o in (checked, completed, failed, cancelled)] == [
            Outcome.COMPLETED,
            Outcome.COMPLETED,
            Outcome.FAILED,
            Outcome.CANCELLED,
        ]
        assert completed.result == "result"
        assert failed.exception is error


@pytest.mark.asyncio
async def test_a_verb_is_handed_over_and_not_carried_out_in_the_call():
    async with Purgatory() as purgatory:
        operation = watch(purgatory)
        assert purgatory.portal().complete_for_key("k") is True
        assert operation.outcome is None
        await settle()
        assert operation.outcome is Outcome.COMPLETED


@pytest.mark.asyncio
async def test_a_waiting_task_is_woken_at_once_on_an_idle_loop():
    async with Purgatory() as purgatory:
        portal = purgatory.portal()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(portal.complete_for_key, "k", "from a thread")
            assert await purgatory.wait("k", timeout=PATIENCE) == "from a thread"


@pytest.mark.asyncio
async def test_an_error_in_a_verb_goes_to_the_loops_exception_handler():
    async with Purgatory() as purgatory:
        reported = errors_of_loop()
        assert purgatory.portal().fail_for_key("k", "no exception") is True
        await settle()
        assert [type(context["exception"]) for context in reported] == [TypeError]


@pytest.mark.slow
@pytest.mark.asyncio
async def test_calls_arrive_all_and_in_order_for_each_thread():
    arrived: dict[int, list[int]] = {thread: [] for thread in range(THREADS)}

    class Observing:
        def notify(self, event) -> None:
            thread, number = event.key
            arrived[thread].append(number)

    async with Purgatory(observer=Observing()) as purgatory:
        portal = purgatory.portal()
        verbs = [portal.check_and_complete, portal.complete_for_key, portal.cancel_for_key]
        start = threading.Barrier(THREADS, timeout=PATIENCE)

        def send(thread: int) -> bool:
            start.wait()
            return all(verbs[number % 3]((thread, number)) for number in range(CALLS))

        with ThreadPoolExecutor(THREADS) as pool:
            sending = [asyncio.wrap_future(pool.submit(send, thread)) for thread in range(THREADS)]
            assert await asyncio.gather(*sending) == [True] * THREADS
        await settle()
    assert arrived == {thread: list(range(CALLS)) for thread in range(THREADS)}


@pytest.mark.slow
@pytest.mark.asyncio
async def test_verbs_and_calls_of_a_thread_share_one_order():
    seen: list[int] = []
    switch = Switch()

    def note() -> bool:
        seen.append(-1)
        return False

    async with Purgatory() as purgatory:
        portal = purgatory.portal()
        purgatory.try_complete_else_watch(Recorded([], holds=note), ["k"])
        seen.clear()

        def send() -> None:
            for number in range(CALLS):
                portal.check_and_complete("k")
                portal.call(seen.append, number)
            switch.on = True

        await asyncio.to_thread(send)
        await settle()
    assert seen == [step for number in range(CALLS) for step in (-1, number)]


# call().


@pytest.mark.asyncio
async def test_call_runs_on_the_loop_thread_and_returns_the_result():
    async with Purgatory() as purgatory:
        portal = purgatory.portal()

        def elsewhere() -> tuple[int, int]:
            future = portal.call(lambda a, b: (threading.get_ident(), a - b), 7, 3)
            assert isinstance(future, concurrent.futures.Future)
            return future.result(PATIENCE)

        assert await asyncio.to_thread(elsewhere) == (threading.get_ident(), 4)


@pytest.mark.parametrize(
    "error",
    [KeyError("k"), asyncio.CancelledError("mine"), GeneratorExit("mine"), StopIteration("mine")],
    ids=repr,
)
@pytest.mark.asyncio
async def test_call_gives_what_it_raised_and_the_loop_does_not_mind(error):
    def fails() -> None:
        raise error

    async with Purgatory() as purgatory:
        reported = errors_of_loop()
        future = purgatory.portal().call(fails)
        await settle()
        assert future.exception(0) is error
        assert reported == []


@pytest.mark.asyncio
async def test_a_call_that_is_cancelled_in_time_never_runs():
    async with Purgatory() as purgatory:
        ran: list[int] = []
        first, second = (purgatory.portal().call(ran.append, number) for number in range(2))
        assert first.cancel()
        await settle()
        assert (first.cancelled(), second.done(), ran) == (True, True, [1])
        assert concurrent.futures.wait([first, second], PATIENCE).not_done == set()
        assert not second.cancel()


@pytest.mark.asyncio
async def test_a_call_keeps_nothing_alive_once_it_has_run():
    class Thing:
        pass

    async with Purgatory() as purgatory:
        thing = Thing()
        reference = weakref.ref(thing)
        future = purgatory.portal().call(lambda kept: None, thing)
        del thing
        await settle()
        assert future.done()
        assert reference() is None


@pytest.mark.asyncio
async def test_a_call_runs_in_the_context_of_its_caller():
    variable = contextvars.ContextVar("variable", default="loop")
    async with Purgatory() as purgatory:
        portal = purgatory.portal()

        def elsewhere() -> str:
            variable.set("thread")
            return portal.call(variable.get).result(PATIENCE)

        assert await asyncio.to_thread(elsewhere) == "thread"
        assert variable.get() == "loop"


# The end of the loop. These make their own loops, of the kind the test runs on.


@pytest.fixture(params=["asyncio", "uvloop"])
def loop(request):
    """A loop of each kind that the test itself runs and closes."""
    module = pytest.importorskip(request.param)
    new = module.new_event_loop()
    yield new
    new.close()


def open_portal(loop):
    purgatory = Purgatory()

    async def begin():
        return purgatory.portal()

    return purgatory, loop.run_until_complete(begin())


def test_after_the_loop_closed_verbs_are_false_and_calls_cancel(loop):
    _, portal = open_portal(loop)
    loop.close()
    assert portal.check_and_complete("k") is False
    assert portal.complete_for_key("k", 1) is False
    assert portal.fail_for_key("k", KeyError()) is False
    assert portal.cancel_for_key("k") is False
    future = portal.call(print)
    assert future.cancelled()
    assert concurrent.futures.wait([future], PATIENCE).done == {future}


def test_calls_queued_when_the_loop_closes_end_cancelled(loop):
    _, portal = open_portal(loop)
    ran: list[int] = []
    with ThreadPoolExecutor(THREADS) as pool:
        queued = list(pool.map(lambda number: portal.call(ran.append, number), range(100), timeout=PATIENCE))
        waiting = pool.submit(concurrent.futures.wait, queued)
        first_result = pool.submit(queued[0].exception)
        loop.close()
        assert waiting.result(PATIENCE).done == set(queued)
        with pytest.raises(concurrent.futures.CancelledError):
            first_result.result(PATIENCE)
    assert all(future.cancelled() for future in queued)
    assert ran == []


def test_a_call_cancelled_by_a_thread_is_notified_at_loop_close(loop):
    _, portal = open_portal(loop)
    future = portal.call(print)
    assert future.cancel()
    loop.close()
    assert concurrent.futures.wait([future], PATIENCE).done == {future}


@pytest.mark.slow
def test_no_thread_hangs_on_a_loop_that_closes_during_calls(loop):
    _, portal = open_portal(loop)
    started = threading.Barrier(THREADS + 1, timeout=PATIENCE)

    def pour() -> tuple[int, int]:
        served = cancelled = 0
        started.wait()
        while not cancelled:
            try:
                served += portal.call(lambda: 1).result(PATIENCE)
            except concurrent.futures.CancelledError:
                cancelled += 1
        return served, cancelled

    with ThreadPoolExecutor(THREADS) as pool:
        pouring = [pool.submit(pour) for _ in range(THREADS)]
        started.wait()
        for _ in range(50):
            loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        assert [future.result(PATIENCE)[1] for future in pouring] == [1] * THREADS


def test_an_operation_pending_at_loop_close_is_beyond_the_portal(loop):
    purgatory, portal = open_portal(loop)

    async def begin() -> DelayedOperation[object]:
        return watch(purgatory)

    operation = loop.run_until_complete(begin())
    loop.close()
    assert portal.complete_for_key("k") is False
    assert operation.outcome is None
    assert purgatory.close() == [operation]


@pytest.mark.asyncio
async def test_portals_of_one_purgatory_are_alike():
    async with Purgatory("served") as purgatory:
        operations = [watch(purgatory, key) for key in "ab"]
        assert purgatory.portal().complete_for_key("a")
        assert purgatory.portal().complete_for_key("b")
        await settle()
        assert [operation.outcome for operation in operations] == [Outcome.COMPLETED] * 2
        assert "served" in repr(purgatory.portal())


@pytest.mark.asyncio
async def test_a_portal_reaches_a_closed_purgatory_without_an_error():
    reported = errors_of_loop()
    async with Purgatory() as purgatory:
        portal = purgatory.portal()
    assert portal.complete_for_key("k") is True
    assert portal.call(lambda: purgatory.closed).done() is False
    await settle()
    assert reported == []
