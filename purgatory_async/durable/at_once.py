"""The state of a single process: an entry is applied when it is proposed, and lost with the process.

Log time starts at the wall clock's and then follows the process's monotonic clock, so it never goes back. A tick is
applied when something is due.

An entry whose step is long is applied in several passes of the loop, and those that come meanwhile after it.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Iterator
from typing import Final

from purgatory_async import Timer, TimerHandle
from purgatory_async.durable.fold.entries import Entry, Tick
from purgatory_async.durable.fold.fold import LEVEL, Applied, Fold
from purgatory_async.durable.fold.log_clock import NEVER
from purgatory_async.durable.fold.shared import SECOND, Limits, Work
from purgatory_async.durable.later import Later
from purgatory_async.durable.state import Answer, Guard, Heard
from purgatory_async.durable.steps import Steps
from purgatory_async.events import Observer

_MS: Final = 1000  # microseconds


class AtOnce:
    """A fold without a log; see `State`.

    Args:
        timer: Tells when something is due; events of the fold are on its clock.
        started_us: Log time now, in microseconds since 1970.
        limits: The limits of the fold.
        observer: Receives the events of the operations.
        heard: Called with each step.
    """

    def __init__(
        self,
        timer: Timer,
        started_us: int,
        limits: Limits,
        observer: Observer,
        heard: Heard,
    ) -> None:
        self.epoch: Final = secrets.token_hex(8)
        self._timer: Final = timer
        self._heard: Final = heard
        # In whole milliseconds, so that what is due in log time is due at a tick of the timer.
        zero_us = started_us - timer.time_ns() // 1000
        self._zero_us: Final = zero_us - zero_us % _MS
        self.fold: Final = Fold(self.now_us(), zero_us=self._zero_us, observer=observer, digests=False)
        self.fold.level = LEVEL
        self.fold.shared.limits = limits
        self._clock: Final = self.fold.shared.clock
        self._tick: TimerHandle | None = None
        self._tick_ns = NEVER  # when it is due, on the fold's clock
        self._steps: Final = Steps(timer.time_ns, _raise)
        self.settled: Final = self._steps.idle
        self._posted: Final[deque[Entry]] = deque()  # until no step is under way
        self._closed = False

    def __repr__(self) -> str:
        return f"<AtOnce {self.fold!r}>"

    @property
    def cause(self) -> None:
        """None: there is no log."""

    @property
    def writer(self) -> None:
        """None: there is no log."""

    def propose(self, entry: Entry, guard: Guard) -> Later[Answer]:
        """Apply an entry; see `State.propose`."""
        if self._steps.busy or entry.positions != 1:
            return self._propose_later(entry, guard)
        guard.admit()
        given = self._apply(entry)
        return given if isinstance(given, Answer) else _result(given)

    async def _propose_later(self, entry: Entry, guard: Guard) -> Answer:
        while True:
            if self._steps.busy:
                await self._steps.idle()
            guard.admit()
            # During a tick with a long step other entries come in between: then the entry needs new ticks.
            if all(isinstance(self._apply(Tick()), Answer) for _ in range(entry.positions - 1)):
                break
        given = self._apply(entry)
        return given if isinstance(given, Answer) else await given

    def post(self, entry: Entry) -> None:
        """Apply an entry, once no step is under way; does nothing once closed."""
        if self._steps.busy:
            self._posted.append(entry)
        elif not self._closed:
            self._apply(entry)

    def is_caught_up(self) -> bool:
        """Let time pass until now, so that nothing is shown that should be forgotten; False if that takes long."""
        if self._steps.busy:
            return False
        now_us = self._zero_us + self._timer.time_ns() // 1000
        # Less than a millisecond makes nothing due.
        if now_us - self.fold.at_us < _MS or self.fold.passed(now_us) or self._closed:
            return True
        self._apply(Tick())
        return not self._steps.busy

    async def caught_up(self) -> None:
        """Let time pass until now."""
        while not self.is_caught_up():
            await self._steps.idle()

    def now_us(self) -> int:
        """Return log time now; O(1)."""
        return self._zero_us + self._timer.time_ns() // 1000

    @property
    def connected(self) -> bool:
        """Always: there is nothing to be connected with."""
        return True

    @property
    def lag(self) -> float:
        """0.0: what is proposed is applied at once."""
        return 0.0

    async def open(self) -> None:
        """Do nothing: there is nothing to load."""

    async def run(self) -> None:
        """Do nothing: no other process changes it."""

    async def aclose(self) -> None:
        """Close; see `State.aclose`."""
        self.close()

    def close(self) -> None:
        """Finish the step under way, then close the fold, which ends all pending operations as closed.

        Idempotent.
        """
        self._closed = True
        self._steps.finish()
        self.fold.close()

    def _apply(self, entry: Entry) -> "Answer | asyncio.Future[Answer]":
        """Apply an entry while no step is under way; return its answer, or a future if its step is long."""
        fold = self.fold
        now_us = self._zero_us + self._timer.time_ns() // 1000
        given = fold.begin(fold.position + 1, now_us, entry)
        if isinstance(given, tuple):
            return self._ended(given)
        try:
            next(given)
        except StopIteration as end:
            return self._ended(end.value)
        later: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._steps.add(self._go_on(given, later))
        return later.result() if later.done() else later

    def _go_on(self, rest: Work[Applied], later: "asyncio.Future[Answer]") -> Iterator[None]:
        """Finish a step, and the steps of entries that were posted meanwhile."""
        try:
            answer = self._ended((yield from rest))
            if not later.done():  # its caller may have left
                later.set_result(answer)
        except Exception as error:
            if not later.done():
                later.set_exception(error)
            raise
        while self._posted and not self._closed:
            given = self.fold.begin(self.fold.position + 1, self.now_us(), self._posted.popleft())
            self._ended(given if isinstance(given, tuple) else (yield from given))

    def _ended(self, applied: Applied) -> Answer:
        answer = self._heard(*applied)
        if self._clock.next_ns < self._tick_ns:
            self._schedule()
        return answer

    def _schedule(self) -> None:
        """Apply a tick when the next thing is due; a tick scheduled too early only looks again."""
        due_us = self.fold.next_us
        if due_us is None:
            return
        left_us = max(due_us - self.now_us(), 0)
        # Half a millisecond early, as no float holds it exactly; the timer rounds up to the millisecond meant.
        seconds = (left_us - min(left_us // 2, _MS // 2)) / SECOND
        self._tick_ns = self._clock.next_ns
        if self._tick is None or not self._tick.reschedule(seconds):
            self._tick = self._timer.call_later(seconds, self._pass_time)

    def _pass_time(self) -> None:
        self._tick_ns = NEVER
        if self._steps.busy:
            return  # the end of the step schedules the next tick
        due_us = self.fold.next_us
        if due_us is not None and due_us <= self.now_us():
            self._apply(Tick())
        else:
            self._schedule()


async def _result(coming: "asyncio.Future[Answer]") -> Answer:
    return await coming


def _raise(error: Exception) -> None:
    raise error
