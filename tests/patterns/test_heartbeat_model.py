"""The machine of `Heartbeat`: beside a link whose silence is counted, check by check."""

from math import inf

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from purgatory_async import OperationExpired, PurgatoryClosed
from purgatory_async.patterns import Heartbeat
from tests.patterns.stories import Reference, Story, Wait, step

INTERVAL = 3  # a check a second


class Silence(Reference):
    """A heartbeat as its contract says it, and who waits for its death."""

    def __init__(self, idle_timeout) -> None:
        super().__init__()
        self.idle_timeout = idle_timeout
        self.read = self.written = False
        self.read_at = self.written_at = self.pinged_at = 0.0
        self.pings: list[float] = []
        self.died_at: float | None = None
        self.closed = False
        self.waiting: list[Wait] = []
        self.told: list[Wait] = []

    def start(self, wait) -> None:
        if self.died_at is not None:
            wait.end = "dead"
        elif self.closed:
            wait.end = PurgatoryClosed
        else:
            wait.deadline = self.now + (inf if wait.timeout is None else wait.timeout)
            self.waiting.append(wait)

    def leave(self, wait) -> bool:
        waited = wait in self.waiting
        if waited:
            self.waiting.remove(wait)
        return waited

    def end_all(self, end) -> None:
        for wait in self.waiting:
            wait.end = end
        self.waiting.clear()

    def close(self) -> None:
        self.closed = True
        self.end_all(PurgatoryClosed)

    def pass_time(self, seconds) -> None:
        for _ in range(round(seconds * 4)):  # waits expire between checks
            super().pass_time(0.25)
            for wait in [wait for wait in self.waiting if wait.deadline <= self.now]:
                wait.end = OperationExpired
                self.waiting.remove(wait)
            if self.now % 1 == 0 and not self.closed and self.died_at is None:
                self.check()

    def check(self) -> None:
        if self.read:
            self.read_at = self.now
        if self.written:
            self.written_at = self.now
        self.read = self.written = False
        if self.now - self.read_at >= self.idle_timeout:
            self.died_at = self.now
            self.told = [*self.waiting]
            self.end_all("dead")
            return
        quiet = max(self.now - self.read_at, self.now - self.written_at) >= INTERVAL
        if quiet and self.now - self.pinged_at >= INTERVAL:
            self.pinged_at = self.written_at = self.now
            self.pings.append(self.now)


STEPS = (
    *[st.just(("pass_time", seconds)) for seconds in (0.5, 1, 2, 2, 3)],
    *[step("wait", st.sampled_from((None, None, 0.25, 1.25, 5.25)))] * 3,
    *[step("saw", st.sampled_from(("read", "write")))] * 2,
    step("cancel", st.integers(0, 7)),
    *[step("turn")] * 2,
    st.booleans().map(lambda early: ("close",) if early else ("turn",)),
)


class HeartbeatMachine(Story):
    last_words = (("close",), ("turn",), ("wait", None))

    @initialize(idle_timeout=st.sampled_from((6, 7, 9)))
    def begin(self, idle_timeout) -> None:
        timer = self.begin_on(Silence(idle_timeout))
        self.pings: list[float] = []
        self.order: list[str] = []
        self.heart = Heartbeat(
            timer,
            interval=INTERVAL,
            idle_timeout=idle_timeout,
            send=lambda: self.pings.append(self.clock.time()),
            on_dead=lambda: self.order.append(f"on_dead {self.clock.time()}"),
        )

    @rule(steps=st.lists(st.one_of(*STEPS), max_size=8))
    def one_turn(self, steps) -> None:
        self.play(*steps)

    def wait(self, timeout) -> None:
        self.begin_wait(Wait("its death", timeout), self.noted(timeout))

    async def noted(self, timeout) -> str:
        await self.heart.dead(timeout=timeout)
        self.order.append("dead")
        return "dead"

    def saw(self, what) -> None:
        getattr(self.heart, f"saw_{what}")()
        setattr(self.reference, {"read": "read", "write": "written"}[what], True)

    def close(self) -> None:
        self.heart.close()
        self.reference.close()

    def look(self) -> None:
        assert self.heart.alive is (self.reference.died_at is None)
        assert self.pings == self.reference.pings

    def compare(self) -> None:
        super().compare()
        died_at = self.reference.died_at
        said = [what for what in self.order if what != "dead"]
        assert len(said) == (died_at is not None)
        if said:
            went_on = sum(wait.end == "dead" for wait in self.reference.told)
            assert self.order.index(said[0]) >= went_on, (
                "on_dead was called before a task that waited went on"
            )


def test_no_story_differs_from_the_reference(tell) -> None:
    tell(HeartbeatMachine)
