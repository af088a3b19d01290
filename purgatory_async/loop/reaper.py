"""The reaper: a timer queue, a clock, and one wakeup.

The wakeup is armed for the earliest non-empty bucket, and armed again only for an earlier one. Cancelling leaves it
armed; a wakeup that finds no entry arms nothing. Every pass reads the clock and takes out due entries, `SLICE` by
`SLICE` for at most `PASS_NS`, and lets the loop turn in between; after an early wakeup it arms again.

On a clock that needs no loop (``needs_loop = False``, as `ManualClock`) the reaper is *exact*: the wakeup follows
every change, a pass takes all due entries, and a callback may move the clock. Where such a clock has a ``slice``, a
pass takes no more than so many, the clock must not be moved by them, and it makes all passes, never the loop.
"""

from asyncio import AbstractEventLoop, _get_running_loop
from collections import deque
from heapq import heappop, heappush
from itertools import count
from operator import attrgetter
from typing import Final, Protocol, cast

from purgatory_async.clock import Cancellable, Clock, TickScale
from purgatory_async.core.owner import Runner  # noqa: TC001 - one kind of import, seen by the architecture test
from purgatory_async.errors import refuse_again, refuse_copy
from purgatory_async.loop.ownership import NOT_YET
from purgatory_async.loop.wakeups import SLICE, dispatcher_of
from purgatory_async.native import also_compiled
from purgatory_async.timing import TimerQueue
from purgatory_async.timing._entry import LAST_TICK, Link, TimerNode

NEVER: Final = LAST_TICK
"""Later than any deadline: 100 years are 3e15 microseconds."""

PASS_NS: Final = 1_000_000
"""How long a pass takes further slices, in nanoseconds: with one per turn a flooded loop would fall behind. A clock
that stands still, or is that coarse, allows one slice."""

LONG_AGO: Final = -(2**127)
"""Before any clock's present, in nanoseconds."""

_IN_PASS: Final = 1 - LAST_TICK  # before any tick: what is added during a pass is armed at its end
BY_DEADLINE: Final = attrgetter("deadline_tick")
# `_prev` sentinels for entries outside buckets: this for an infinite delay or a deadline taken away, or the place in
# `_soon`; None means nowhere, or handed out in this pass.
FOREVER: Final = Link()


class Timed(Protocol):
    """An entry of the reaper: a `TimerHandle` or `DelayedOperation`."""

    deadline_tick: int
    _next: Link
    _prev: Link

    @property
    def _waiting(self) -> bool:
        """Whether it has neither fired nor been cancelled."""
        ...

    def _expire(self) -> bool:
        """Fire now; False if it is not waiting."""
        ...

    def _lost_timer(self) -> None:
        """React to the closing of its timer."""


class PastDeadlines(list[tuple[int, int, Link, Timed]]):
    """Entries that fire in the next pass, outside the queue: a heap of (nanoseconds, number in order, place, entry).

    An entry that was withdrawn or rescheduled meanwhile stays until its turn, and is passed over.
    """

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        super().__init__()
        self._numbers = count()

    def add(self, entry: Timed, deadline_ns: int) -> None:
        """Add an entry. O(log entries)."""
        place = entry._prev = Link()
        heappush(self, (deadline_ns, next(self._numbers), place, entry))

    def move_to(self, due: list[Timed], limit: int | None) -> None:
        """Add the earliest ones to those that are due, in order."""
        for _ in range(min(len(self), limit or len(self))):
            _, _, place, entry = heappop(self)
            if is_in(entry, place):
                entry._prev = None  # type: ignore[assignment]  # handed out
                due.append(entry)
        due.sort(key=BY_DEADLINE)


