"""One loop owns a purgatory; it refuses every other loop, thread or process."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from purgatory_async import DelayedOperation, Purgatory, PurgatoryClosed, PurgatoryError, Timer
from purgatory_async.testing import assert_clean
from tests.conftest import default_loops
from tests.core.recording import Recorded
from tests.forks import in_child, needs_fork

WATCH = pytest.param(lambda p: p.try_complete_else_watch(DelayedOperation(), ["k"]), id="watching")
VERBS = [
    pytest.param(lambda p: p.check_and_complete("k"), id="check_and_complete"),
    pytest.param(lambda p: p.complete_for_key("k"), id="complete_for_key"),
    pytest.param(lambda p: p.fail_for_key("k", KeyError()), id="fail_for_key"),
    pytest.param(lambda p: p.cancel_for_key("k"), id="cancel_for_key"),
    pytest.param(lambda p: p.close(), id="close"),
]
PORTAL = pytest.param(lambda p: p.portal(), id="portal")


def watch(purgatory):
    operation = DelayedOperation()
    purgatory.try_complete_else_watch(operation, ["k"])
    return operation


def fails() -> bool:
    raise KeyError("the condition")


@pytest.fixture
def home_loop():
    """A loop that runs on demand."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def home(home_loop):
    """A purgatory with one operation, owned by a loop that does not run at the moment."""
    purgatory = Purgatory("home")

    async def begin() -> None:
        watch(purgatory)

    home_loop.run_until_complete(begin())
    yield purgatory
    purgatory.close()


# Without a loop.


def test_constructing_one_needs_no_running_loop():
    assert Purgatory().pending == 0


@pytest.mark.parametrize("use", [WATCH, PORTAL])
def test_watch_without_a_running_loop_is_refused(use):
    purgatory = Purgatory()
    with pytest.raises(PurgatoryError, match="loop"):
        use(purgatory)
    assert (purgatory.pending, purgatory.watched, purgatory.keys, purgatory.timer.pending) == (0, 0, 0, 0)


def test_on_a_manual_clock_watching_needs_no_loop(manual_clock):
    purgatory = Purgatory(timer=Timer(clock=manual_clock))
    operation = watch(purgatory)
    assert purgatory.cancel_for_key("k") == [operation]
    with pytest.raises(PurgatoryError, match="loop"):
        purgatory.portal()


def test_between_two_runs_of_its_loop_watching_is_refused(home):
    with pytest.raises(PurgatoryError, match="running event loop"):
        watch(home)
    assert home.pending == 1


# Another loop.


@pytest.mark.parametrize("use", [WATCH, PORTAL, *VERBS])
def test_use_from_another_loop_is_refused_and_changes_nothing(use, home):
    async def elsewhere() -> None:
        with pytest.raises(PurgatoryError, match="belongs to"):
            use(home)

    asyncio.run(elsewhere())
    assert (home.pending, home.closed) == (1, False)


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda p: p.wait("k"), id="wait"),
        pytest.param(lambda p: p.wait("k", until=lambda: True), id="wait with until"),
        pytest.param(lambda p: p.drain(), id="drain"),
        pytest.param(lambda p: next(p.operations()), id="awaiting an operation"),
    ],
)
def test_wait_on_another_loop_is_refused_and_changes_nothing(use, home, home_loop):
    async def elsewhere() -> None:
        with pytest.raises(PurgatoryError, match="belongs to"):
            await use(home)

    asyncio.run(elsewhere())

    async def at_home() -> None:
        watch(home).cancel()

    home_loop.run_until_complete(at_home())
    assert home.pending == 1


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda p: p.try_complete_else_watch(DelayedOperation(), []), id="no keys"),
        pytest.param(lambda p: p.try_complete_else_watch(DelayedOperation(), "k"), id="a bare str"),
        pytest.param(lambda p: p.try_complete_else_watch("no operation", ["k"]), id="no operation"),
        pytest.param(
            lambda p: p.try_complete_else_watch(Recorded([], holds=fails), ["k"]), id="its check raises"
        ),
    ],
)
def test_a_watch_that_was_refused_makes_no_loop_the_owner(use):
    purgatory = Purgatory()

    async def refused() -> None:
        with pytest.raises((KeyError, TypeError, ValueError)):
            use(purgatory)

    async def taken() -> None:
        watch(purgatory).cancel()

    asyncio.run(refused())
    asyncio.run(taken())
    purgatory.close()


def test_purgatories_on_loops_of_two_threads_are_independent():
    both_wait = threading.Barrier(2, timeout=60)

    async def serve() -> str:
        async with Purgatory() as purgatory:
            task = asyncio.create_task(purgatory.wait("k"))
            await asyncio.sleep(0)
            both_wait.wait()
            purgatory.complete_for_key("k", threading.current_thread().name)
            return await task

    def run() -> bool:
        return asyncio.run(serve()) == threading.current_thread().name

    with ThreadPoolExecutor(2) as pool:
        assert all(future.result() for future in [pool.submit(run) for _ in range(2)])


