"""`aclose` of what runs on a timer, cancelled everywhere it can be: closed it stays, and nothing is left or lost."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import pytest

from purgatory_async import PurgatoryClosed, Timer
from purgatory_async.patterns import Heartbeat, Periodic, Retrier
from purgatory_async.testing import ManualClock, cancel_sweep, settle
from tests.loop.stepped_clock import SteppedClock
from tests.loop.worlds import reports


class Subject(Protocol):
    """Something with work going on that takes a while to be cancelled."""

    async def aclose(self) -> object: ...

    def closed(self) -> bool: ...

    def check(self) -> None: ...


class Work:
    """Never ends by itself, and not at once when it is cancelled."""

    def __init__(self, passes: int) -> None:
        self.begun = self.ended = 0
        self._passes = passes

    async def __call__(self) -> None:
        self.begun += 1
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            try:
                for _ in range(self._passes):
                    await asyncio.sleep(0)
            finally:
                self.ended += 1  # also when closing it again cancels it again


class Beating:
    """A `Periodic` whose work goes on."""

    def __init__(self, timer: Timer, passes: int) -> None:
        self._work = Work(passes)
        self._beat = Periodic(timer, 1, self._work)

    async def aclose(self) -> None:
        await self._beat.aclose()

    def closed(self) -> bool:
        return self._beat.closed

    def check(self) -> None:
        assert self._beat.closed
        assert self._work.begun == self._work.ended <= 1


class Pinging:
    """A `Heartbeat` whose ping goes on."""

    def __init__(self, timer: Timer, passes: int) -> None:
        self._work = Work(passes)
        self._heart = Heartbeat(timer, interval=1, send=self._work, on_dead=self._work)

    async def aclose(self) -> None:
        await self._heart.aclose()

    def closed(self) -> bool:
        return "closed" in repr(self._heart)

    def check(self) -> None:
        assert self._heart.alive
        assert self._work.begun == self._work.ended <= 1


class Dying:
    """A `Heartbeat` whose last ping still runs while it reports its death."""

    def __init__(self, timer: Timer, passes: int) -> None:
        self._ping, self._death = Work(passes), Work(passes)
        self._heart = Heartbeat(timer, interval=0.4, idle_timeout=0.8, send=self._ping, on_dead=self._death)

    async def aclose(self) -> None:
        await self._heart.aclose()

    def closed(self) -> bool:
        return not self._heart.alive

    def check(self) -> None:
        assert self._ping.begun == self._ping.ended
        assert self._death.begun == self._death.ended <= 1


class Retrying:
    """A `Retrier` with two attempts going on, one of which has been replaced, and one to come."""

    def __init__(self, timer: Timer, passes: int) -> None:
        self._work, self._replaced, self._waiting = Work(passes), Work(passes), Work(passes)
        self._retrier = Retrier[str](timer, delay=1, attempts=1, on_give_up=self._given_up)
        self._retrier.submit("going on", self._work)
        self._retrier.submit("replaced", self._replaced)
        timer.call_later(1, self._retrier.submit, "replaced", self._waiting)
        self._undone: list[object] = []

    async def aclose(self) -> None:
        self._undone += (await self._retrier.aclose()).values()

    def closed(self) -> bool:
        try:
            self._retrier.submit("more", self._work)
        except PurgatoryClosed:
            return True
        return False

    def check(self) -> None:
        assert self._undone == [self._work, self._waiting]
        assert self._work.begun == self._work.ended <= 1
        assert self._replaced.begun == self._replaced.ended <= 1
        assert (self._waiting.begun, self._retrier.pending) == (0, 0)

    def _given_up(self, key: str, failure: BaseException) -> None:
        raise AssertionError(f"{key} was given up for {failure!r}")


def on_manual_clock() -> tuple[Timer, Callable[[], None]]:
    clock = ManualClock()
    return Timer(clock=clock), lambda: clock.advance(1)


def on_stepped_clock() -> tuple[Timer, Callable[[], None]]:
    clock = SteppedClock()

    def pass_a_second() -> None:
        for _ in range(10):  # each check of a heartbeat at its time
            clock.move(0.1)
            clock.ring()

    return Timer(clock=clock), pass_a_second


async def plainly(subject: Subject) -> None:
    await subject.aclose()


async def twice(subject: Subject) -> None:
    await subject.aclose()
    await subject.aclose()


async def both_at_once(subject: Subject) -> None:
    await asyncio.gather(subject.aclose(), subject.aclose())


@pytest.mark.parametrize("make", [Beating, Pinging, Dying, Retrying])
@pytest.mark.parametrize("place", [on_manual_clock, on_stepped_clock])
@pytest.mark.parametrize("close", [plainly, twice, both_at_once])
@pytest.mark.parametrize("passes", [0, 3], ids=["quick to end", "slow to end"])
@pytest.mark.asyncio
async def test_aclose_cancelled_anywhere_can_be_finished_by_another(
    make: Callable[[Timer, int], Subject],
    place: Callable[[], tuple[Timer, Callable[[], None]]],
    close: Callable[[Subject], Awaitable[None]],
    passes: int,
) -> None:
    reported, subjects, timers = reports(), [], []

    async def scenario() -> None:
        timer, pass_a_second = place()
        timers.append(timer)
        subjects.append(subject := make(timer, passes))
        pass_a_second()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        try:
            await close(subject)
        except asyncio.CancelledError:
            assert subject.closed() or close is both_at_once  # whose tasks may not have begun
            raise
        subject.check()  # if it was not cancelled, it has waited

    points = await cancel_sweep(scenario)
    assert points >= 3, "aclose never waited"
    assert len(subjects) == 1 + 2 * points
    for subject, timer in zip(subjects, timers, strict=True):
        await subject.aclose()
        subject.check()
        assert (timer.pending, timer.next_deadline) == (0, None)
    await settle()
    assert (reported, asyncio.all_tasks()) == ([], {asyncio.current_task()})
