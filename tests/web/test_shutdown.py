"""SIGTERM and SIGINT: held polls are answered 503, and the server's own handling stays as it was."""

import asyncio
import os
import signal
import threading

import pytest

from purgatory_async import Purgatory
from purgatory_async.testing import settle
from tests.conftest import default_loops
from tests.web.exchange import Exchange

both = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])

PATIENCE = 60  # seconds for a signal to be heard

each_loop = pytest.mark.parametrize("loop_factory", default_loops().values(), ids=default_loops())


@pytest.fixture
def restored():
    """Restore the signal handlers after each test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield before
    for number, handler in before.items():
        signal.signal(number, handler)


async def held(purgatory, count=1):
    exchanges = [Exchange(purgatory.wait, "k").start() for _ in range(count)]
    await settle()
    assert not any(exchange.answered for exchange in exchanges)
    return exchanges


async def let_go(exchanges):
    """Wait, really: how many turns a loop takes to hear of a signal is its own affair."""
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(exchange.task for exchange in exchanges))
    assert {exchange.status for exchange in exchanges} == {503}


@pytest.mark.asyncio
@both
async def test_a_signal_releases_every_poll_and_reaches_the_app(purgatory, heard, number):
    exchanges = await held(purgatory, 50)
    signal.raise_signal(number)
    assert heard == [number]
    await let_go(exchanges)
    assert {exchange.headers["connection"] for exchange in exchanges} == {"close"}
    assert {exchange.headers["retry-after"] for exchange in exchanges} == {"0", "1"}
    assert purgatory.pending == 0


@pytest.mark.asyncio
@both
async def test_what_is_set_by_add_signal_handler_is_called_too(purgatory, restored, number):
    loop, called = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(number, called.set)
    try:
        quiet = signal.getsignal(number)
        exchanges = await held(purgatory, 3)
        assert signal.getsignal(number) is not quiet
        os.kill(os.getpid(), number)
        await let_go(exchanges)
        await asyncio.wait_for(called.wait(), PATIENCE)
        assert signal.getsignal(number) == quiet
        called.clear()
        os.kill(os.getpid(), number)  # without us, as before
        await asyncio.wait_for(called.wait(), PATIENCE)
    finally:
        loop.remove_signal_handler(number)


@pytest.mark.asyncio
async def test_handlers_are_hooked_only_while_polls_are_held(purgatory, heard):
    own = signal.getsignal(signal.SIGTERM)
    first, second = await held(purgatory), await held(purgatory)
    assert signal.getsignal(signal.SIGTERM) is not own
    first[0].hang_up()
    await settle()
    assert signal.getsignal(signal.SIGTERM) is not own
    second[0].hang_up()
    await settle()
    assert signal.getsignal(signal.SIGTERM) is own
    assert signal.getsignal(signal.SIGINT) is own


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "handler",
    [signal.SIG_DFL, signal.SIG_IGN, signal.default_int_handler],
    ids=["default", "ignored", "python"],
)
async def test_an_unhandled_signal_is_left_alone(purgatory, restored, handler):
    for number in restored:
        signal.signal(number, handler)
    exchanges = await held(purgatory)
    assert {signal.getsignal(number) for number in restored} == {handler}
    exchanges[0].hang_up()
    await settle()
    assert {signal.getsignal(number) for number in restored} == {handler}


@pytest.mark.asyncio
async def test_a_handler_set_meanwhile_stays(purgatory, restored):
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    exchanges = await held(purgatory)
    signal.signal(signal.SIGTERM, theirs := lambda number, frame: None)
    exchanges[0].hang_up()
    await settle()
    assert signal.getsignal(signal.SIGTERM) is theirs


@pytest.mark.asyncio
async def test_a_handler_that_wraps_ours_keeps_working(purgatory, restored):
    heard = []
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append("application"))
    first = await held(purgatory)
    ours = signal.getsignal(signal.SIGTERM)

    def theirs(number, frame):
        heard.append("theirs")
        ours(number, frame)

    signal.signal(signal.SIGTERM, theirs)
    first[0].hang_up()
    await settle()
    second = await held(purgatory)  # comes first again, over theirs
    signal.raise_signal(signal.SIGTERM)
    assert heard == ["theirs", "application"]
    await let_go(second)
    assert signal.getsignal(signal.SIGTERM) is theirs
    heard.clear()
    signal.raise_signal(signal.SIGTERM)
    assert heard == ["theirs", "application"]


@pytest.mark.asyncio
async def test_a_forked_process_does_not_touch_its_parents_loop(purgatory, heard, monkeypatch):
    exchanges = await held(purgatory)
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        signal.raise_signal(signal.SIGTERM)
    await settle()
    assert heard == [signal.SIGTERM]
    assert not exchanges[0].answered
    purgatory.close()
    await let_go(exchanges)


@pytest.mark.asyncio(loop_factories=["virtual"])
async def test_for_a_minute_after_a_signal_no_poll_is_held(heard):
    async with Purgatory() as purgatory:
        exchanges = await held(purgatory)
        signal.raise_signal(signal.SIGTERM)
        await let_go(exchanges)
        for _ in range(2):
            late = Exchange(purgatory.wait, "k").start()
            await settle()
            assert (late.status, late.headers["connection"]) == (503, "close")
            assert purgatory.pending == 0
            await asyncio.sleep(59)
        await asyncio.sleep(59)
        exchanges = await held(purgatory)
        purgatory.complete_for_key("k")
        await settle()
        assert exchanges[0].status == 200


@each_loop
def test_another_thread_sets_no_hook_and_close_releases_polls(heard, loop_factory):
    seen = []

    async def main():
        async with Purgatory() as purgatory:
            exchanges = await held(purgatory, 3)
            seen.append(signal.getsignal(signal.SIGTERM))
            purgatory.close()
            await let_go(exchanges)
            seen.append("let go")

    def run():
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(main())

    own = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [own, "let go"]


@each_loop
@pytest.mark.parametrize("whose", ["its own", "others"])
def test_ctrl_c_ends_asyncio_run_as_ever_and_leaves_no_handler(restored, loop_factory, whose):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ends = []

    async def main():
        async with Purgatory() as purgatory:
            exchanges = await held(purgatory, 3)
            asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)
            try:
                await asyncio.wait_for(asyncio.Event().wait(), PATIENCE)
            except asyncio.CancelledError:
                ends.append("cancelled")
                if whose == "its own":
                    await let_go(exchanges)
                    ends.append("let go")
                raise

    for _ in range(2):  # the second time asyncio.run finds what it looks for
        with pytest.raises(KeyboardInterrupt), asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(main())
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert ends == (["cancelled", "let go"] if whose == "its own" else ["cancelled"]) * 2


@each_loop
def test_ctrl_c_that_cancels_all_tasks_leaves_no_handler(restored, loop_factory):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    purgatory = Purgatory()
    seen = []

    async def main():
        await held(purgatory, 3)
        seen.append(signal.getsignal(signal.SIGINT))

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())
        seen.append(signal.getsignal(signal.SIGINT))
    purgatory.close()
    assert seen[0] is seen[1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@each_loop
def test_our_kept_handler_is_harmless_after_the_loop_closed(heard, loop_factory):
    kept = []

    async def main():
        async with Purgatory() as purgatory:
            exchanges = await held(purgatory)
            kept.extend((signal.getsignal(signal.SIGTERM), asyncio.get_running_loop()))
            purgatory.close()
            await let_go(exchanges)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())
    kept[0](signal.SIGTERM, None)
    assert heard == [signal.SIGTERM]