# Another thread.


WAITS = [
    pytest.param(lambda p: p.wait("k").send(None), id="wait"),
    pytest.param(lambda p: p.wait("k", until=bool).send(None), id="wait with until"),
    pytest.param(lambda p: p.drain().send(None), id="drain"),
    pytest.param(lambda p: next(iter(next(p.operations()).__await__())), id="awaiting an operation"),
]


@pytest.mark.parametrize("debug", [False, True], ids=["no debug", "debug"])
@pytest.mark.parametrize("use", [WATCH, PORTAL, *VERBS, *WAITS])
@pytest.mark.asyncio
async def test_another_thread_is_refused_and_pointed_to_the_portal(use, debug):
    asyncio.get_running_loop().set_debug(debug)
    purgatory = Purgatory()
    watch(purgatory)

    def elsewhere() -> None:
        with pytest.raises(PurgatoryError, match=r"another thread.*portal\(\)"):
            use(purgatory)

    await asyncio.to_thread(elsewhere)
    assert (purgatory.pending, purgatory.closed) == (1, False)
    purgatory.close()
    assert_clean(purgatory)


@pytest.mark.asyncio
async def test_another_thread_is_refused_on_a_manual_clock_too(manual_clock):
    async with Purgatory(timer=Timer(clock=manual_clock)) as purgatory:
        watch(purgatory)

        def elsewhere() -> None:
            with pytest.raises(PurgatoryError, match=r"portal\(\)"):
                watch(purgatory)
            with pytest.raises(PurgatoryError, match=r"portal\(\)"):
                purgatory.complete_for_key("k")

        await asyncio.to_thread(elsewhere)
        assert purgatory.pending == 1


def in_a_thread(call):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


@pytest.mark.parametrize("where", [lambda call: call(), in_a_thread], ids=["same thread", "another thread"])
@pytest.mark.parametrize("debug", [False, True], ids=["no debug", "debug"])
@pytest.mark.parametrize("make_loop", default_loops().values(), ids=default_loops())
def test_between_two_runs_verbs_end_what_then_wakes(make_loop, debug, where):
    with closing(make_loop()) as loop:
        loop.set_debug(debug)
        purgatory = Purgatory()

        async def wait() -> asyncio.Task[str]:
            task = asyncio.create_task(purgatory.wait("k"))
            await asyncio.sleep(0)
            return task

        task = loop.run_until_complete(wait())
        assert where(lambda: purgatory.complete_for_key("k", "between")) == 1
        assert loop.run_until_complete(task) == "between"
        task = loop.run_until_complete(wait())
        assert [operation.keys for operation in where(purgatory.close)] == [()]
        with pytest.raises(PurgatoryClosed):
            loop.run_until_complete(task)


@pytest.mark.parametrize("make_loop", default_loops().values(), ids=default_loops())
def test_a_loop_moved_to_another_thread_keeps_its_purgatory(make_loop):
    watched, refused = threading.Event(), threading.Event()
    purgatory = Purgatory()

    async def use() -> None:
        watch(purgatory)
        watched.set()
        await asyncio.to_thread(refused.wait, 60)

    with closing(make_loop()) as loop, ThreadPoolExecutor(1) as pool:
        refused.set()
        loop.run_until_complete(use())
        watched.clear()
        refused.clear()
        second = pool.submit(lambda: loop.run_until_complete(use()))
        assert watched.wait(60)
        try:
            with pytest.raises(PurgatoryError, match=r"portal\(\)"):
                purgatory.check_and_complete("k")
        finally:
            refused.set()
            second.result()
        assert purgatory.complete_for_key("k") == 2
        purgatory.close()


# Another process.


def on_a_loop(use, purgatory):
    async def run() -> object:
        return use(purgatory)

    return asyncio.run(run())


@needs_fork
@pytest.mark.parametrize("use", [WATCH, PORTAL, *VERBS])
@pytest.mark.parametrize(
    "call", [pytest.param(lambda use, p: use(p), id="no loop"), pytest.param(on_a_loop, id="a loop")]
)
def test_a_forked_child_may_not_use_it_and_the_parent_goes_on(call, use, home):
    assert in_child(lambda: call(use, home)).startswith("PurgatoryError")
    assert (home.pending, home.closed) == (1, False)


@needs_fork
def test_a_forked_child_may_use_one_that_no_loop_had_owned():
    purgatory = Purgatory()

    async def use() -> str:
        task = asyncio.create_task(purgatory.wait("k"))
        await asyncio.sleep(0)
        purgatory.complete_for_key("k", "served in the child")
        return await task

    assert in_child(lambda: asyncio.run(use())) == "served in the child"
