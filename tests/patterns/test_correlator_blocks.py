"""The block of ``with expect(...)``: its deadline and the loss of the connection interrupt it, and nothing else."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from purgatory_async import OperationExpired, Purgatory, Timer
from purgatory_async.patterns import Correlator
from purgatory_async.patterns import correlator as module
from purgatory_async.testing import ManualClock, settle

pytestmark = pytest.mark.asyncio

Lose = Callable[["Caller"], object]


class Caller:
    """Calls on a clock of their own, whose sending never ends."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.purgatory = Purgatory(timer=Timer(clock=self.clock))
        self.calls: Correlator[str] = Correlator(self.purgatory)
        self.log: list[object] = []

    async def call(
        self, request_id: int, timeout: float | None, inside: Callable[[Any], Awaitable[object]]
    ) -> None:
        try:
            with self.calls.expect(request_id, timeout) as reply:
                self.log.append(await inside(reply))
        except BaseException as error:
            self.log.append(error)
            raise

    def begin(self, *given: Any) -> "asyncio.Task[None]":
        return asyncio.ensure_future(self.call(*given))


async def send(_: object) -> None:
    """Send to a transport whose buffer stays full."""
    await asyncio.get_running_loop().create_future()


LOSSES: dict[str, tuple[Lose, type[Exception]]] = {
    "deadline": (lambda caller: caller.clock.advance(5), OperationExpired),
    "close": (lambda caller: caller.calls.close(ConnectionError("lost")), ConnectionError),
    "fail_all": (lambda caller: caller.calls.fail_all(ConnectionError("lost")), ConnectionError),
}
lost = pytest.mark.parametrize(("lose", "error"), LOSSES.values(), ids=LOSSES)


@lost
async def test_a_loss_interrupts_the_sending(lose: Lose, error: type[Exception]) -> None:
    caller = Caller()
    task = caller.begin(7, 5, send)
    await settle()
    lose(caller)
    with pytest.raises(error):
        await task
    assert (task.cancelling(), task.cancelled(), caller.purgatory.pending, caller.calls.late) == (
        0,
        False,
        0,
        0,
    )
    assert isinstance(caller.log[0], error)


@lost
async def test_a_loss_before_the_block_interrupts_its_first_wait(lose: Lose, error: type[Exception]) -> None:
    caller = Caller()
    reply = caller.calls.expect(7, 5)
    lose(caller)
    with pytest.raises(error), reply:
        await asyncio.get_running_loop().create_future()


@lost
async def test_awaited_in_the_block_the_loss_is_raised_there(lose: Lose, error: type[Exception]) -> None:
    async def receive(reply: Any) -> object:
        with pytest.raises(error):
            await reply
        await asyncio.sleep(0)
        return "went on"

    async def receive_in_a_task(reply: Any) -> object:
        with pytest.raises(error):
            await asyncio.gather(reply, asyncio.sleep(0))
        return "went on"

    for receiving in (receive, receive_in_a_task):
        caller = Caller()
        task = caller.begin(7, 5, receiving)
        await settle()
        lose(caller)
        await task
        assert caller.log == ["went on"]


@lost
async def test_lost_by_its_own_block_it_may_still_be_awaited(lose: Lose, error: type[Exception]) -> None:
    caller = Caller()

    async def lose_and_receive(reply: Any) -> object:
        lose(caller)
        with pytest.raises(error):
            await reply
        return "went on"

    async def lose_and_send(_: object) -> None:
        lose(caller)
        await send(None)

    await caller.call(7, 5, lose_and_receive)
    assert caller.log == ["went on"]
    if error is OperationExpired:
        with pytest.raises(error):
            await caller.call(8, 5, lose_and_send)


@pytest.mark.parametrize("lose", [lose for lose, _ in LOSSES.values()], ids=LOSSES)
async def test_a_cancellation_from_outside_goes_on(lose: Lose) -> None:
    for before in (True, False):
        caller = Caller()
        task = caller.begin(7, 5, send)
        await settle()
        for step in (task.cancel, lambda: lose(caller))[:: 1 if before else -1]:  # noqa: B023 - called at once
            step()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (task.cancelled(), task.cancelling()) == (True, 1)


async def test_a_cancellation_on_its_way_into_the_block_goes_on() -> None:
    caller = Caller()

    async def call() -> None:
        task.cancel()  # it reaches the task in the block
        await caller.call(7, 5, send)

    task = asyncio.Task(call())
    asyncio.get_running_loop().call_soon(caller.calls.fail_all, ConnectionError("lost"))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (task.cancelled(), task.cancelling()) == (True, 1)


