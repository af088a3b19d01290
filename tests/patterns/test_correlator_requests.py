"""`Correlator.request`: ids in turn, one deadline over sending and reply, and which late replies are unknown."""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from enum import IntEnum
from typing import Any

import pytest

from purgatory_async import (
    OperationCancelled,
    OperationExpired,
    Purgatory,
    PurgatoryClosed,
    PurgatoryFull,
    Timer,
)
from purgatory_async.patterns import Correlator
from purgatory_async.testing import ManualClock, assert_clean, cancel_sweep, settle
from tests.loop.worlds import by_reference_counts_alone
from tests.patterns.table import LostError

pytestmark = pytest.mark.asyncio


class Line:
    """A connection whose sending ends when there is room, and which keeps what was sent."""

    def __init__(self, ids: range = range(1, 2**31), **settings: Any) -> None:
        self.clock = ManualClock()
        self.purgatory = Purgatory(timer=Timer(clock=self.clock), **settings)
        self.calls: Correlator[str] = Correlator(self.purgatory, ids=ids)
        self.sent: list[int] = []
        self.room = asyncio.Event()
        self.room.set()

    async def send(self, number: int) -> None:
        self.sent.append(number)
        await self.room.wait()

    def begin(self, timeout: float | None = 5) -> "asyncio.Task[str]":
        return asyncio.ensure_future(self.calls.request(self.send, timeout=timeout))

    def check_empty(self) -> None:
        assert_clean(self.purgatory)
        assert (self.purgatory.pending, self.purgatory.timer.pending) == (0, 0)


# Ids.


async def test_ids_are_issued_in_turn_and_wrap() -> None:
    line = Line(range(7, 1, -2))
    for number in (7, 5, 3, 7, 5):
        task = line.begin()
        await settle()
        assert line.sent[-1] == number
        assert line.calls.resolve(number, "pong")
        assert await task == "pong"
    line.check_empty()


async def test_without_ids_given_they_count_from_1() -> None:
    line = Line()
    tasks = [line.begin() for _ in range(3)]
    await settle()
    assert line.sent == [1, 2, 3]
    line.calls.fail_all(LostError())
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_an_id_that_anything_waits_for_is_passed_over() -> None:
    line = Line(range(5))
    line.calls.expect(1, 5)
    wait = asyncio.ensure_future(line.purgatory.wait(3))
    await settle()
    tasks = [line.begin() for _ in range(3)]
    await settle()
    assert line.sent == [0, 2, 4]
    line.calls.resolve(2, "pong")
    again = line.begin()
    await settle()
    assert line.sent == [0, 2, 4, 2]
    line.purgatory.close()
    await asyncio.gather(*tasks, wait, again, return_exceptions=True)


async def test_ids_of_64_bits_and_numbers_below_0_are_ids() -> None:
    for ids in (range(2**64), range(-3, 0)):
        line = Line(ids)
        task = line.begin()
        await settle()
        assert line.calls.resolve(ids[0], "pong") is True
        assert await task == "pong"
        assert line.calls.resolve(ids[0], "late") is False
        assert line.calls.resolve(ids[-1], "?") is False
        assert (line.calls.late, line.calls.unknown) == (2, 1)


