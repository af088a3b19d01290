"""The machine of `Retrier`: beside a table of intents, a row a key, in which an attempt ends when the story says so."""

import asyncio
from math import inf
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from purgatory_async import OperationCancelled, OperationExpired, PurgatoryClosed
from purgatory_async.patterns import Retrier
from tests.patterns.stories import Reference, Story, Wait, step
from tests.patterns.work import PlannedError

KEYS = "ab"


class Row:
    """An intent: of a wait, or submitted."""

    def __init__(self, wait: Wait | None, number: int, due: float, delay: float, latest: float) -> None:
        self.wait, self.number = wait, number
        self.due, self.delay, self.latest = due, delay, latest
        self.started, self.failures = 0.0, 0

    def end(self, end: object) -> None:
        if self.wait is not None and self.wait.end is None:
            self.wait.end = end


class Table(Reference):
    """A retrier as its contract says it."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__()
        self.delay, self.attempts, self.backoff = (
            settings[name] for name in ("delay", "attempts", "backoff")
        )
        self.first_delay = settings["first_delay"]
        self.total = inf if settings["total"] is None else settings["total"]
        self.rows: dict[str, Row] = {}
        self.running: dict[str, Row] = {}
        self.begun: list[tuple[str, int, float]] = []
        self.told: list[tuple[str, int]] = []
        self.given_up: list[tuple[str, type]] = []
        self.numbers = 0

    def start(self, wait) -> None:
        self.ask(wait.wanted, wait)

    def ask(self, key, wait=None) -> None:
        """Take the place of what was asked for the key before."""
        self.numbers += 1
        if key in self.rows:
            self.drop(key)
        first, delay = (
            (self.delay, self.delay * self.backoff) if wait is None else (self.first_delay, self.delay)
        )
        self.rows[key] = Row(wait, self.numbers, self.now + first, delay, self.now + self.total)
        self.begin(key)

    def drop(self, key) -> None:
        row = self.rows.pop(key)
        if self.running.get(key) is not row:
            row.end(OperationCancelled)

    def begin(self, key) -> None:
        row = self.rows.get(key)
        if row is None or row.due > self.now or self.running.get(key) is row:
            return
        if key in self.running:
            if row.wait is not None and self.now >= row.latest:
                self.give_up(key, OperationExpired)
        elif self.now > row.latest:
            self.give_up(key, OperationExpired)
        else:
            self.running[key] = row
            row.started = self.now
            self.begun.append((key, row.number, self.now))

    def give_up(self, key, failure) -> None:
        self.rows.pop(key).end(failure)
        self.given_up.append((key, failure))

    def end_attempt(self, key, fails) -> None:
        row = self.running.pop(key)
        if self.rows.get(key) is not row:
            row.end(OperationCancelled)
        elif not fails:
            del self.rows[key]
            row.end(row.number)
        else:
            row.failures += 1
            self.told.append((key, row.failures))
            due = row.due + self.now - row.started + row.delay
            row.due = due if due > self.now else self.now + row.delay
            row.delay *= self.backoff
            if row.failures >= self.attempts or row.due > row.latest:
                self.give_up(key, PlannedError)
        self.begin(key)

    def leave(self, wait) -> bool:
        for key, row in [*self.rows.items()]:
            if row.wait is wait:
                del self.rows[key]
        for key, row in [*self.running.items()]:
            if row.wait is wait:
                del self.running[key]
                self.begin(key)
        return False

    def cancel_key(self, key) -> bool:
        pending = key in self.rows
        if pending:
            self.drop(key)
            if key in self.running:
                self.running.pop(key).end(OperationCancelled)
        return pending

    def close(self) -> list[str]:
        for row in [*self.rows.values(), *self.running.values()]:
            row.end(PurgatoryClosed)
        undone = sorted(key for key, row in self.rows.items() if row.wait is None)
        self.rows, self.running = {}, {}
        return undone

    def pass_time(self, seconds) -> None:
        super().pass_time(seconds)
        for key in KEYS:
            self.begin(key)


keys = st.sampled_from(KEYS)
STEPS = (
    *[step("run", keys)] * 3,
    step("submit", keys),
    *[step("end_attempt", keys, st.booleans())] * 4,
    step("cancel", st.integers(0, 7)),
    step("cancel_key", keys),
    *[st.just(("pass_time", 1))] * 4,
)


class RetrierMachine(Story):
    last_words = (("close",),)

    @initialize(
        delay=st.integers(1, 3),
        attempts=st.integers(1, 4),
        backoff=st.sampled_from((1, 2)),
        first_delay=st.sampled_from((0, 0, 2)),
        total=st.sampled_from((None, None, 2, 4)),
    )
    def begin(self, **settings) -> None:
        timer = self.begin_on(Table(settings))
        self.told: list[tuple[str, int]] = []
        self.given_up: list[tuple[str, type]] = []
        self.begun: list[tuple[str, int, float]] = []
        self.gates: dict[str, asyncio.Future[int]] = {}
        self.numbers = 0
        self.undone: list[str] = []
        self.retrier: Retrier[str] = Retrier(
            timer,
            on_failure=lambda key, _, number: self.told.append((key, number)),
            on_give_up=lambda key, failure: self.given_up.append((key, type(failure))),
            **settings,
        )

    @rule(steps=st.lists(st.one_of(*STEPS), min_size=1, max_size=8))
    def one_by_one(self, steps) -> None:
        for each in steps:
            self.play(each)

    async def attempt(self, key, number) -> int:
        assert key not in self.gates, "attempts for one key overlap"
        assert self.loop is not None
        self.begun.append((key, number, self.clock.time()))
        self.gates[key] = self.loop.create_future()
        try:
            return await self.gates[key]
        finally:
            del self.gates[key]

    def asked(self, key) -> Any:
        self.numbers += 1
        number = self.numbers
        return lambda: self.attempt(key, number)

    def run(self, key) -> None:
        self.begin_wait(Wait(key), self.retrier.run(key, self.asked(key)))

    def submit(self, key) -> None:
        self.retrier.submit(key, self.asked(key))
        self.reference.ask(key)

    def end_attempt(self, key, fails) -> None:
        if key in self.reference.running:
            number = self.reference.running[key].number
            if fails:
                self.gates[key].set_exception(PlannedError("planned"))
            else:
                self.gates[key].set_result(number)
            self.reference.end_attempt(key, fails)

    def cancel_key(self, key) -> None:
        assert self.retrier.cancel(key) == self.reference.cancel_key(key)

    def close(self) -> None:
        assert self.loop is not None
        closing = self.loop.create_task(self.retrier.aclose())
        closing.add_done_callback(lambda task: self.undone.extend(task.result()))
        self.expected_undone = self.reference.close()

    def compare(self) -> None:
        super().compare()
        reference = self.reference
        assert self.retrier.pending == len(reference.rows)
        assert set(self.gates) == set(reference.running)
        for ours, theirs in (
            (self.begun, reference.begun),
            (self.told, reference.told),
            (self.given_up, reference.given_up),
        ):
            assert sorted(ours, key=repr) == sorted(theirs, key=repr)

    def teardown(self) -> None:
        super().teardown()
        if self.loop is not None:
            assert sorted(self.undone) == self.expected_undone


def test_no_story_differs_from_the_reference(tell) -> None:
    tell(RetrierMachine)
