"""What a `Retrier` keeps of each key: the latest that was asked for it, its progress and its rhythm."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from functools import partial
from math import inf
from typing import Any, Final, cast

from purgatory_async import DelayedOperation, TimerHandle
from purgatory_async.clock import MAX_TIMEOUT
from purgatory_async.errors import check_callback, check_result
from purgatory_async.patterns._arguments import check_integer, check_number

Attempt = Callable[[], Awaitable[object]]
RetryOn = type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], object]

_LONGEST_DELAY: Final = MAX_TIMEOUT / 4  # jitter doubles it, and a timer still accepts it


class Rhythm:
    """How often attempts come and when, as for `Retrier`."""

    __slots__ = ("attempts", "backoff", "delay", "jitter", "max_delay", "random", "total")

    def __init__(
        self,
        *,
        delay: float,
        attempts: int | None,
        backoff: float,
        jitter: float,
        max_delay: float | None,
        random: Callable[[], float],
    ) -> None:
        longest = _LONGEST_DELAY
        self.delay = delay = check_number("delay", delay, least=1e-6, most=longest)
        self.attempts = inf if attempts is None else check_integer("attempts", attempts, least=1)
        self.backoff = check_number("backoff", backoff, least=1.0, most=1e9)
        self.jitter = check_number("jitter", jitter, least=0.0, most=1.0)
        self.max_delay = (
            longest if max_delay is None else check_number("max_delay", max_delay, least=delay, most=longest)
        )
        check_callback("random", random)
        self.random = random
        self.total = inf

    def next_due(self, intent: "Intent", now: float) -> float:
        """When its next attempt is due: one delay after the former was, or from now if that is past."""
        delay = intent.delay * (1 + self.jitter * self.random())
        intent.delay = min(intent.delay * self.backoff, self.max_delay)
        due = intent.due + delay
        return due if due > now else now + delay


class Intent:
    """The latest that was asked for a key, and its progress; ``delay`` is in seconds, before jitter."""

    __slots__ = ("attempt", "cancelling", "delay", "due", "failures", "latest", "stopped", "task")

    task: asyncio.Task[Any] | None
    """It makes the attempt in progress."""

    def __init__(self, attempt: Attempt, rhythm: Rhythm, now: float) -> None:
        self.attempt = attempt
        self.delay = rhythm.delay
        self.due = now
        self.latest = now + rhythm.total
        self.failures = 0
        self.stopped = False
        self.task = None
        self.cancelling = 0  # requests to cancel its task before

    def is_late(self, time: float) -> bool:
        """Whether no attempt may begin at a time."""
        return round(time - self.latest, 9) > 0  # without the dust of floats

    def is_ended_by(self, exception: BaseException) -> bool:
        """Whether it is no failure, raised in the task: that was cancelled, or the program ends."""
        if isinstance(exception, asyncio.CancelledError):
            task = asyncio.current_task()
            return task is not None and task.cancelling() > self.cancelling
        return isinstance(exception, GeneratorExit | KeyboardInterrupt | SystemExit)

    def is_elsewhere(self) -> bool:
        """Whether another task than the present one makes the attempt in progress."""
        return self.task is not None and self.task is not asyncio.current_task(self.task.get_loop())

    def stop(self) -> None:
        """Cancel the attempt in progress, once, unless this is called in it."""
        if self.task is not None and self.is_elsewhere() and not self.stopped:
            self.stopped = self.task.cancel()

    def drop(self) -> None:
        """Make no further attempt."""
        raise NotImplementedError


class Submitted(Intent):
    """An intent whose attempts have tasks of their own."""

    __slots__ = ("handle", "overdue")

    handle: TimerHandle

    def __init__(self, attempt: Attempt, rhythm: Rhythm, now: float) -> None:
        super().__init__(attempt, rhythm, now)
        self.overdue: Context | None = None  # its own, until an attempt of the former intent ends

    def drop(self) -> None:
        """Make no further attempt."""
        self.handle.cancel()


class Run(Intent):
    """An intent whose attempts are made by the task that awaits their result."""

    __slots__ = ("dropped", "pause")

    def __init__(self, attempt: Attempt, rhythm: Rhythm, now: float, cancelling: int) -> None:
        super().__init__(attempt, rhythm, now)
        self.cancelling = cancelling
        self.dropped = False
        self.pause: DelayedOperation[None] | None = None

    def drop(self) -> None:
        """Make no further attempt."""
        self.dropped = True
        if self.pause is not None:
            self.pause.cancel()


def predicate_of(retry_on: RetryOn) -> Callable[[BaseException], bool]:
    """What tells whether an exception is one to repeat an attempt for."""
    if callable(retry_on) and not isinstance(retry_on, type):
        check_callback("retry_on", retry_on)
        return partial(_asked, retry_on)
    kinds = cast("tuple[type[BaseException], ...]", retry_on if isinstance(retry_on, tuple) else (retry_on,))
    for kind in kinds:
        if not _is_exception_class(kind):
            raise TypeError(
                f"retry_on must be exception classes or a plain function, got {kind!r} in {kinds!r}"
            )
    return partial(_is_one_of, kinds)


def _is_one_of(kinds: tuple[type[BaseException], ...], exception: BaseException) -> bool:
    return isinstance(exception, kinds)


def _asked(function: Callable[[BaseException], object], exception: BaseException) -> bool:
    answer = function(exception)
    check_result("retry_on", function, answer)
    return bool(answer)


def _is_exception_class(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)
