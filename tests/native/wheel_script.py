"""Random steps on wheels alone: entries, limits, far and past deadlines, and what they refuse."""

from collections import deque
from random import Random

from purgatory_async.timing import HashedWheel, TimerEntry, TimingWheel
from tests.native.described import attempt

EPISODE = 500
SIZES = (2, 3, 8, 20, 256)
STARTS = (0, 1, 7, -5, 1_000_000)
# The farthest is 3000 times what a timer schedules: a hundred years in microseconds.
DISTANCES = (*range(-2, 9), 17, 63, 64, 65, 400, 5_000, 10**6, 10**9, 2**40, 2**62)
ADVANCES = (0, 1, 1, 2, 3, 7, 30, 300, 10_000, 10**7)
LIMITS = (None, None, None, 1, 2, 5, 0, -1)
BAD = (None, "1", 1.5, True, [], 10**30)


class Yard:
    """A wheel, and the entries that were last made for it."""

    def __init__(self, random):
        self.random, self.any = random, random.choice
        self.start = self.any(STARTS)
        self.wheel = self.any((TimingWheel, HashedWheel))(self.any(SIZES), self.start)
        self.entries = deque(maxlen=12)
        self.made = 0

    def schedule(self):
        self.made += 1
        self.entries.append(TimerEntry(self.wheel.now_tick + self.any(DISTANCES), self.made))
        return self.wheel.schedule(self.entries[-1])

    def schedule_again(self):
        entry = self.some_entry()
        return entry and self.wheel.schedule(entry)

    def move(self):
        entry = self.some_entry()
        if entry is None:
            return None
        found = self.wheel.cancel(entry)
        entry.deadline_tick = self.wheel.now_tick + self.any(DISTANCES)
        return found, self.wheel.schedule(entry)

    def cancel(self):
        entry = self.some_entry()
        return entry and self.wheel.cancel(entry)

    def advance(self):
        due = self.wheel.advance(self.wheel.now_tick + self.any(ADVANCES), self.any(LIMITS))
        return [(entry.deadline_tick, entry.payload, entry.scheduled) for entry in due]

    def go_back(self):
        return self.wheel.advance(self.wheel.now_tick - 3)

    def advance_to_next(self):
        tick = self.wheel.next_tick
        return tick, tick is not None and self.wheel.advance(tick)

    def misuse(self):
        kind, bad = type(self.wheel), self.any(BAD)
        return attempt(
            self.any(
                (
                    lambda: kind(bad if bad != BAD[-1] else 1),
                    lambda: self.wheel.schedule(bad),
                    lambda: self.wheel.cancel(bad),
                    lambda: self.wheel.advance(self.wheel.now_tick, "x"),
                )
            )
        )

    def some_entry(self):
        return self.any(self.entries) if self.entries else None

    def state(self):
        wheel = self.wheel
        shown = [repr(wheel), len(wheel), wheel.now_tick, wheel.next_tick, [*map(repr, self.entries)]]
        if isinstance(wheel, TimingWheel):
            shown += [wheel.levels(), [*wheel.buckets()], wheel.wheel_size]
        return shown


ODDS = {
    "schedule": 40,
    "schedule_again": 3,
    "move": 10,
    "cancel": 15,
    "advance": 20,
    "go_back": 1,
    "advance_to_next": 5,
}


def wheel_steps(seed):
    """Steps on one wheel after the other, without end."""
    episode = 0
    while True:
        yard = Yard(Random(f"{seed}:{episode}"))
        episode += 1
        for _ in range(EPISODE):
            (verb,) = yard.random.choices(tuple(ODDS), ODDS.values())
            answer = attempt(getattr(yard, verb))
            yield f"{verb} {answer!r} {yard.state()!r}"
            attempt(yard.wheel.check_invariants)
