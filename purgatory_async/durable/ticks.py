"""When to append a tick, so that what is due happens although no other entry comes.

Every worker sees everything that is due. So that not all of them append, the one that appended its cause does it at
once, and the others only if it still has not happened 250 to 500 ms later. The cause's worker is not part of the state,
which is equal everywhere. Each worker keeps what began in the steps of its own entries, in a heap by due time; an
operation knows itself whether it is still pending.

What a worker finds when it loads the state may have been begun by a worker that is gone, often by its own last run. It
appends a tick for that too, but 5 to 15 ms late, so that a worker that lives comes first.

The others look at `Fold.next_us`, which comes before the first deadline when the wheel has to move entries. So a quiet
log may get a tick or two for nothing.
"""

import asyncio
import random
from array import array
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import Any, Final

from purgatory_async import DelayedOperation, PurgatoryFull, Timer, TimerHandle
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.leases import ItemHidden, ItemLeased, LeaseExtended, Taker
from purgatory_async.durable.fold.operations import OperationSubmitted
from purgatory_async.durable.fold.shared import SECOND, Effect, whole_ms
from purgatory_async.durable.log_time import LogTime

GRACE_US: Final = 250_000, 500_000
"""How much later a worker appends a tick for what another one began."""
INHERITED_US: Final = 5_000, 15_000
"""How much later a worker appends a tick for what it loaded."""
SHORTEST_PAUSE_S: Final = 0.005
LONGEST_PAUSE_S: Final = 1.0
"""Between two ticks; longer and longer while they let no time pass, as after the engine's clock was set back."""
LONGEST_NAP_S: Final = 86_400.0
FEW: Final = 1024  # ended operations not worth a sweep