@also_compiled
class Reaper:
    """Holds entries in a queue and fires them; base of `Scheduler`.

    Args:
        tick_ns: Nanoseconds per tick.
        queue: Orders the entries.
        clock: None if the first loop decides.
        counted: Whether to count pending entries, for a limit.
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
        "_pending_ids",
        "_queue",
        "_runner",
        "_same_until_ns",
        "_scale",
        "_slice",
        "_soon",
        "_tick_ns",
        "_wakeup",
        "_wakeup_tick",
        "closed",
    )

    __reduce_ex__ = refuse_copy

    closed: bool
    """Whether it has been closed."""
    _scale: TickScale
    # Until this time the scheduler's last delay ends in the same tick and bucket. A pass resets it, since it may drop
    # that bucket or move its entries.
    _same_until_ns: int

    def __init__(self, tick_ns: int, queue: TimerQueue, clock: Clock | None, *, counted: bool) -> None:
        refuse_again(self, "_queue")
        self._tick_ns = tick_ns
        self._queue = queue
        self._pending_ids: set[int] | None = set() if counted else None  # `id` of each pending entry
        self._exact = False
        self._slice: int | None = SLICE  # how many entries a pass takes at once
        self._loop: AbstractEventLoop | None = None
        self._runner: Runner = NOT_YET
        self._clock: Clock | None = None
        self._wakeup: Cancellable | None = None
        self._wakeup_tick = self._armed_tick = NEVER  # an earlier entry must arm a wakeup
        self._soon = PastDeadlines()
        self._firing: deque[Timed] = deque()  # handed out in this pass
        self._never: set[TimerNode] = set()  # infinite delays
        self._hurried = False  # a pass will run soon, before any wakeup
        self._hurry: Cancellable | None = None  # the same on a clock that needs no loop
        self.closed = False
        if clock is not None:
            self._use(clock)

    # Scheduling.

    def _now_ns(self) -> int:
        """The present on the clock in use."""
        return self._clock.time_ns()  # type: ignore[union-attr]  # in use

    def _start(self, entry: TimerNode, delay_ns: int | None, now_ns: int) -> None:
        """Schedule an entry after a delay that counts from ``now_ns``; None is never."""
        if self._pending_ids is not None:
            self._pending_ids.add(id(entry))
        if delay_ns is None:
            self._start_never(entry)
            return
        deadline_ns = now_ns + delay_ns
        if delay_ns <= 0:
            self._start_now(entry, deadline_ns)
            return
        entry._tick = tick = self._scale.deadline_tick(deadline_ns)
        if tick < self._armed_tick:
            self._start_earliest(entry, now_ns, deadline_ns)
        elif not self._queue.schedule(entry):
            self._start_now(entry, deadline_ns)  # the clock has gone back

    def _start_earliest(self, entry: TimerNode, now_ns: int, deadline_ns: int) -> None:
        """Schedule an entry that is due before the armed wakeup, and arm an earlier one."""
        # First advance a queue that stood still while idle: else it would use too coarse a bucket. Nothing can be due
        # before the armed wakeup.
        late = self._queue.advance(self._scale.elapsed_ticks(now_ns), SLICE)
        assert not late, f"{late[0]!r} was due before the wakeup at tick {self._armed_tick}"
        if not self._queue.schedule(entry):
            self._start_now(entry, deadline_ns)
        self._arm()

    def _start_now(self, entry: TimerNode, deadline_ns: int) -> None:
        """Fire an entry in the loop's next turn, without the queue; the earliest deadline first."""
        # Rounded down: entries that the queue hands out by then are due earlier.
        entry.deadline_tick = self._scale.elapsed_ticks(deadline_ns)
        self._soon.add(cast("Timed", entry), deadline_ns)
        self._pass_soon()

    def _start_never(self, entry: TimerNode) -> None:
        """Let an entry wait for ever."""
        entry.deadline_tick = NEVER
        entry._prev = FOREVER
        self._never.add(entry)

    def _withdraw(self, entry: TimerNode) -> bool:
        """Remove an entry from the queue and the count; the pass skips one that is already due."""
        queued = self._queue.cancel(entry)
        if self._pending_ids is not None:
            self._pending_ids.discard(id(entry))
        if self._exact and queued:
            self._arm()
        return queued

    # Waking.

    def _use(self, clock: Clock) -> None:
        self._clock = clock
        self._exact = not getattr(clock, "needs_loop", True)
        self._slice = getattr(clock, "slice", None) if self._exact else SLICE
        self._scale = TickScale(self._tick_ns, self._now_ns(), self._queue.now_tick)
        self._same_until_ns = LONG_AGO

    def _arm(self) -> None:
        """Arm the only wakeup for the queue's next tick, or none."""
        self._arm_for(self._queue.next_tick)

    def _arm_for(self, tick: int | None) -> None:
        """`_arm`, for a tick that the caller read."""
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
        """Run a pass in the loop's next turn; on a clock that needs no loop, also at its next advance."""
        if self._hurried:
            return
        self._hurried = True
        running = None if self._exact and self._slice is not None else _get_running_loop()
        if running is not None:
            dispatcher_of(running).soon(self._on_hurry)
        if self._exact and self._clock is not None:
            self._hurry = self._clock.call_at_ns(self._now_ns(), self._on_hurry)

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
        """Fire due entries, for a bounded time unless exact, and arm for the rest; returns whether any fired."""
        self._same_until_ns = LONG_AGO
        return self._pass_from(self._now_ns())

    def _pass_from(self, began_ns: int) -> bool:
        if not self._exact:
            self._armed_tick = _IN_PASS
        queue = self._queue
        now_tick = self._scale.elapsed_ticks(began_ns)
        firing = self._firing
        firing.extend(self._take(now_tick, self._slice))
        next_tick: int | None = now_tick  # in case of an interrupt
        try:
            if self._exact:
                self._finish_pass(now_tick, queue.next_tick)  # before a callback moves the clock
            fired = self._fire()
            next_tick = queue.next_tick
            while (
                not self._exact
                and next_tick is not None
                and next_tick <= now_tick
                and 0 < self._now_ns() - began_ns < PASS_NS
            ):
                firing.extend(self._take(now_tick, SLICE))
                fired = self._fire() or fired
                next_tick = queue.next_tick
        finally:
            self._finish_pass(now_tick, next_tick)
            if firing:
                self._pass_soon()  # after an interrupt; these come first
        return fired

    def _fire(self) -> bool:
        """Fire the entries taken out, in order; returns whether any did."""
        firing = self._firing
        fired = False
        while firing:
            entry = firing.popleft()
            if self._exact and firing:
                self._pass_soon()
            if entry._next is not None or entry._prev is not None:
                continue  # rescheduled by an earlier one
            if self._pending_ids is not None:
                self._pending_ids.discard(id(entry))
            fired = entry._expire() or fired
        return fired

    def _take(self, now_tick: int, limit: int | None) -> list[Timed]:
        """Take out due entries, in order of deadline."""
        due = cast("list[Timed]", self._queue.advance(now_tick, limit))
        # An exact pass with a limit takes what the queue has first, so past deadlines stay behind, as without a limit.
        if self._soon and not (self._exact and limit is not None and (due or self._has_due(now_tick))):
            self._soon.move_to(due, limit)
        return due

    def _has_due(self, now_tick: int) -> bool:
        """Whether the queue has more that is due."""
        tick = self._queue.next_tick
        return tick is not None and tick <= now_tick

    def _finish_pass(self, now_tick: int, next_tick: int | None) -> None:
        """Arm for the remaining entries, or run another pass soon if some are due."""
        if self.closed:
            return
        if next_tick is not None and next_tick <= now_tick:
            self._pass_soon()  # the limit held some back; entries added until then need no arming
        else:
            self._arm_for(next_tick)
        if self._soon:
            self._pass_soon()
        elif self._exact and not self._firing and (next_tick is None or next_tick > now_tick):
            self._calm()


def is_in(entry: Timed, place: Link | None) -> bool:
    """Whether an entry waits at this place; a rescheduled one has another."""
    link: Link | None = entry._next
    return link is None and entry._prev is place and entry._waiting
