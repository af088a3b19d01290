"""The base of the state machines: a pattern and a reference without a loop live the same stories.

What happens in one pass of the loop is a list of steps, so that arrivals, cancellations and deadlines may meet before
any task can know. In a reference everything is at once, but what tasks do in the loop's next pass.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from purgatory_async import Timer
from purgatory_async.testing import ManualClock, settle

__all__ = ["Reference", "Story", "Wait", "step"]


def step(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """A step of a story: the name of the machine's method, and what it is called with."""
    return st.tuples(st.just(name), *arguments)


class Wait:
    """A task's wait, in a reference; ``end`` is what it returns, an exception's type, or ``"cancelled"``."""

    end: object = None

    def __init__(self, wanted: Any, timeout: float | None = None) -> None:
        self.wanted = wanted
        self.timeout = timeout
        self.deadline: float | None = None


class Reference:
    """What a pattern means, in plain lists."""

    def __init__(self) -> None:
        self.now = 0.0
        self._ready: list[tuple[Wait | None, Callable[[], object]]] = []

    def start(self, wait: Wait) -> None:
        """Begin to wait: the first step of its task."""
        raise NotImplementedError

    def leave(self, wait: Wait) -> bool:
        """Drop a wait; returns whether it waited."""
        raise NotImplementedError

    def come(self, wait: Wait) -> None:
        """Let its task begin in the next pass."""
        self.next_pass(wait, partial(self.start, wait))

    def cancel(self, wait: Wait) -> bool:
        """Cancel its task; returns whether it waited."""
        wait.end = "cancelled"
        self._ready = [each for each in self._ready if each[0] is not wait]
        return self.leave(wait)

    def next_pass(self, wait: Wait | None, call: Callable[[], object]) -> None:
        """Do something in the next pass, unless this wait is cancelled before."""
        self._ready.append((wait, call))

    def make_pass(self) -> bool:
        """Let all tasks run that can; returns whether any did."""
        ready, self._ready = self._ready, []
        for _, call in ready:
            call()
        return bool(ready)

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


class Story(RuleBasedStateMachine):
    """Tells a pattern and its reference the same story, on a loop and a clock of its own."""

    new_loop: Callable[[], asyncio.AbstractEventLoop] = staticmethod(asyncio.SelectorEventLoop)
    loop: asyncio.AbstractEventLoop | None = None
    reference: Any
    last_words: tuple[tuple[Any, ...], ...] = ()
    """The steps that end every story."""

    def begin_on(self, reference: Reference) -> Timer:
        """Begin; returns the timer for the pattern."""
        self.loop = self.new_loop()
        self.clock = ManualClock()
        self.timer = Timer(clock=self.clock)
        self.reference = reference
        self.tasks: dict[asyncio.Task[Any], Wait] = {}
        self.leaving = 0  # cancelled, and their tasks have yet to run: a count may still include them
        return self.timer

    def play(self, *steps: tuple[Any, ...]) -> None:
        """Tell both the steps of a turn, let all tasks run, and compare."""
        assert self.loop is not None
        self.loop.run_until_complete(self._play(steps))

    async def _play(self, steps: tuple[tuple[Any, ...], ...]) -> None:
        for name, *arguments in steps:
            called = getattr(self, name)(*arguments)
            if name == "turn":
                await called
            self.look()
        await self.turn()
        await settle()
        while self.reference.make_pass():
            pass
        self.look()
        self.compare()
        self.tasks = {task: wait for task, wait in self.tasks.items() if not task.done()}

    # Steps.

    def begin_wait(self, wait: Wait, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Begin a task that waits."""
        assert self.loop is not None
        self.tasks[self.loop.create_task(coroutine)] = wait
        self.reference.come(wait)

    def cancel(self, index: int) -> None:
        """Cancel one of the tasks that have not ended."""
        live = [task for task, wait in self.tasks.items() if not task.done() and wait.end != "cancelled"]
        if live:
            task = live[index % len(live)]
            task.cancel()
            self.leaving += self.reference.cancel(self.tasks[task])

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.advance(seconds)
        self.reference.pass_time(seconds)

    async def turn(self) -> None:
        """Let every task that can run, run."""
        await asyncio.sleep(0)
        self.reference.make_pass()
        self.leaving = 0

    # Comparing.

    def look(self) -> None:
        """Compare what is seen between two steps."""

    def compare(self) -> None:
        """Compare what is seen when all tasks have run: the ends of the waits, first of all."""
        for task, wait in self.tasks.items():
            assert told_by(task) == wait.end, (
                f"the wait for {wait.wanted!r} ended with {told_by(task)!r}, not {wait.end!r}"
            )

    def teardown(self) -> None:
        """End the story."""
        if self.loop is not None:
            self.play(*self.last_words)
            assert (self.timer.pending, self.timer.next_deadline) == (0, None)
            self.loop.close()


def told_by(task: asyncio.Task[Any]) -> object:
    """What a task has returned or raised, as a reference tells it."""
    if not task.done():
        return None
    if task.cancelled():
        return "cancelled"
    exception = task.exception()
    return task.result() if exception is None else type(exception)
