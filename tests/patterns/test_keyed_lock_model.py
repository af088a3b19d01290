"""The machine of `KeyedSemaphore`, which with one permit is `KeyedLock`: beside queues, and those who run next."""

from collections import Counter
from functools import partial

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from purgatory_async import OperationExpired, Purgatory, PurgatoryClosed, PurgatoryError
from purgatory_async.patterns import KeyedLock, KeyedSemaphore
from purgatory_async.testing import assert_clean
from tests.patterns.stories import Reference, Story, Wait, step

KEYS = "ab"
HELD = "held"


class Lines(Reference):
    """Who holds what. A wait that was given a permit still has to run; cancelled before, it gives it on."""

    def __init__(self, permits) -> None:
        super().__init__()
        self.permits = permits
        self.taken: Counter[str] = Counter()
        self.held: Counter[str] = Counter()  # of these, by tasks that know it
        self.queues: dict[str, list[Wait]] = {key: [] for key in KEYS}
        self.newest: Wait | None = None  # that was given one
        self.closed = False

    def start(self, wait) -> None:
        key = wait.wanted
        if wait.end == "cancelled":
            return
        if self.closed:
            wait.end = PurgatoryClosed
        elif self.taken[key] < self.permits:
            self.taken[key] += 1
            self.held[key] += 1
            wait.end = HELD
        else:
            wait.deadline = None if wait.timeout is None else self.now + wait.timeout
            self.queues[key].append(wait)

    def cancel(self, wait) -> bool:
        """Its task keeps its turn in the next pass, in which it gives on what it was given."""
        wait.end = "cancelled"
        queue = self.queues[wait.wanted]
        waited = wait in queue
        if waited:
            queue.remove(wait)
        return waited

    def resume(self, wait) -> None:
        if wait.end == "cancelled":
            self.give_on(wait.wanted)
        else:
            self.held[wait.wanted] += 1

    def release(self, key) -> None:
        self.held[key] -= 1
        self.give_on(key)

    def give_on(self, key) -> None:
        queue = self.queues[key]
        if not queue:
            self.taken[key] -= 1
            return
        wait = self.newest = queue.pop(0)
        wait.end = HELD
        self.next_pass(wait, partial(self.resume, wait))

    def end(self, end, now=None) -> None:
        for queue in self.queues.values():
            for wait in list(queue):
                if now is None or (wait.deadline is not None and wait.deadline <= now):
                    wait.end = end
                    queue.remove(wait)

    def pass_time(self, seconds) -> None:
        super().pass_time(seconds)
        self.end(OperationExpired, self.now)


keys = st.sampled_from(KEYS)
timeouts = st.sampled_from((None, None, 1, 2))
acquires = step("acquire", keys, timeouts)
STEPS = (
    *[acquires] * 3,
    *[step("release", keys)] * 2,
    step("cancel", st.integers(0, 20)),
    step("release_and_cancel_who_got_it", keys),
    step("pass_time", st.sampled_from((0, 0.5, 1, 2))),
    *[step("turn")] * 2,
)


class KeyedMachine(Story):
    last_words = (("close",), ("turn",), ("release_all",))

    @initialize(permits=st.sampled_from((1, 1, 2, 3)))
    def begin(self, permits) -> None:
        self.purgatory = Purgatory(timer=self.begin_on(Lines(permits)))
        self.locks = KeyedLock(self.purgatory) if permits == 1 else KeyedSemaphore(self.purgatory, permits)

    @rule(steps=st.lists(st.one_of(*STEPS), max_size=10))
    def one_turn(self, steps) -> None:
        self.play(*steps)

    @rule(key=keys, timeout=timeouts, number=st.integers(1, 4))
    def some_come_and_wait(self, key, timeout, number) -> None:
        self.play(*[("acquire", key, timeout)] * number)

    def acquire(self, key, timeout) -> None:
        self.begin_wait(Wait(key, timeout), self.hold_on(key, timeout))

    async def hold_on(self, key, timeout):
        await self.locks.acquire(key, timeout=timeout)
        return HELD

    def release(self, key) -> None:
        if self.reference.held[key]:
            self.locks.release(key)
            self.reference.release(key)
        elif not self.reference.taken[key]:
            try:
                self.locks.release(key)
            except PurgatoryError:
                return
            raise AssertionError(f"{key!r} was released, and is not held")

    def release_and_cancel_who_got_it(self, key) -> None:
        self.reference.newest = None
        self.release(key)
        for task, wait in self.tasks.items():
            if wait is self.reference.newest:
                task.cancel()
                self.reference.cancel(wait)

    def release_all(self) -> None:
        for key in KEYS:
            while self.reference.held[key]:
                self.release(key)

    def close(self) -> None:
        self.purgatory.close()
        self.reference.end(PurgatoryClosed)
        self.reference.closed = True

    def look(self) -> None:
        reference = self.reference
        assert len(self.locks) == len(+reference.taken)
        for key in KEYS:
            assert self.locks.locked(key) is (reference.taken[key] == reference.permits)
            assert self.locks.waiting(key) == len(reference.queues[key])

    def teardown(self) -> None:
        super().teardown()
        if self.loop is not None:
            assert len(self.locks) == 0
            assert_clean(self.purgatory)


def test_no_story_differs_from_the_reference(tell) -> None:
    tell(KeyedMachine)
