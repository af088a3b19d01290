"""Other threads, other loops, other processes, and the end of each."""

import asyncio
import gc
import os
import subprocess
import sys
import textwrap
import weakref

import pytest

from purgatory_async import DelayedOperation, Outcome, Purgatory, Timer

PATIENCE = 60  # seconds until a hanging thread or process is called one; nothing here waits that long


def watch(purgatory, *keys, timeout=None):
    operation = DelayedOperation(timeout)
    purgatory.try_complete_else_watch(operation, keys or ["k"])
    return operation


@pytest.mark.asyncio
async def test_an_operation_that_has_ended_may_be_awaited_on_any_loop():
    async with Purgatory() as purgatory:
        operation = watch(purgatory)
        purgatory.complete_for_key("k")

    async def elsewhere() -> Outcome:
        return await operation

    assert await asyncio.to_thread(asyncio.run, elsewhere()) is Outcome.COMPLETED


@pytest.fixture(params=["asyncio", "uvloop"])
def loop(request):
    """A loop that the test closes itself."""
    new = pytest.importorskip(request.param).new_event_loop()
    yield new
    new.close()


def test_ending_the_program_cancels_its_waiters_cleanly():
    seen = []
    purgatory = Purgatory()
    operations = []

    async def waiter(*keys) -> None:
        try:
            await purgatory.wait(*keys, timeout=60)
        except asyncio.CancelledError:
            seen.append(keys)
            raise

    async def main() -> None:
        operations.append([asyncio.create_task(waiter("a")), asyncio.create_task(waiter("a", "b"))])
        await asyncio.sleep(0)
        assert purgatory.pending == 2

    asyncio.run(main())
    assert sorted(seen) == [("a",), ("a", "b")]
    assert (purgatory.pending, purgatory.watched, purgatory.keys, purgatory.timer.pending) == (0, 0, 0, 0)
    assert purgatory.close() == []


@pytest.mark.asyncio
async def test_public_objects_are_weakly_referable_and_not_kept():
    def make() -> list[weakref.ref]:
        timer = Timer()
        purgatory = Purgatory(timer=timer)
        operation = watch(purgatory, timeout=60)
        handle = timer.call_later(60, print)
        made = [timer, purgatory, operation, handle, purgatory.portal()]
        handle.cancel()
        operation.cancel()
        purgatory.close()
        timer.close()
        return [weakref.ref(thing) for thing in made]

    references = make()
    gc.collect()
    assert [reference() for reference in references] == [None] * len(references)


@pytest.mark.asyncio
async def test_a_wait_assumes_nothing_about_when_its_first_step_runs(purgatory):
    """As an eager task factory does it, the first step may run inside the call that makes the task."""
    coroutine = purgatory.wait("k")
    future = coroutine.send(None)
    assert purgatory.pending == 1
    assert purgatory.complete_for_key("k", "result") == 1
    assert future.done()
    with pytest.raises(StopIteration) as ended:
        coroutine.send(None)
    assert ended.value.value == "result"
    with pytest.raises(StopIteration) as ended:
        purgatory.wait("k", until=lambda: "at once").send(None)
    assert ended.value.value == "at once"


@pytest.mark.slow
@pytest.mark.parametrize("loop_name", ["asyncio", "uvloop"])
def test_development_mode_shows_no_warning(loop_name):
    program = f"""
        import asyncio, {loop_name}
        from purgatory_async import DelayedOperation, OperationExpired, Purgatory

        async def main():
            assert asyncio.get_running_loop().get_debug()
            async with Purgatory() as purgatory:
                portal = purgatory.portal()
                task = asyncio.create_task(purgatory.wait("k", timeout=60))
                await asyncio.to_thread(portal.call, asyncio.sleep(0).close)
                await asyncio.to_thread(portal.complete_for_key, "k", 7)
                assert await task == 7
                try:
                    await purgatory.wait("k", timeout=0.001)
                except OperationExpired:
                    pass
                operation = DelayedOperation(60)
                purgatory.try_complete_else_watch(operation, ["k"])
                operation.cancel()
                assert await purgatory.drain(60)

        with asyncio.Runner(loop_factory={loop_name}.new_event_loop) as runner:
            runner.run(main())
    """
    ran = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", textwrap.dedent(program)],
        env=os.environ | {"PYTHONASYNCIODEBUG": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
