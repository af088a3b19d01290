"""The driver: a timer queue, a clock, and the one wakeup between them.

The wakeup is armed for the earliest bucket with something in it, and armed again only when something earlier
comes. Cancelling does not touch it; a wakeup that finds nothing arms nothing. Every pass looks at the clock itself
and takes out what is due by it, `SLICE` by `SLICE` for `PASS_NS` at most, and lets the loop turn in between; a wakeup
that came early just arms again.

On a clock that needs no loop (``needs_loop = False``, as `ManualClock`) the driver is *exact*: the wakeup follows
every change, a pass takes all that is due, and a callback may itself move the clock.
"""

import asyncio
from asyncio import _get_running_loop
from collections import deque
from heapq import heappop, heappush
from itertools import count
from operator import attrgetter
from sys import maxsize
from typing import Final, Protocol, cast

from purgatory_async.clock import Cancellable, Clock, MonotonicClock, TickScale
from purgatory_async.core.life_cycle import Runner, Unowned
from purgatory_async.errors import PurgatoryError
from purgatory_async.loop.ownership import runner_of
from purgatory_async.loop.wakeups import SLICE, dispatcher_of
from purgatory_async.timing import TimerQueue
from purgatory_async.timing._entry import Link, TimerNode

__all__ = ["LONG_AGO", "NEVER", "Reaper", "Timed"]

NEVER: Final = maxsize
"""Later than any tick: 100 years are 3e15 microseconds."""

LONG_AGO: Final = -maxsize
"""Earlier than any time in nanoseconds."""

PASS_NS: Final = 1_000_000
"""How long a pass goes on to a next slice, in nanoseconds. A flooded loop turns slowly, and with one slice a turn it
would fall behind what comes due; a clock that stands still, or is that coarse, gives one slice."""

_IN_PASS: Final = (
    -1
)  # earlier than any tick: what is added during a pass needs no arming, the pass ends with it
_NOT_YET: Final = Unowned("not used yet")
_BY_DEADLINE: Final = attrgetter("deadline_tick")
# Where an entry is that no bucket links: its `_prev`, which is this, or its number in `_soon`. None means nowhere, or
# handed out in this pass.
_FOREVER: Final = Link()


class Timed(Protocol):
    """What the driver asks of an entry; `TimerHandle` and `DelayedOperation` have it."""

    deadline_tick: int
    _next: Link
    _prev: Link

    @property
    def _waiting(self) -> bool:
        """Whether it has neither fired nor been called off."""

    def _expire(self) -> bool:
        """Fire, now; False if it is not waiting."""

    def _lost_timer(self) -> None:
        """Its timer closes."""


