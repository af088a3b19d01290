"""One poll, from the client's request to the answer, for any framework."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Final

from purgatory_async import OperationCancelled, OperationExpired, PurgatoryClosed, PurgatoryFull, Timer
from purgatory_async.clock import MAX_TIMEOUT, Clock, MonotonicClock
from purgatory_async.errors import check_callback
from purgatory_async.web import _answer
from purgatory_async.web._answer import Encode, PollAnswer, check_encode, check_range
from purgatory_async.web._shutdown import held_on
from purgatory_async.web.race import ClientLeft, Race, ServerStops, WaitFunction
from purgatory_async.web.waiting import asked_wait, decided_wait, shortened

MAX_WAIT: Final = 55.0  # common proxies give up a silent upstream after 60 s
JITTER: Final = 0.0625
RETRY_AFTER: Final = (0, 1)  # another worker is ready at once, as a rule


@dataclass(frozen=True, slots=True)
class Terms:
    """How long polls are held, how their values are encoded, and when refused clients come back.

    Attributes:
        max_wait: Seconds; the longest wait, and the default one.
        jitter: The largest share of a wait by which it may end early; None to choose by the clock.
        draw: Returns the next random fraction, from 0 to 1.
        encode: As for `with_value`.
        retry_after: The least and the most seconds of a 503's ``Retry-After``.

    Raises:
        TypeError: ``encode`` or ``draw`` is not callable, or async; ``retry_after`` is not a pair of numbers.
        ValueError: ``max_wait``, ``jitter`` or ``retry_after`` is out of bounds.
    """

    max_wait: float
    jitter: float | None
    draw: Callable[[], float]
    encode: Encode | None
    retry_after: tuple[float, float]

    def __post_init__(self) -> None:
        check_encode(self.encode)
        check_callback("draw", self.draw)
        if not 0 <= self.max_wait <= MAX_TIMEOUT:
            raise ValueError(f"max_wait must be from 0 to {MAX_TIMEOUT:.0f} seconds, got {self.max_wait!r}")
        if self.jitter is not None and not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter must be from 0 to 1, a share of the wait, got {self.jitter!r}")
        check_range("retry_after", self.retry_after, RETRY_AFTER)

    def retry_seconds(self) -> int:
        """Draw when a refused client shall come back; HTTP has whole seconds."""
        least, most = self.retry_after
        return int(least + self.draw() * (most - least) + 0.5)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the client asked for.

    Attributes:
        query: The query string, still encoded.
        prefer: The ``Prefer`` headers, joined; None without any.
    """

    query: str
    prefer: str | None


def usual_jitter(wait: WaitFunction) -> float:
    """Return the default jitter: none in virtual time, where a test relies on the end of a wait.

    The clock is read from the `Timer` of the object whose method ``wait`` is, else from the running loop.
    """
    function: object = wait
    while isinstance(function, partial):
        function = function.func
    timer = getattr(getattr(function, "__self__", None), "timer", None)
    clock: object = timer.clock if isinstance(timer, Timer) else None
    if clock is None:
        clock = asyncio.get_running_loop()
    return 0.0 if isinstance(clock, Clock) and not isinstance(clock, MonotonicClock) else JITTER


async def poll(
    asked: Asked,
    terms: Terms,
    watching: Callable[[Race], AbstractContextManager[object]],
    wait: WaitFunction,
    args: tuple[object, ...],
) -> PollAnswer:
    """Hold a request until its wait ends. The wait begins before other code on the loop runs.

    Args:
        asked: What the client asked for.
        terms: The limits of the wait.
        watching: Returns a context that ends the race when the client disconnects.
        wait: The async function to call.
        args: Its positional arguments.

    Raises:
        TypeError: JSON cannot carry the value, or ``wait`` is not an async function.
        BaseException: Any other exception of ``wait``, ``encode`` or ``watching``.
    """
    try:
        decided = decided_wait(
            asked_wait(asked.query), asked.prefer, terms.max_wait, otherwise=terms.max_wait
        )
    except ValueError as error:
        return _answer.malformed(str(error))
    jitter = usual_jitter(wait) if terms.jitter is None else terms.jitter
    timeout = shortened(decided.seconds, jitter, terms.draw())
    race = Race()
    try:
        with held_on(asyncio.get_running_loop()).holding(race), watching(race):
            value = await race.run(wait, args, timeout)
    except (OperationExpired, OperationCancelled):
        return _answer.empty(*decided.headers)
    except PurgatoryFull:
        return _answer.full(terms.retry_seconds())
    except (PurgatoryClosed, ServerStops):
        return _answer.closing(terms.retry_seconds())
    except ClientLeft:
        return _answer.unread()
    return _answer.with_value(value, *decided.headers, encode=terms.encode)
