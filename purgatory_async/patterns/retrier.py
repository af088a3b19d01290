"""Retries by key: retry failed calls, the latest one per key.

Dubbo's failback registry repeats a failed registration every five seconds, and a later, opposite call for the same
URL replaces it. Its periods are up to twice as long, because each is rounded up to a tick as long as the period and
the next counts from there. Here each attempt is due one delay after the previous one was due, plus the time that one
took, for any tick. If that is past, because the loop was blocked or a tick is longer, the delay counts from now.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable
from contextvars import copy_context
from functools import partial
from inspect import isawaitable
from typing import Any, Final, Generic, TypeVar, cast

from purgatory_async import (
    DelayedOperation,
    OperationCancelled,
    OperationExpired,
    Outcome,
    Purgatory,
    PurgatoryClosed,
    PurgatoryError,
    PurgatoryFull,
    Timer,
)
from purgatory_async.errors import check_result, refuse_again
from purgatory_async.patterns._arguments import check_function, check_integer, check_number
from purgatory_async.patterns._intents import Attempt, Intent, RetryOn, Rhythm, Run, Submitted, predicate_of
from purgatory_async.patterns._job import Calls

__all__ = ["Attempt", "Retrier"]

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_DUE: Final = ("due",)


class _Attempts(Generic[K]):
    """The latest intent of each key, and the attempts in progress: never two for one key."""

    __slots__ = (
        "_calls",
        "_closed",
        "_intents",
        "_retry_on",
        "_rhythm",
        "_running",
        "_timer",
        "_waits",
        "on_failure",
        "on_give_up",
    )

    on_failure: Callable[[K, BaseException, int], object] | None
    on_give_up: Callable[[K, BaseException], object] | None

    def __init__(self, timer: Timer, rhythm: Rhythm, retry_on: RetryOn) -> None:
        self._timer = timer
        self._rhythm = rhythm
        self._retry_on = predicate_of(retry_on)
        self._calls = Calls()
        self._closed = False
        self._intents: dict[K, Intent] = {}
        self._running: dict[K, Intent] = {}
        self._waits = Purgatory("retrier", timer=timer)  # the end of an attempt signals ``(key,)``

    def _put(self, key: K, intent: Intent) -> None:
        former = self._intents.get(key)
        if former is not None:
            former.drop()
        self._intents[key] = intent

    async def _attempt(self, key: K, intent: Intent) -> Any:
        """Attempt once, and await ``on_failure``, which is a part of the attempt."""
        intent.task = asyncio.current_task()
        try:
            result: object = intent.attempt()
            if not isawaitable(result):
                raise TypeError(  # noqa: TRY301 - a failure like those that it raises
                    f"an attempt must be an async function, but {intent.attempt!r} returned {result!r}"
                )
            return await result
        except BaseException as failure:
            intent.failures += 1
            if (
                self.on_failure is not None
                and self._intents.get(key) is intent
                and not intent.is_ended_by(failure)
            ):
                await self._tell(self.on_failure, key, failure, intent.failures)
            raise

    async def _tell(
        self,
        on_failure: Callable[[K, BaseException, int], object],
        key: K,
        failure: BaseException,
        number: int,
    ) -> None:
        try:
            result = on_failure(key, failure, number)
            if isawaitable(result):
                await result
            else:
                check_result("what is no async function", on_failure, result)
        except Exception as exception:  # noqa: BLE001 - reported, and the attempts go on
            self._report(f"on_failure of {self!r} raised for {key!r}", exception)

    def _over(self, key: K, intent: Intent) -> None:
        """Let an attempt begin that had to wait for the end of this one."""
        intent.task = None
        del self._running[key]
        if self._waits.pending:
            self._waits.complete_for_key((key,))
        latest = self._intents.get(key)
        if latest is not intent and isinstance(latest, Submitted) and latest.overdue is not None:
            latest.overdue.run(self._begin, key, latest)

    def _give_up(self, key: K, failure: BaseException) -> None:
        if self.on_give_up is not None:
            try:
                self._calls.run(self.on_give_up, self, key, failure)
            except Exception as exception:  # noqa: BLE001 - reported, and the other keys go on
                self._report(f"on_give_up of {self!r} raised for {key!r}", exception)

    def _report(self, message: str, exception: BaseException) -> None:
        asyncio.get_running_loop().call_exception_handler({"message": message, "exception": exception})

    def _too_late(self, key: K) -> OperationExpired:
        total = self._rhythm.total
        return OperationExpired(
            f"no attempt for {key!r} could begin within {total} s", keys=(key,), timeout=total
        )

    # What is submitted.

    def _schedule(self, key: K, intent: Submitted) -> bool:
        """Schedule the next attempt; False if it would come too late to be another."""
        due = self._rhythm.next_due(intent, self._timer.time())
        if intent.failures and intent.is_late(due):
            return False
        intent.handle = self._timer.call_at(due, self._begin, key, intent)
        intent.due = due
        return True

    def _begin(self, key: K, intent: Submitted) -> None:
        if self._closed:
            return
        if key in self._running:
            intent.overdue = copy_context()
            return
        started = self._timer.time()
        if intent.is_late(started):
            self._end(key, self._too_late(key))
            return
        self._running[key] = intent
        try:
            task = asyncio.get_running_loop().create_task(self._attempt(key, intent))
        except BaseException as interrupt:  # in the first step of an eager task
            self._ended(key, intent, started, interrupt)
            raise
        intent.task = task
        # A callback: a task cancelled before its first step runs no `finally` of its own.
        task.add_done_callback(partial(self._finished, key, intent, started))

    def _finished(self, key: K, intent: Submitted, started: float, task: asyncio.Task[Any]) -> None:
        failure = asyncio.CancelledError("cancelled") if task.cancelled() else task.exception()
        if task.cancelled() and task.cancelling() and not self._closed and self._intents.get(key) is intent:
            del self._intents[key]  # from outside: `cancel` has dropped it before
        self._ended(key, intent, started, failure)

    def _ended(self, key: K, intent: Submitted, started: float, failure: BaseException | None) -> None:
        self._over(key, intent)
        if self._intents.get(key) is intent:
            intent.due += self._timer.time() - started
            self._judge(key, intent, failure)

    def _judge(self, key: K, intent: Submitted, failure: BaseException | None) -> None:
        """Finish, repeat or give up an intent after an attempt."""
        if failure is None:
            del self._intents[key]
        elif not self._closed:  # else aclose returns it as undone
            try:
                if intent.failures >= self._rhythm.attempts or not self._schedule(key, intent):
                    self._end(key, failure)
            except PurgatoryClosed:
                pass  # by its timer; left undone, too
            except Exception as refusal:  # noqa: BLE001 - a full timer or a raising random counts as a failure
                self._end(key, refusal)

    def _end(self, key: K, failure: BaseException) -> None:
        del self._intents[key]
        if self.on_give_up is None:
            self._report(f"{self!r} gave up on {key!r}", failure)
        else:
            self._give_up(key, failure)

    # What is run.

    async def _until_success(self, key: K, run: Run) -> Any:
        """Attempt until one succeeds; the last exception comes out."""
        if not await self._in_turn(key, run):
            raise self._too_late(key)
        while True:
            try:
                result = await self._attempt_here(key, run)
            except BaseException as failure:
                if run.is_ended_by(failure):
                    raise
                self._check_latest(key, run)
                if await self._repeats(key, run, failure):
                    continue
                if isinstance(failure, asyncio.CancelledError):  # from inside: the caller goes on
                    raise OperationCancelled(
                        f"the attempt for {key!r} was cancelled", keys=(key,)
                    ) from failure
                raise
            if not self._closed:  # else it was in time
                self._check_latest(key, run)
            return result

    async def _attempt_here(self, key: K, run: Run) -> Any:
        self._running[key] = run
        started = self._timer.time()
        try:
            return await self._attempt(key, run)
        finally:
            if run.stopped and run.task is not None:
                run.task.uncancel()
            run.due += self._timer.time() - started
            self._over(key, run)

    async def _repeats(self, key: K, run: Run, failure: BaseException) -> bool:
        """Wait until the next attempt is due; False if none is."""
        if not self._retry_on(failure) or run.failures >= self._rhythm.attempts:
            return False
        due = self._rhythm.next_due(run, now := self._timer.time())
        if run.is_late(due):
            return False
        run.due = due
        self._pause(run, _DUE, due - now)
        return await self._in_turn(key, run)

    def _pause(self, run: Run, key: tuple[object], seconds: float) -> None:
        run.pause = DelayedOperation(seconds)
        self._waits.try_complete_else_watch(run.pause, (key,))

    async def _in_turn(self, key: K, run: Run) -> bool:
        """Wait for the end of the pause, then of attempts of others for the key; False if it is too late then."""
        while True:
            pause = run.pause
            if pause is not None:
                try:
                    outcome = await pause
                finally:
                    pause.cancel()
                    run.pause = None
                self._check_latest(key, run)
                if outcome is Outcome.CLOSED:
                    raise PurgatoryClosed(f"the timer was closed under the attempts for {key!r}", keys=(key,))
            now = self._timer.time()
            if key not in self._running:
                return not run.is_late(now)
            if run.latest <= now:
                return False
            self._pause(run, (key,), run.latest - now)

    def _check_latest(self, key: K, run: Run) -> None:
        if self._closed:
            raise PurgatoryClosed(f"{self!r} was closed under the attempts for {key!r}", keys=(key,))
        if run.dropped:
            raise OperationCancelled(f"the attempts for {key!r} were replaced or cancelled", keys=(key,))


class Retrier(_Attempts[K]):
    """Repeats the attempt that was asked for last for a key until it succeeds.

    `run` returns its result or raises its last exception; `submit` leaves it in the background. Attempts for one key
    never overlap. A task of a submitted attempt that is cancelled from outside, as at the end of a program, ends the
    intent: it is neither repeated nor given up. A cancellation that comes from what the attempt awaits is a failure
    like others.

    Args:
        timer: For the delays.
        delay: Seconds before each attempt, but the first of `run`; from a microsecond to 25 years.
        attempts: How many, at least 1, before it gives up; None for no limit.
        backoff: Multiplies the delay after each failure, at least 1.
        jitter: The largest random share of a delay to add to it, 0 to 1.
        max_delay: The longest delay in seconds, before jitter; from ``delay`` to 25 years.
        max_pending: The limit of keys with an attempt to come or in progress.
        first_delay: Seconds before the first attempt of `run`, without jitter.
        total: Seconds after which no attempt begins, from `run` or `submit`; at least ``first_delay``, None for no
            limit. It does not interrupt an attempt, and gives up at once if the next would be too late.
        retry_on: What `run` repeats: exception classes, or a plain function that is given an exception. `submit`
            repeats all.
        on_failure: Called with key, exception and number, from 1, of each attempt that fails, unless it was replaced
            or cancelled. An async function is awaited as a part of the attempt. What it raises goes to the loop's
            exception handler.
        on_give_up: Called with key and exception when the last attempt has failed, or when the full timer refuses the
            next. An async function runs in a task of its own, which `aclose` waits for. What it raises goes to the
            loop's exception handler; without one, so does the exception of what was submitted.
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

    __slots__ = ("__weakref__", "_first_delay", "_max_pending")

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
        first_delay: float = 0.0,
        total: float | None = None,
        retry_on: RetryOn = (Exception,),
        on_failure: Callable[[K, BaseException, int], object] | None = None,
        on_give_up: Callable[[K, BaseException], object] | None = None,
        random: Callable[[], float] = random.random,
    ) -> None:
        refuse_again(self, "_timer")
        if not isinstance(timer, Timer):
            raise TypeError(f"timer must be a Timer, got {timer!r}")
        rhythm = Rhythm(
            delay=delay, attempts=attempts, backoff=backoff, jitter=jitter, max_delay=max_delay, random=random
        )
        self._max_pending = check_integer("max_pending", max_pending, least=1)
        self._first_delay = check_number("first_delay", first_delay, least=0.0)
        if total is not None:
            rhythm.total = check_number("total", total, least=self._first_delay)
        for name, reaction in (("on_failure", on_failure), ("on_give_up", on_give_up)):
            if reaction is not None:
                check_function(name, reaction)
        super().__init__(timer, rhythm, retry_on)
        self.on_failure = on_failure
        self.on_give_up = on_give_up

    def __repr__(self) -> str:
        return f"<Retrier every {self._rhythm.delay} s pending={self.pending} running={len(self._running)}>"

    @property
    def pending(self) -> int:
        """The number of keys with an attempt to come or in progress. O(1)."""
        return len(self._intents)

    async def run(self, key: K, attempt: Callable[[], Awaitable[T]]) -> T:
        """Attempt, at first after ``first_delay``, until one attempt succeeds; in the task that awaits this.

        This replaces what was asked for the key before. An attempt in progress for the key ends first. When this
        returns or raises, its own attempt has ended.

        Args:
            key: Any hashable.
            attempt: An async function without arguments; it fails by raising.

        Returns:
            The result of the attempt that succeeded.

        Raises:
            OperationCancelled: Another `run`, `submit` or `cancel` for the key ended this; or what the last attempt
                awaited was cancelled.
            OperationExpired: No attempt began within ``total``, for another was in progress.
            PurgatoryFull: ``max_pending`` other keys are pending, or the timer refuses a delay.
            PurgatoryClosed: The retrier or its timer is closed, or was closed under this.
            PurgatoryError: It is called in an attempt for the same key, or outside a task.
            TypeError: ``attempt`` is not callable, or ``key`` is not hashable.
            BaseException: The exception of the last attempt.
        """
        check_function("attempt", attempt)
        task = asyncio.current_task()
        running = self._running.get(key)
        if task is None or (running is not None and running.task is task):
            raise PurgatoryError(
                f"cannot run an attempt for {key!r} outside a task, or inside one of the same key"
            )
        self._refuse(key, "run", closed=self._closed or self._timer.closed)
        if (
            self._timer.clock is None
        ):  # it finds its clock at its first use; until then, each time it is asked
            self._timer.call_later(0, self._timer.time).cancel()
        run = Run(attempt, self._rhythm, self._timer.time(), task.cancelling())
        if self._first_delay:
            run.due += self._first_delay
            self._pause(run, _DUE, self._first_delay)
        self._put(key, run)
        try:
            return cast("T", await self._until_success(key, run))
        except BaseException as failure:
            gave_up = not (self._closed or self._timer.closed or run.is_ended_by(failure))
            if self._forget(key, run) and gave_up:
                self._give_up(key, failure)
            raise
        finally:
            self._forget(key, run)

    def submit(self, key: K, attempt: Attempt) -> None:
        """Schedule attempts for a key, the first one delay from now, until one succeeds.

        This replaces what was asked for the key before, with a fresh count of attempts. An attempt in progress for
        the key ends first.

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
        self._refuse(key, "submit", closed=self._closed)
        intent = Submitted(attempt, self._rhythm, self._timer.time())
        self._schedule(key, intent)
        self._put(key, intent)

    def cancel(self, key: K) -> bool:
        """Drop what was asked for a key, and cancel the attempt in progress for it, superseded or not.

        `run` raises `OperationCancelled`. An attempt that calls this is neither cancelled nor repeated. An attempt
        already cancelled that still cleans up is not cancelled again. O(1).

        Returns:
            Whether an attempt was still pending for the key.
        """
        intent = self._intents.pop(key, None)
        if intent is None:
            return False
        intent.drop()
        running = self._running.get(key)
        if running is not None:
            running.stop()
        return True

    async def aclose(self) -> dict[K, Attempt]:
        """Refuse new attempts, cancel those in progress, and wait until they and an async ``on_give_up`` have ended.

        `run` raises `PurgatoryClosed`.

        Returns:
            The submitted attempts left undone, by key. Empty when called again.
        """
        self._closed = True
        for intent in self._intents.values():
            intent.drop()
        for running in list(self._running.values()):
            running.stop()
        while others := [key for key, running in self._running.items() if running.is_elsewhere()]:
            await self._waits.wait((others[0],))
        await self._calls.finished()
        undone = {
            key: intent.attempt for key, intent in self._intents.items() if isinstance(intent, Submitted)
        }
        self._intents.clear()
        return undone

    def _refuse(self, key: K, verb: str, *, closed: bool) -> None:
        if closed:
            raise PurgatoryClosed(f"{self!r} is closed: cannot {verb} an attempt for {key!r}", keys=(key,))
        if key not in self._intents and len(self._intents) >= self._max_pending:
            raise PurgatoryFull(
                f"{len(self._intents)} keys are pending, max_pending is {self._max_pending}",
                limit=self._max_pending,
            )

    def _forget(self, key: K, intent: Intent) -> bool:
        """Drop an intent if it is its key's latest; returns whether it was."""
        was = self._intents.get(key) is intent
        if was:
            del self._intents[key]
        return was
