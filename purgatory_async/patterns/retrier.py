"""Retries by key: retry failed calls, the latest one per key.

Dubbo's failback registry repeats a failed registration every five seconds, and a later, opposite call for the same
URL replaces it. Its periods are up to twice as long, because each is rounded up to a tick as long as the period and
the next counts from there. Here each attempt is due one delay after the previous one was due, plus the time that one
took, for any tick. If that is past, because the loop was blocked or a tick is longer, the delay counts from now.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable
from contextvars import Context, copy_context
from functools import partial
from inspect import isawaitable
from math import inf
from typing import Final, Generic, TypeVar

from purgatory_async import PurgatoryClosed, PurgatoryFull, Timer, TimerHandle
from purgatory_async.clock import MAX_TIMEOUT
from purgatory_async.errors import check_callback, refuse_again
from purgatory_async.patterns._arguments import check_function, check_integer, check_number
from purgatory_async.patterns._job import Calls

__all__ = ["Attempt", "Retrier"]

K = TypeVar("K", bound=Hashable)

Attempt = Callable[[], Awaitable[object]]

_LONGEST_DELAY: Final = MAX_TIMEOUT / 4  # jitter doubles it, and a timer still accepts it


class _Intent:
    """The latest attempt submitted for a key, and its progress; ``delay`` is in seconds, before jitter."""

    __slots__ = ("attempt", "delay", "due", "failures", "handle", "overdue", "stopped", "task")

    handle: TimerHandle

    def __init__(self, attempt: Attempt, delay: float) -> None:
        self.attempt = attempt
        self.delay = delay
        self.due = 0.0
        self.failures = 0
        self.overdue: Context | None = None  # its own, until an attempt of the former intent ends
        self.stopped = False
        self.task: asyncio.Task[None] | None = None


class Retrier(Generic[K]):
    """Repeats the attempt submitted for a key until it succeeds.

    The first attempt comes one delay after `submit`, because the call has just failed. Attempts for one key never
    overlap. A task of an attempt that is cancelled from outside, as at the end of a program, ends the intent: it is
    neither repeated nor given up. A cancellation that comes from what the attempt awaits is a failure like others.

    Args:
        timer: For the delays.
        delay: Seconds before each attempt, from a microsecond to 25 years.
        attempts: How many, at least 1, before it gives up; None for no limit.
        backoff: Multiplies the delay after each failure, at least 1.
        jitter: The largest random share of a delay to add to it, 0 to 1.
        max_delay: The longest delay in seconds, before jitter; from ``delay`` to 25 years.
        max_pending: The limit of keys with an attempt to come or in progress.
        on_give_up: Called with key and exception when the last attempt has failed, or when the full timer refuses the
            next. An async function runs in a task of its own, which `aclose` waits for. What it raises goes to the
            loop's exception handler; without one, so does the exception.
        random: Returns numbers from 0 to 1, for the jitter.

    Raises:
        TypeError, ValueError: An argument has the wrong type or is out of bounds.

    >>> from purgatory_async.testing import ManualClock, settle
    >>> async def main():
    ...     clock = ManualClock()
    ...     registry = Retrier(Timer(clock=clock), delay=5.0, attempts=3)
    ...     registry.on_give_up = lambda key, error: print(f"{key}: {error}")
    ...     async def register():
    ...         print(f"{clock.time():g} s: trying")
    ...         raise ConnectionError("the registry is away")
    ...     registry.submit("provider-1", register)
    ...     while registry.pending:
    ...         clock.advance_to_next()
    ...         await settle()
    >>> asyncio.run(main())
    5 s: trying
    10 s: trying
    15 s: trying
    provider-1: the registry is away
    """

    __slots__ = (
        "__weakref__",
        "_attempts",
        "_backoff",
        "_calls",
        "_closed",
        "_delay",
        "_intents",
        "_jitter",
        "_max_delay",
        "_max_pending",
        "_random",
        "_running",
        "_timer",
        "on_give_up",
    )

    def __init__(
        self,
        timer: Timer,
        *,
        delay: float = 5.0,
        attempts: int | None = 3,
        backoff: float = 1.0,
        jitter: float = 0.0,
        max_delay: float | None = None,
        max_pending: int = 100,
        on_give_up: Callable[[K, BaseException], object] | None = None,
        random: Callable[[], float] = random.random,
    ) -> None:
        refuse_again(self, "_timer")
        if not isinstance(timer, Timer):
            raise TypeError(f"timer must be a Timer, got {timer!r}")
        self._delay = delay = check_number("delay", delay, least=1e-6, most=_LONGEST_DELAY)
        self._attempts = inf if attempts is None else check_integer("attempts", attempts, least=1)
        self._backoff = check_number("backoff", backoff, least=1.0, most=1e9)
        self._jitter = check_number("jitter", jitter, least=0.0, most=1.0)
        longest = _LONGEST_DELAY
        self._max_delay = (
            longest if max_delay is None else check_number("max_delay", max_delay, least=delay, most=longest)
        )
        self._max_pending = check_integer("max_pending", max_pending, least=1)
        if on_give_up is not None:
            check_function("on_give_up", on_give_up)
        check_callback("random", random)
        self._timer = timer
        self._random = random
        self.on_give_up = on_give_up
        self._calls = Calls()
        self._closed = False
        self._intents: dict[K, _Intent] = {}
        self._running: dict[K, _Intent] = {}

    def __repr__(self) -> str:
        return f"<Retrier every {self._delay} s pending={self.pending} running={len(self._running)}>"

    @property
    def pending(self) -> int:
        """The number of keys with an attempt to come or in progress. O(1)."""
        return len(self._intents)

    def submit(self, key: K, attempt: Attempt) -> None:
        """Schedule attempts for a key, the first one delay from now, until one succeeds.

        This replaces what was submitted for the key before, with a fresh count of attempts. An attempt in progress
        for the key ends first.

        Args:
            key: Any hashable.
            attempt: An async function without arguments; it fails by raising.

        Raises:
            PurgatoryFull: ``max_pending`` other keys are pending; nothing was submitted.
            PurgatoryClosed: The retrier or its timer is closed.
            TypeError: ``attempt`` is not callable, or ``key`` is not hashable.
            PurgatoryError: As `Timer.call_later`.
        """
        check_function("attempt", attempt)
        former = self._intents.get(key)
        if self._closed:
            raise PurgatoryClosed(f"{self!r} is closed: cannot submit an attempt for {key!r}", keys=(key,))
        if former is None and len(self._intents) >= self._max_pending:
            raise PurgatoryFull(
                f"{len(self._intents)} keys are pending, max_pending is {self._max_pending}",
                limit=self._max_pending,
            )
        intent = _Intent(attempt, self._delay)
        intent.due = self._timer.time()
        self._schedule(key, intent)
        if former is not None:
            former.handle.cancel()
        self._intents[key] = intent

    def cancel(self, key: K) -> bool:
        """Drop what was submitted for a key, and cancel the attempt in progress for it, superseded or not.

        An attempt that calls this is neither cancelled nor repeated. An attempt already cancelled that still cleans
        up is not cancelled again. O(1).

        Returns:
            Whether an attempt was still pending for the key.
        """
        intent = self._intents.pop(key, None)
        if intent is None:
            return False
        intent.handle.cancel()
        running = self._running.get(key)
        if running is not None and not running.stopped and running.task not in (None, asyncio.current_task()):
            running.stopped = running.task.cancel()
        return True

    async def aclose(self) -> dict[K, Attempt]:
        """Refuse new attempts, cancel those in progress, and wait until they and an async ``on_give_up`` have ended.

        Returns:
            The attempts left undone, by key. Empty when called again.
        """
        self._closed = True
        for intent in self._intents.values():
            intent.handle.cancel()
        own = (None, asyncio.current_task())
        tasks = [running.task for running in self._running.values() if running.task not in own]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._calls.finished()
        undone = {key: intent.attempt for key, intent in self._intents.items()}
        self._intents.clear()
        return undone

    def _schedule(self, key: K, intent: _Intent) -> None:
        """Schedule the next attempt one delay after the former was due, or from now if that is past."""
        delay = intent.delay * (1 + self._jitter * self._random())
        now = self._timer.time()
        due = intent.due + delay
        if due <= now:
            due = now + delay
        intent.handle = self._timer.call_at(due, self._begin, key, intent)
        intent.due = due

    def _begin(self, key: K, intent: _Intent) -> None:
        if key in self._running:
            intent.overdue = copy_context()
            return
        self._running[key] = intent
        started = self._timer.time()
        try:
            intent.task = asyncio.get_running_loop().create_task(_run(intent.attempt))
        except BaseException as interrupt:  # in the first step of an eager task
            self._ended(key, intent, started, interrupt)
            raise
        # A callback: a task cancelled before its first step runs no `finally` of its own.
        intent.task.add_done_callback(partial(self._finished, key, intent, started))

    def _finished(self, key: K, intent: _Intent, started: float, task: asyncio.Task[None]) -> None:
        intent.task = None
        failure = asyncio.CancelledError("cancelled") if task.cancelled() else task.exception()
        if task.cancelled() and task.cancelling() and not self._closed and self._intents.get(key) is intent:
            del self._intents[key]  # from outside: `cancel` has dropped it before
        self._ended(key, intent, started, failure)

    def _ended(self, key: K, intent: _Intent, started: float, failure: BaseException | None) -> None:
        del self._running[key]
        latest = self._intents.get(key)
        if latest is intent:
            intent.due += self._timer.time() - started
            self._judge(key, intent, failure)
        elif latest is not None and latest.overdue is not None and not self._closed:
            latest.overdue.run(self._begin, key, latest)

    def _judge(self, key: K, intent: _Intent, failure: BaseException | None) -> None:
        """Finish, repeat or give up an intent after an attempt."""
        if failure is None:
            del self._intents[key]
        elif not self._closed:  # else aclose returns it as undone
            intent.failures += 1
            intent.delay = min(intent.delay * self._backoff, self._max_delay)
            if intent.failures < self._attempts:
                self._try_again(key, intent)
            else:
                self._give_up(key, failure)

    def _try_again(self, key: K, intent: _Intent) -> None:
        try:
            self._schedule(key, intent)
        except PurgatoryClosed:
            pass  # by its timer; left undone, too
        except Exception as refusal:  # noqa: BLE001 - a full timer or a raising random counts as a failure
            self._give_up(key, refusal)

    def _give_up(self, key: K, failure: BaseException) -> None:
        del self._intents[key]
        report = asyncio.get_running_loop().call_exception_handler
        if self.on_give_up is None:
            report({"message": f"{self!r} gave up on {key!r}", "exception": failure})
            return
        try:
            self._calls.run(self.on_give_up, self, key, failure)
        except Exception as exception:  # noqa: BLE001 - reported, and the other keys go on
            report({"message": f"on_give_up of {self!r} raised for {key!r}", "exception": exception})


async def _run(attempt: Attempt) -> None:
    result: object = attempt()
    if not isawaitable(result):
        raise TypeError(f"an attempt must be an async function, but {attempt!r} returned {result!r}")
    await result