class Reaper:
    """Schedules entries and fires them; `Timer` is its public face.

    Args:
        tick_ns: Nanoseconds per tick.
        queue: Orders the entries.
        clock: None for the running loop's own virtual time, or the monotonic clock.
        counted: Whether to know at any time how many wait, for a limit.
    """

    __slots__ = (
        "__weakref__",
        "_armed_tick",
        "_clock",
        "_exact",
        "_firing",
        "_hurried",
        "_hurry",
        "_loop",
        "_never",
        "_numbers",
        "_pending_ids",
        "_plain",
        "_queue",
        "_runner",
        "_same_until_ns",
        "_scale",
        "_schedule",
        "_soon",
        "_tick_ns",
        "_time_ns",
        "_wakeup",
        "_wakeup_tick",
        "closed",
    )

    closed: bool
    """Whether it has been closed."""

    def __init__(self, tick_ns: int, queue: TimerQueue, clock: Clock | None, *, counted: bool) -> None:
        self._tick_ns = tick_ns
        self._queue = queue
        self._schedule = queue.schedule
        self._pending_ids: set[int] | None = set() if counted else None  # `id` of each entry that waits
        self._exact = False
        self._plain = not counted  # a cancelled entry need only leave the queue
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runner: Runner = _NOT_YET
        self._clock: Clock | None = None
        self._wakeup: Cancellable | None = None
        self._wakeup_tick = NEVER
        self._armed_tick = NEVER  # what is due before it must arm a wakeup
        # Due without the queue: times that have come. A heap of deadlines in nanoseconds, numbers in order, entries.
        self._soon: list[tuple[int, int, Timed]] = []
        self._numbers = count()
        self._firing: deque[Timed] = deque()  # handed out in this pass
        self._never: set[TimerNode] = set()  # infinite delays: waiting, but never due
        # Until when a deadline after the timer's last delay falls in the last tick; no pass has been made since then,
        # so that tick is not before the armed one, and its bucket has not begun to move down.
        self._same_until_ns = LONG_AGO
        self._hurried = False  # a pass will be made soon, whatever the wakeup says
        self._hurry: Cancellable | None = None  # the same on a clock that needs no loop
        self.closed = False
        if clock is not None:
            self._use(clock)

    def check_invariants(self) -> None:
        """Assert that the queue is sound, what waits is counted, and there is a wakeup for it. O(n), for tests."""
        self._queue.check_invariants()
        if len(self._queue) and not self._hurried:
            assert self._wakeup is not None, f"{self!r} has entries, but no wakeup"
        if self._pending_ids is not None:
            counted, waiting = len(self._pending_ids), self._counted_out()
            assert counted == waiting, f"{waiting} wait, {counted} are counted"

    # Scheduling.

    def _adopt(self, running: asyncio.AbstractEventLoop | None) -> None:
        """Belong to the loop that is running, or see that it is the right one."""
        if running is None:
            if not self._exact:
                raise PurgatoryError(
                    f"{self!r} needs a running event loop; call it from a coroutine or callback"
                )
            return
        if self._clock is None:
            self._use(_default_clock(running))
        if self._loop is None or self._loop is running:
            self._loop = running
            self._runner = runner_of(running)
        else:
            raise PurgatoryError(f"{self!r} belongs to {self._loop!r}, but was used from {running!r}")

    def _abandon(self) -> None:
        """Belong to no loop again; nothing waits."""
        self._loop = self._clock = None
        self._runner = _NOT_YET

    def _start(self, entry: TimerNode, delay_ns: int) -> int:
        """Schedule an entry after a positive delay; returns the deadline in nanoseconds."""
        time_ns = self._time_ns
        now_ns = time_ns()
        deadline_ns = now_ns + delay_ns
        entry.deadline_tick = tick = self._scale.deadline_tick(deadline_ns)
        if tick < self._armed_tick:
            self._start_earliest(entry, now_ns, deadline_ns)
        elif not self._schedule(entry):
            self._start_now(entry, deadline_ns)  # the clock has gone back
        return deadline_ns

    def _start_earliest(self, entry: TimerNode, now_ns: int, deadline_ns: int) -> None:
        """Schedule an entry that is due before the wakeup there is, and arm an earlier one."""
        # A queue that stood still while idle is brought to the present first, or it would place the entry as
        # coarsely as if it were that much further away. Nothing comes out: the wakeup there is, is still to come,
        # and no deadline is before it.
        late = self._queue.advance(self._scale.elapsed_ticks(now_ns), SLICE)
        assert not late, f"{late[0]!r} was due before the wakeup at tick {self._armed_tick}"
        if not self._schedule(entry):
            self._start_now(entry, deadline_ns)
        self._arm()

    def _start_now(self, entry: TimerNode, deadline_ns: int) -> None:
        """Let an entry fire in the loop's next turn, without the queue; the earliest deadline first."""
        # Rounded down: what the queue hands out by then was due before.
        entry.deadline_tick = self._scale.elapsed_ticks(deadline_ns)
        number = next(self._numbers)
        entry._prev = cast("Link", number)
        heappush(self._soon, (deadline_ns, number, cast("Timed", entry)))
        self._pass_soon()

    def _start_never(self, entry: TimerNode) -> None:
        """Let an entry wait without end."""
        entry.deadline_tick = NEVER
        entry._prev = _FOREVER
        self._never.add(entry)

    def _withdraw(self, entry: TimerNode) -> bool:
        """Take an entry out of the queue and the count; what is due already is skipped when its turn comes."""
        queued = self._queue.cancel(entry)
        if self._pending_ids is not None:
            self._pending_ids.discard(id(entry))
        if self._exact and queued:
            self._arm()
        return queued

    def _due(self) -> list[Timed]:
        """What has left the queue and still has to fire, in order of deadline."""
        due = [entry for entry in self._firing if _is_in(entry, None)]
        due += [entry for _, number, entry in sorted(self._soon) if _is_in(entry, number)]
        return sorted({id(entry): entry for entry in due}.values(), key=_BY_DEADLINE)

    def _counted_out(self) -> int:
        return len(self._queue) + len(self._never) + len(self._due())

    # Waking.

    def _use(self, clock: Clock) -> None:
        self._clock = clock
        self._time_ns = clock.time_ns
        self._exact = not getattr(clock, "needs_loop", True)
        self._plain = self._pending_ids is None and not self._exact
        self._scale = TickScale(self._tick_ns, clock.time_ns(), self._queue.now_tick)
        self._same_until_ns = LONG_AGO

    def _arm(self) -> None:
        """See that the one wakeup there is, if any, is for the next thing to do."""
        self._arm_for(self._queue.next_tick)

    def _arm_for(self, tick: int | None) -> None:
        """`_arm`, for who has asked the queue already."""
        if tick is None:
            self._disarm()
            return
        self._armed_tick = tick
        if tick != self._wakeup_tick and self._clock is not None:
            if self._wakeup is not None:
                self._wakeup.cancel()
            self._wakeup_tick = tick
            self._wakeup = self._clock.call_at_ns(self._scale.tick_start_ns(tick), self._on_wakeup)

    def _disarm(self) -> None:
        self._armed_tick = self._wakeup_tick = NEVER
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None

    def _pass_soon(self) -> None:
        """Have a pass made in the loop's next turn; on a clock that needs no loop, at its next advance too."""
        if self._hurried:
            return
        self._hurried = True
        running = _get_running_loop()
        if running is not None:
            dispatcher_of(running).soon(self._on_hurry)
        if self._exact and self._clock is not None:
            self._hurry = self._clock.call_at_ns(self._time_ns(), self._on_hurry)

    def _calm(self) -> None:
        self._hurried = False
        if self._hurry is not None:
            self._hurry.cancel()
            self._hurry = None

    def _on_wakeup(self) -> bool:
        self._wakeup = None
        self._wakeup_tick = NEVER
        return self._pass()

    def _on_hurry(self) -> bool:
        if not self._hurried:
            return False
        self._calm()
        return self._pass()

    def _pass(self) -> bool:
        """Fire what is due, unless exact for a bounded time, and arm for the rest.

        Returns:
            Whether anything fired; entries may only have moved within the queue, or been called off.
        """
        self._same_until_ns = LONG_AGO
        if not self._exact:
            self._armed_tick = _IN_PASS
        time_ns, queue = self._time_ns, self._queue
        began_ns = time_ns()
        now_tick = self._scale.elapsed_ticks(began_ns)
        firing = self._firing
        firing.extend(self._take(now_tick, None if self._exact else SLICE))
        next_tick: int | None = now_tick  # for all that is known, should an interrupt come
        try:
            if self._exact:
                self._finish_pass(now_tick, queue.next_tick)  # before calling anybody, who may move the clock
            fired = self._fire()
            next_tick = queue.next_tick
            while (
                not self._exact
                and next_tick is not None
                and next_tick <= now_tick
                and 0 < time_ns() - began_ns < PASS_NS
            ):
                firing.extend(self._take(now_tick, SLICE))
                fired = self._fire() or fired
                next_tick = queue.next_tick
        finally:
            self._finish_pass(now_tick, next_tick)
            if firing:
                self._pass_soon()  # an interrupt left them; they come before whatever is due then
        return fired

    def _fire(self) -> bool:
        """Fire what was taken out, in order; returns whether anything did."""
        firing = self._firing
        fired = False
        while firing:
            entry = firing.popleft()
            if self._exact and firing:
                self._pass_soon()
            if entry._next is not None or entry._prev is not None:
                continue  # rescheduled by one before it
            if self._pending_ids is not None:
                self._pending_ids.discard(id(entry))
            if entry._expire():
                fired = True
        return fired

    def _take(self, now_tick: int, limit: int | None) -> list[Timed]:
        """Take out what is due, in order of deadline."""
        due = cast("list[Timed]", self._queue.advance(now_tick, limit))
        soon = self._soon
        if soon:
            for _ in range(min(len(soon), limit or len(soon))):
                _, number, entry = heappop(soon)
                if _is_in(entry, number):
                    entry._prev = None  # type: ignore[assignment]  # handed out
                    due.append(entry)
            due.sort(key=_BY_DEADLINE)
        return due

    def _finish_pass(self, now_tick: int, next_tick: int | None) -> None:
        """Arm for what is left, or have another pass made soon if some of that is due."""
        if self.closed:
            return
        if next_tick is not None and next_tick <= now_tick:
            self._pass_soon()  # the limit held some back; until then, what is added needs no arming
        else:
            self._arm_for(next_tick)
        if self._soon:
            self._pass_soon()
        elif self._exact and not self._firing:
            self._calm()


def _is_in(entry: Timed, place: int | None) -> bool:
    """Whether an entry waits, and just there: one that was rescheduled meanwhile is elsewhere."""
    link: Link | None = entry._next
    return link is None and cast("int | None", entry._prev) is place and entry._waiting


def _default_clock(running: object) -> Clock:
    """A virtual loop is its own clock."""
    return running if isinstance(running, Clock) else MonotonicClock()
