"""Cancelled waits for a watermark: the counts stay exact, and no other wait is disturbed."""

import asyncio

import pytest

from purgatory_async import OperationExpired, PurgatoryClosed, Timer
from purgatory_async.patterns import Watermark
from purgatory_async.testing import ManualClock, cancel_sweep, settle
from tests.patterns.guests import Guest, after_passes, each_way

pytestmark = pytest.mark.asyncio

LOST = KeyError("office lost")


class Scene:
    """A watermark with one guest to be cancelled and others beside it, for the same value, above and below."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timer = Timer(clock=self.clock)
        self.high = Watermark(timer=self.timer)
        self.released: list[int] = []

    async def begin(self, guest=Guest) -> None:
        self.others = [Guest(self.high.reach(value, 5)) for value in (3, 5)]
        self.guest = guest(self.high.reach(5, 5))
        self.others += [Guest(self.high.reach(value, 5)) for value in (5, 8)]
        await settle()
        assert self.high.waiting == 5

    def advance(self) -> None:
        self.released.append(self.high.advance(5))

    def fail_all(self) -> None:
        self.released.append(self.high.fail_all(LOST))

    def expire(self) -> None:
        self.clock.advance(5)

    async def end(self) -> list[object]:
        """How the guest and then the others have ended; nothing may be left."""
        await settle()
        self.high.advance(8)
        ended = [await guest.end() for guest in [self.guest, *self.others]]
        assert self.high.waiting == 0
        assert (self.timer.pending, self.timer.next_deadline) == (0, None)
        return [type(end) if isinstance(end, OperationExpired | PurgatoryClosed) else end for end in ended]


@each_way
async def test_cancelled_it_leaves_and_the_others_wait_on(guest):
    scene = Scene()
    await scene.begin(guest)
    scene.guest.cancel()
    await settle()
    assert scene.high.waiting == 4
    assert scene.timer.pending == 4
    scene.advance()
    assert scene.released == [3]
    assert await scene.end() == ["cancelled", 5, 5, 5, 8]


@each_way
async def test_cancelled_just_before_an_advance_it_is_not_counted(guest):
    scene = Scene()
    await scene.begin(guest)
    scene.guest.cancel_before(scene.advance)
    assert await scene.end() == ["cancelled", 5, 5, 5, 8]
    assert scene.released == [3]


@each_way
async def test_cancelled_just_after_an_advance_it_was_let_go(guest):
    scene = Scene()
    await scene.begin(guest)
    scene.guest.cancel_after(scene.advance)
    assert await scene.end() == ["cancelled" if guest.reached_late else 5, 5, 5, 5, 8]
    assert scene.released == [4]


@each_way
async def test_cancelled_just_before_fail_all_it_is_not_counted(guest):
    scene = Scene()
    await scene.begin(guest)
    scene.guest.cancel_before(scene.fail_all)
    assert await scene.end() == ["cancelled", *[LOST] * 4]
    assert scene.released == [4]


@each_way
async def test_cancelled_just_before_its_deadline_it_is_cancelled(guest):
    scene = Scene()
    await scene.begin(guest)
    scene.guest.cancel_before(scene.expire)
    assert await scene.end() == ["cancelled", *[OperationExpired] * 4]


@each_way
async def test_cancelled_just_after_its_deadline_it_leaves_nothing(guest):
    scene = Scene()
    await scene.begin(guest)
    scene.guest.cancel_after(scene.expire)
    assert await scene.end() == [
        "cancelled" if guest.reached_late else OperationExpired,
        *[OperationExpired] * 4,
    ]


@each_way
async def test_cancelled_just_before_it_is_closed_it_is_cancelled(guest):
    scene = Scene()
    await scene.begin(guest)
    scene.guest.cancel_before(scene.high.close)
    assert await scene.end() == ["cancelled", *[PurgatoryClosed] * 4]


async def test_an_advance_releases_none_when_all_were_just_cancelled():
    scene = Scene()
    await scene.begin()
    for guest in [scene.guest, *scene.others]:
        guest.cancel()
    scene.advance()
    assert scene.released == [0]
    assert scene.high.waiting == 1  # the one above, whose task has yet to run
    assert await scene.end() == ["cancelled"] * 5


async def test_a_newcomer_to_a_value_of_cancelled_waiters_waits():
    scene = Scene()
    await scene.begin()
    newcomer = Guest(scene.high.reach(5, 5))
    for guest in [scene.guest, *scene.others]:
        guest.cancel()
    await settle()
    assert scene.high.waiting == 1
    scene.advance()
    assert scene.released == [1]
    assert await newcomer.end() == 5
    assert await scene.end() == ["cancelled"] * 5


async def test_an_advance_after_the_deadline_in_its_tick_is_too_late():
    scene = Scene()
    await scene.begin()
    scene.expire()
    scene.advance()
    assert scene.released == [0]
    assert await scene.end() == [OperationExpired] * 5


async def test_an_advance_before_the_deadline_in_its_tick_releases():
    scene = Scene()
    await scene.begin()
    scene.advance()
    scene.expire()
    assert scene.released == [4]
    assert await scene.end() == [5, 5, 5, 5, OperationExpired]


async def test_advance_and_fail_all_in_one_pass_apply_in_order():
    scene = Scene()
    await scene.begin()
    scene.advance()
    scene.fail_all()
    scene.advance()
    assert scene.released == [4, 1, 0]
    assert await scene.end() == [5, 5, 5, 5, LOST]


async def test_fail_all_with_an_expiry_exception_keeps_real_expiries(manual_clock):
    high = Watermark(timer=Timer(clock=manual_clock))
    given = OperationExpired("of another wait")
    expires, fails = Guest(high.reach(1, 1)), Guest(high.reach(1, 2))
    await settle()
    manual_clock.advance(1)
    assert high.fail_all(given) == 1
    own = await expires.end()
    assert type(own) is OperationExpired
    assert own is not given
    assert await fails.end() is given


EVENTS = {
    "advance": (Scene.advance, [5, 5, 5, 8]),
    "fail_all": (Scene.fail_all, [LOST] * 4),
    "deadline": (Scene.expire, [OperationExpired] * 4),
    "close": (lambda scene: scene.high.close(), [PurgatoryClosed] * 4),
}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("passes", [1, 2, 3, 4, 12])
async def test_a_wait_cancelled_at_any_point_leaves_others_alone(event, passes):
    scenes: list[Scene] = []
    happen, expected = EVENTS[event]

    async def scenario() -> None:
        scene = Scene()
        scenes.append(scene)
        scene.guest = Guest(asyncio.sleep(0))
        scene.others = [Guest(scene.high.reach(value, 5)) for value in (3, 5, 5, 8)]
        await asyncio.sleep(0)
        after_passes(passes, lambda: happen(scene))
        ended = False
        try:
            await scene.high.reach(5, 5)
        except (KeyError, OperationExpired, PurgatoryClosed):
            ended = True
        finally:
            left = sum(not other.task.done() for other in scene.others)
            assert scene.high.waiting <= left, "it is still counted"
            assert scene.timer.pending == scene.high.waiting, "its deadline is still pending"
        assert ended is (event != "advance")

    points = await cancel_sweep(scenario)
    assert points >= 2
    assert len(scenes) == 1 + 2 * points
    for scene in scenes:
        await settle()
        if scene.high.waiting == 4:
            happen(scene)  # cancelled before it could happen in the scenario
        assert await scene.end() == [None, *expected]


async def test_cancelled_before_its_first_step_nothing_was_registered(manual_clock):
    timer = Timer(clock=manual_clock)
    high = Watermark(timer=timer)
    task = asyncio.Task(high.reach(1, 5))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (high.waiting, timer.pending) == (0, 0)
    assert high.advance(1) == 0