async def test_lost_by_what_it_calls_nothing_reaches_the_task_later() -> None:
    caller = Caller()

    async def lose() -> None:
        caller.calls.fail_all(ConnectionError("lost"))

    async def call_it(_: object) -> None:
        tasks.append(asyncio.create_task(lose()))  # runs here, where tasks begin eagerly

    tasks: list[asyncio.Task[None]] = []
    await caller.call(7, 5, call_it)
    await asyncio.gather(*tasks)
    await asyncio.sleep(0)
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]  # there is one


async def test_progress_moves_the_deadline_of_a_block() -> None:
    caller = Caller()
    replies: list[Any] = []

    async def progress(reply: Any) -> None:
        replies.append(reply)
        await send(None)

    task = caller.begin(7, 5, progress)
    await settle()
    for _ in range(3):
        caller.clock.advance(4)
        assert replies[0].reschedule(5) is True
    with pytest.raises(ValueError, match="timeout"):
        replies[0].reschedule(float("nan"))
    caller.clock.advance(4.999)
    await settle()
    assert not task.done()
    caller.clock.advance(0.001)
    with pytest.raises(OperationExpired):
        await task
    assert replies[0].reschedule(5) is False


@pytest.mark.parametrize(("inner", "outer"), [(5, 9), (9, 5), (5, 5)])
async def test_nested_each_block_raises_its_own(inner: float, outer: float) -> None:
    caller = Caller()

    async def nested(_: object) -> None:
        await caller.call(2, inner, send)

    task = caller.begin(1, outer, nested)
    await settle()
    caller.clock.advance(5)
    with pytest.raises(OperationExpired) as raised:
        await task
    assert raised.value.keys == ((2,) if inner < outer else (1,))
    assert task.cancelling() == 0


async def test_within_a_timeout_of_asyncio_that_ends_first() -> None:
    caller = Caller()
    with pytest.raises(TimeoutError) as raised:
        async with asyncio.timeout(0):
            await caller.call(7, 5, send)
    assert not isinstance(raised.value, OperationExpired)
    assert caller.purgatory.pending == 0


@pytest.mark.parametrize("end", ["resolve", "reject", "cancel"])
async def test_a_reply_leaves_the_sending_alone(end: str) -> None:
    caller = Caller()
    room = asyncio.Event()

    async def send_slowly(reply: Any) -> object:
        await room.wait()
        return (await asyncio.gather(reply, return_exceptions=True))[0]

    task = caller.begin(7, 5, send_slowly)
    await settle()
    if end == "resolve":
        caller.calls.resolve(7, "pong")
    elif end == "reject":
        caller.calls.reject(7, ValueError("pong"))
    else:
        caller.purgatory.cancel_for_key(7)
    caller.clock.advance(50)
    await settle()
    assert not task.done()
    room.set()
    await task
    assert end != "resolve" or caller.log == ["pong"]


async def test_after_the_block_nothing_interrupts_the_task() -> None:
    caller = Caller()

    async def leave_early(_: object) -> None:
        caller.calls.fail_all(ConnectionError("lost"))

    await caller.call(7, 5, leave_early)
    caller.clock.advance(50)
    await settle()
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]  # there is one


async def test_without_a_loop_a_block_gives_up_its_request() -> None:
    def block() -> int:
        caller = Caller()
        with caller.calls.expect(7, 5):
            assert caller.purgatory.pending == 1
        return caller.purgatory.pending

    assert await asyncio.to_thread(block) == 0


async def test_a_late_reply_is_told_from_an_unknown_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REMEMBERED", 3)
    caller = Caller()
    for request_id in (1, 2, 1, 3):
        caller.calls.expect(request_id, 5).cancel()
    answered = [caller.calls.resolve(request_id, "pong") for request_id in (1, 2, 3)]
    assert (answered, caller.calls.late, caller.calls.unknown) == ([False] * 3, 3, 0)
    unknown: tuple[Any, ...] = (4, None, [5])
    assert [caller.calls.resolve(request_id, "pong") for request_id in unknown] == [False] * 3
    assert caller.calls.reject(6, ValueError()) is False
    assert (caller.calls.late, caller.calls.unknown) == (7, 4)
    caller.calls.expect(4, 5).cancel()  # the fourth: it displaces the oldest
    assert not caller.calls.resolve(2, "pong")
    assert not caller.calls.resolve(1, "pong")
    assert (caller.calls.late, caller.calls.unknown) == (9, 5)