ENDS: dict[str, Callable[[Line, "asyncio.Task[str]"], object]] = {
    "answered": lambda line, _: line.calls.resolve(2, "pong"),
    "refused": lambda line, _: line.calls.reject(2, LostError()),
    "expired": lambda line, _: line.clock.advance(4),
    "cancelled for its key": lambda line, _: line.purgatory.cancel_for_key(2),
    "caller cancelled": lambda _, task: task.cancel(),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_without_a_free_id_it_is_refused_until_one_ends(
    end: Callable[[Line, "asyncio.Task[str]"], object],
) -> None:
    line = Line(range(1, 4))
    tasks = [line.begin(timeout) for timeout in (5, 4, 5)]
    await settle()
    for _ in range(2):
        with pytest.raises(PurgatoryFull, match="all 3 ids are taken") as refused:
            await line.calls.request(line.send, timeout=5)
        assert refused.value.limit == 3
    assert (line.sent, line.purgatory.pending) == ([1, 2, 3], 3)
    end(line, tasks[1])
    again = line.begin()  # in the pass of the end
    await settle()
    assert line.sent == [1, 2, 3, 2]
    assert line.calls.resolve(2, "to the second") is True
    assert await again == "to the second"
    line.calls.fail_all(LostError())
    await asyncio.gather(*tasks, return_exceptions=True)
    assert line.calls.late == 0
    line.check_empty()


async def test_a_refused_request_uses_up_no_id() -> None:
    line = Line(max_pending=1)
    wrong: Any
    for wrong, error in ((float("nan"), ValueError), ("5", TypeError)):
        with pytest.raises(error, match="timeout"):
            await line.calls.request(line.send, timeout=wrong)
    for wrong in (None, 7, "send"):
        with pytest.raises(TypeError, match="send must be callable"):
            await line.calls.request(wrong, timeout=5)
    task = line.begin()
    await settle()
    with pytest.raises(PurgatoryFull, match="max_pending is 1"):
        await line.calls.request(line.send, timeout=5)
    line.calls.resolve(1, "pong")
    await task
    again = line.begin()
    await settle()
    assert line.sent == [1, 2]
    line.purgatory.close()
    with pytest.raises(PurgatoryClosed):
        await again
    with pytest.raises(PurgatoryClosed):
        await line.calls.request(line.send, timeout=5)
    assert line.sent == [1, 2]


async def test_closed_it_raises_and_sends_nothing() -> None:
    line = Line(range(1))
    task = line.begin()
    await settle()
    assert line.calls.close(lost := LostError()) == 1
    for request in (task, line.calls.request(line.send, timeout=5)):
        with pytest.raises(LostError) as raised:
            await request
        assert raised.value is lost
    assert line.sent == [0]
    line.check_empty()


# Sending.


async def test_what_sending_raises_ends_the_request() -> None:
    line = Line()

    async def send(_: int) -> None:
        raise LostError

    def raise_at_once(_: int) -> Awaitable[None]:
        raise LostError

    for sending in (send, raise_at_once):
        with pytest.raises(LostError):
            await line.calls.request(sending, timeout=5)
        line.check_empty()
    assert line.calls.resolve(1, "late") is False
    assert (line.calls.late, line.calls.unknown) == (1, 0)


async def test_a_plain_function_cannot_send() -> None:
    line = Line()
    send: Any = line.sent.append
    with pytest.raises(TypeError, match=r"send must be an async function, but .* returned None"):
        await line.calls.request(send, timeout=5)
    line.check_empty()


@pytest.mark.parametrize("refused", [False, True], ids=["resolve", "reject"])
async def test_a_reply_while_it_is_sent_waits_for_the_end_of_that(*, refused: bool) -> None:
    line = Line()
    line.room.clear()
    task = line.begin()
    await settle()
    assert (line.calls.reject(1, LostError()) if refused else line.calls.resolve(1, "pong")) is True
    assert line.calls.resolve(1, "another") is False
    assert line.calls.reject(1, ValueError()) is False
    assert (line.calls.late, line.calls.unknown) == (2, 0)
    await settle()
    assert not task.done()
    line.room.set()
    if refused:
        with pytest.raises(LostError):
            await task
    else:
        assert await task == "pong"
    line.check_empty()


LOSSES: dict[str, tuple[Callable[[Line], object], type[Exception]]] = {
    "deadline": (lambda line: line.clock.advance(5), OperationExpired),
    "close": (lambda line: line.calls.close(LostError()), LostError),
    "fail_all": (lambda line: line.calls.fail_all(LostError()), LostError),
}
each_loss = pytest.mark.parametrize(("lose", "error"), LOSSES.values(), ids=LOSSES)


@each_loss
@pytest.mark.parametrize("moment", ["sending", "replied while sending", "sent"])
async def test_a_loss_ends_it_at_any_moment(
    lose: Callable[[Line], object], error: type[Exception], moment: str
) -> None:
    line = Line()
    if moment != "sent":
        line.room.clear()
    task = line.begin()
    await settle()
    if moment == "replied while sending":
        assert line.calls.resolve(1, "pong") is True
    lose(line)
    line.check_empty()
    with pytest.raises(error):
        await task
    assert (task.cancelling(), task.cancelled()) == (0, False)
    assert line.calls.resolve(1, "late") is False
    line.check_empty()


@each_loss
async def test_sending_that_outlives_the_loss_changes_nothing(
    lose: Callable[[Line], object], error: type[Exception]
) -> None:
    line = Line()

    async def send(_: int) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # and it swallows the cancellation

    task = asyncio.ensure_future(line.calls.request(send, timeout=5))
    await settle()
    line.calls.resolve(1, "too early")
    lose(line)
    with pytest.raises(error):
        await task
    assert task.cancelling() == 0
    line.check_empty()


async def test_its_deadline_is_over_sending_and_reply() -> None:
    line = Line()
    line.room.clear()
    task = line.begin(5)
    await settle()
    line.clock.advance(3)
    line.room.set()
    await settle()
    line.clock.advance(1.999)
    await settle()
    assert not task.done()
    line.clock.advance(0.001)
    with pytest.raises(OperationExpired, match="reply to 1 did not come within 5 s") as raised:
        await task
    assert (raised.value.keys, raised.value.timeout) == ((1,), 5)
    line.check_empty()


async def test_cancelled_for_its_id_it_ends_once_it_is_sent() -> None:
    line = Line()
    line.room.clear()
    task = line.begin(None)
    await settle()
    line.purgatory.cancel_for_key(1)
    await settle()
    assert not task.done()
    line.room.set()
    with pytest.raises(OperationCancelled):
        await task


@pytest.mark.parametrize("room", [True, False], ids=["sent", "sending"])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("event", ["resolve", *LOSSES])
async def test_a_cancellation_from_outside_goes_on(*, room: bool, before: bool, event: str) -> None:
    line = Line()
    if not room:
        line.room.clear()
    task = line.begin()
    await settle()
    happen = LOSSES[event][0] if event in LOSSES else lambda it: it.calls.resolve(1, "pong")
    for step in (task.cancel, lambda: happen(line))[:: 1 if before else -1]:
        step()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (task.cancelled(), task.cancelling()) == (True, 1)
    line.check_empty()


@pytest.mark.parametrize("reply", ["early", "late"])
async def test_cancelled_anywhere_it_leaves_nothing(reply: str) -> None:
    lines = []

    async def scenario() -> None:
        line = Line(range(2))
        lines.append(line)

        async def send(number: int) -> None:
            if reply == "early":
                assert line.calls.resolve(number, f"pong {number}")
            await asyncio.sleep(0)
            if reply == "late":
                asyncio.get_running_loop().call_soon(line.calls.resolve, number, f"pong {number}")

        for number in (0, 1, 0):
            assert await line.calls.request(send, timeout=5) == f"pong {number}"
        line.check_empty()

    assert await cancel_sweep(scenario) >= 3
    await settle()
    for line in lines:
        line.check_empty()
        assert line.calls.unknown == 0


# Late and unknown.


async def test_of_late_replies_those_never_expected_are_unknown() -> None:
    class Number(IntEnum):
        SECOND = 2

    line = Line(range(1, 4))
    unknown = 0
    line.calls.expect("by hand", 5).cancel()
    line.calls.expect(3, 5).cancel()
    for issued in range(1, 6):  # the fourth is the first again
        with pytest.raises(LostError):
            await asyncio.gather(line.begin(), asyncio.to_thread(lambda: None), _fail(line))
        for number in (1, Number.SECOND, 3, "by hand", 0, 4, "1", 1.5, -1, None, [1], 2**70):
            late = line.calls.late
            assert line.calls.resolve(number, "pong") is False
            assert line.calls.late == late + 1
            expected = number in ("by hand", 3) or (isinstance(number, int) and 1 <= number <= min(issued, 3))
            unknown += not expected
            assert line.calls.unknown == unknown, f"{number!r} after {issued}"


async def _fail(line: Line) -> None:
    await settle()
    line.calls.fail_all(LostError())


async def test_many_requests_leave_no_memory_of_their_ids() -> None:
    line = Line()

    async def answered(number: int) -> None:
        line.calls.resolve(number, "pong")

    for _ in range(100):
        await line.calls.request(answered, timeout=5)
    assert not line.calls._expected
    assert [line.calls.resolve(number, "late") for number in (1, 100, 101)] == [False] * 3
    assert (line.calls.late, line.calls.unknown) == (3, 1)


# What is left.

SENDINGS = {
    "resolve": lambda line: line.calls.resolve(1, "pong"),
    "reject": lambda line: line.calls.reject(1, LostError()),
    **{name: lose for name, (lose, _) in LOSSES.items()},
}


@pytest.mark.parametrize("end", SENDINGS.values(), ids=SENDINGS)
@pytest.mark.parametrize("sending", [True, False], ids=["sending", "sent"])
async def test_it_leaves_nothing_for_the_collector(end: Callable[[Line], object], *, sending: bool) -> None:
    async def run() -> None:
        line, room = Line(), asyncio.Event()

        async def send(_: int) -> None:  # without a reference to the line, whose `close` keeps the exception
            await room.wait()

        task = asyncio.ensure_future(line.calls.request(send, timeout=5))
        if not sending:
            room.set()
        await settle()
        end(line)
        room.set()
        await asyncio.wait([task])
        assert task.exception() is not None or task.result() == "pong"

    await run()
    with by_reference_counts_alone():
        await run()
        assert gc.collect() == 0
