"""The walker's random steps on a purgatory alone, with every text that it gives: events, reports, errors, reprs."""

from math import inf, nan
from random import Random

from purgatory_async import DelayedOperation, Purgatory
from purgatory_async.timing import TimingWheel
from tests.core.model.lockstep import reports_go_to
from tests.core.model.script import KEYS, QUEUES, TICKS, RealSide, Touchy
from tests.core.model.walker import EPISODE, FROM_OUTSIDE, LOOK_INSIDE, Chance
from tests.native.described import attempt, error_text, noted_warnings

LIMITS = (None, None, 1, 5, 40)
BAD_TIMEOUTS = (nan, -inf, 3_155_760_001, 1e308, 10**400, True, "1", b"1", 1j, [1])
BAD_LIMITS = (0, -1, True, 1.5, "1", [])
READINGS = 0.05  # the share of steps that read or misuse


class Untouched(DelayedOperation):
    """Has no dict and no hooks."""

    __slots__ = ("watched",)

    number = "untouched"


class Traced(RealSide):
    """A purgatory that logs the texts of everything."""

    def perform(self, command):
        verb, *arguments = command
        Touchy.raises_at = 0
        answer = attempt(getattr(self, verb), *arguments)
        Touchy.raises_at = 0
        self.log.append((verb, answer))
        return answer

    def notify(self, event):
        super().notify(event)
        self.log.append(("event", repr(event)))

    def take_report(self, unraisable):
        self.log.append(("reported", error_text(unraisable.exc_value), unraisable.err_msg))

    def read(self, random):
        """Use a verb that reads, or one with something that it refuses."""
        purgatory, timer, key = self.purgatory, self.timer, random.choice(KEYS)
        operation, limit = self.recent[-1] if self.recent else None, random.choice(BAD_LIMITS)
        bad = random.choice(BAD_TIMEOUTS)
        calls = (
            lambda: [*map(repr, purgatory.operations(key, limit=2))],
            lambda: [*map(repr, purgatory.operations(limit=3))],
            purgatory.watchers,
            lambda: purgatory.watchers([key, "unwatched"]),
            lambda: purgatory.check_and_complete(key, limit=2),
            lambda: (timer.queue.levels(), [*timer.queue.buckets()]) if is_wheel(timer.queue) else None,
            lambda: [(each.abandoned, each.timeout, each.outcome) for each in self.recent],
            lambda: purgatory.try_complete_else_watch(operation, ()),
            lambda: purgatory.try_complete_else_watch(Untouched(bad), [key]),
            lambda: purgatory.try_complete_else_watch(Untouched(), [key, []]),
            lambda: purgatory.try_complete_else_watch(Untouched(), 3),
            lambda: purgatory.try_complete_else_watch(None, [key]),
            lambda: purgatory.try_complete_else_watch(Untouched(1), (key, key)),
            lambda: purgatory.check_and_complete(key, limit=limit),
            lambda: purgatory.check_and_complete([]),
            lambda: purgatory.complete_for_key({}),
            lambda: purgatory.fail_for_key(key, bad),
            lambda: purgatory.fail_for_key(key, ValueError),
            lambda: purgatory.cancel_for_key([]),
            lambda: purgatory.operations(limit=limit),
            lambda: purgatory.watchers(limit),
            lambda: operation and operation.fail("no exception"),
            lambda: Purgatory(max_pending=limit),
            lambda: Purgatory(timer=limit),
            lambda: Untouched().__await__().send(None),
            lambda: operation and operation.__init__(1),
            lambda: DelayedOperation.__init__(Untouched.__new__(Untouched), bad),
            purgatory.__init__,
            lambda: purgatory.wait(key, timeout=bad).send(None),
            lambda: operation and purgatory.reschedule(operation, random.choice((None, 0, 3, bad))),
            lambda: operation and operation.reschedule(random.choice((None, inf, 0, 3, bad))),
            lambda: Untouched().reschedule(bad),
            lambda: purgatory.wait().send(None),
            lambda: purgatory.wait([]).send(None),
            lambda: purgatory.wait(key, until=3).send(None),
        )
        number = random.randrange(len(calls))
        answer = attempt(calls[number])
        Touchy.raises_at = 0
        self.log.append(("read", number, repr(answer)))

    def everything(self):
        """The state, and what the objects say of themselves."""
        texts = [repr(self.purgatory), repr(self.timer), self.timer.next_deadline, self.purgatory.checking]
        return self.state(), texts, [repr(each) for each in self.recent]


def is_wheel(queue):
    return isinstance(queue, TimingWheel)


def purgatory_steps(seed):
    """Steps on one purgatory after the other, without end."""
    episode = 0
    while True:
        chance = Chance(Random(f"{seed}:{episode}"))
        episode += 1
        side = Traced(*(chance.any(values) for values in (tuple(QUEUES), TICKS, LIMITS, LIMITS)))
        with reports_go_to(side), noted_warnings(side.log):
            try:
                yield from (f"{side.log!r} {side.everything()!r}" for _ in performed(side, chance))
            finally:
                side.purgatory.close()


def performed(side, chance):
    """Perform the steps of an episode, one for each turn of the iteration."""
    for step in range(EPISODE):
        side.log.clear()
        if side.purgatory.closed:
            side.perform(("open",))
        elif chance.random.random() < READINGS:
            side.read(chance.random)
        else:
            side.perform(chance.command(FROM_OUTSIDE))
        if step % LOOK_INSIDE == 0:
            side.check_invariants()
        yield step