class Ticks:
    """Append ticks for a fold.

    Args:
        timer: For the one handle that waits for what is due next.
        log_time: The estimate of log time.
        append: Proposes a tick.

    Attributes:
        appended: How many ticks were proposed.
    """

    def __init__(
        self, timer: Timer, log_time: LogTime, append: Callable[[], "asyncio.Future[Any]"], fold: Fold
    ) -> None:
        self.appended = 0
        self._timer: Final = timer
        self._log_time: Final = log_time
        self._append: Final = append
        self._fold = fold
        self._own: list[tuple[int, int, DelayedOperation[Any]]] = []
        self._order: Final = count()
        self._sweep_at = FEW
        self._inherit_at: float = inf
        self._inherited = array("q")  # when what was loaded is due, the first one last
        self._inherited_us = 0
        self._handle: TimerHandle | None = None
        self._armed_us: int | None = None  # the log time for which the handle waits
        self._grace_us = _grace_us()
        self._under_way: asyncio.Future[Any] | None = None
        self._pause_s = SHORTEST_PAUSE_S
        self._not_before_s = -inf
        self._closed = False

    def restart(self, fold: Fold, end: int) -> None:
        """Go on with a fold that was loaded, and still has to come to the position ``end``."""
        self._fold = fold
        self._own.clear()
        self._inherited = array("q")
        self._inherit_at = end
        self.look()

    def note(self, effects: Sequence[Effect], taker: Taker | None) -> None:
        """Note what began in a step of this worker's own entry. O(log n) for each effect."""
        for effect in effects:
            if isinstance(effect, OperationSubmitted):
                if effect.operation.deadline_us is not None:
                    self._note(effect.operation.deadline_us, effect.operation)
            elif isinstance(effect, ItemLeased | LeaseExtended):
                self._note(effect.lease.until_us, effect.lease)
            elif isinstance(effect, ItemHidden):
                self._note(effect.hidden.until_us, effect.hidden)
        if taker is not None:
            self._note(taker.until_us, taker)

    def look(self) -> None:
        """Wait for what is due next; after each step, or after several."""
        if self._fold.position >= self._inherit_at:
            self._inherit()
        due_us = self._due_us()
        if due_us is None or self._under_way is not None or self._closed:
            return
        if self._armed_us is None or due_us < self._armed_us:
            self._arm(due_us)

    def close(self) -> None:
        """Append no more. Idempotent."""
        self._closed = True
        if self._handle is not None:
            self._handle.cancel()

    def _note(self, due_us: int, operation: DelayedOperation[Any]) -> None:
        if len(self._own) >= self._sweep_at:
            self._sweep()
        heappush(self._own, (whole_ms(due_us), next(self._order), operation))

    def _sweep(self) -> None:
        """Forget what has ended."""
        own = self._own
        own[:] = [each for each in own if each[2].outcome is None]
        heapify(own)
        self._sweep_at = max(FEW, 2 * len(own))

    def _inherit(self) -> None:
        """Note all that is pending: its worker may be gone. O(n log n)."""
        self._inherit_at = inf
        self._inherited_us = random.randint(*INHERITED_US)  # noqa: S311 - spreads load, hides nothing
        operations, queues = self._fold.operations.pending(), self._fold.queues
        due = {whole_ms(each.deadline_us) for each in operations if each.deadline_us is not None}
        due.update(whole_ms(lease.until_us) for lease in queues.leases.values())
        due.update(whole_ms(taker.until_us) for taker in queues.takers.values())
        for queue in queues.by_name.values():
            due.update(whole_ms(hidden.until_us) for hidden in queue.hidden.values())
        self._inherited = array("q", sorted(due, reverse=True))

    def _due_us(self) -> int | None:
        """When a tick of this worker is next of use, in log time."""
        own, inherited, now_us = self._own, self._inherited, self._fold.at_us
        left = FEW
        while own and (own[0][2].outcome is not None or own[0][0] <= now_us):
            heappop(own)
            left -= 1
            if not left:  # a herd has ended: to take out each in its order would take ten times as long
                self._sweep()
        next_us = self._fold.next_us
        if next_us is None:
            return None
        while inherited and inherited[-1] < next_us:  # it has ended
            inherited.pop()
        due_us = next_us + self._grace_us
        if inherited:
            due_us = min(due_us, inherited[-1] + self._inherited_us)
        return min(due_us, own[0][0]) if own else due_us

    def _arm(self, due_us: int) -> None:
        left_s = max(due_us - self._log_time.now_us(), 0) / SECOND
        delay = min(max(left_s, self._not_before_s - self._timer.time()), LONGEST_NAP_S)
        self._armed_us = due_us
        if self._handle is None or not self._handle.reschedule(delay):
            self._handle = self._timer.call_later(delay, self._wake)

    def _wake(self) -> None:
        self._armed_us = None
        due_us = self._due_us()
        if due_us is None or self._under_way is not None or self._closed:
            return
        if self._log_time.now_us() < due_us or self._timer.time() < self._not_before_s:
            self._arm(due_us)
            return
        aim_us = min(due_us, self._fold.next_us or due_us)
        self._not_before_s = self._timer.time() + self._pause_s
        try:
            tick = self._append()
        except PurgatoryFull:  # what waits to be appended lets time pass as well
            self._arm(due_us)
            return
        self.appended += 1
        self._under_way = tick
        self._grace_us = _grace_us()
        tick.add_done_callback(lambda done: self._settled(done, aim_us))

    def _settled(self, tick: "asyncio.Future[Any]", aim_us: int) -> None:
        self._under_way = None
        if tick.cancelled():
            return
        if tick.exception() is not None:
            self._slow_down()
        elif self._fold.at_us < aim_us:
            self._log_time.correct(self._fold.at_us)
            self._slow_down()
        else:
            self._pause_s = SHORTEST_PAUSE_S
        self.look()

    def _slow_down(self) -> None:
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        self._not_before_s = self._timer.time() + self._pause_s


def _grace_us() -> int:
    return random.randint(*GRACE_US)  # noqa: S311 - spreads load, hides nothing
