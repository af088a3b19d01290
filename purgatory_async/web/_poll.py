"""One poll, from what the client asked for to the answer, whatever the framework."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Final

from purgatory_async import OperationCancelled, OperationExpired, PurgatoryClosed, PurgatoryFull, Timer
from purgatory_async.clock import Clock, MonotonicClock
from purgatory_async.web import _answer
from purgatory_async.web._answer import Answer, Encode
from purgatory_async.web._race import ClientLeft, Race, ServerStops, Wait
from purgatory_async.web._shutdown import held_on
from purgatory_async.web.durations import MAX_TIMEOUT
from purgatory_async.web.waiting import asked_wait, decided_wait, shortened

MAX_WAIT: Final = 55.0  # below the 60 s after which common proxies give a silent upstream up
JITTER: Final = 0.0625


@dataclass(frozen=True, slots=True)
class Terms:
    """How long polls are held, and how their values are encoded.

    Attributes:
        max_wait: Seconds; the most that is granted, and what is granted to whoever asks for nothing.
        jitter: The largest share of a wait by which it may end early; None for what suits the clock.
        draw: The next random fraction, from 0 to 1.
        encode: Of `with_value`.

    Raises:
        TypeError: ``encode`` cannot be called.
        ValueError: ``max_wait`` or ``jitter`` is out of its bounds.
    """

    max_wait: float
    jitter: float | None
    draw: Callable[[], float]
    encode: Encode | None

    def __post_init__(self) -> None:
        # After the wait it would be too late: what came would be lost.
        if not (self.encode is None or callable(self.encode)):
            raise TypeError(f"encode must be a function or None, got {self.encode!r}")
        if not 0 <= self.max_wait <= MAX_TIMEOUT:
            raise ValueError(f"max_wait must be from 0 to {MAX_TIMEOUT:.0f} seconds, got {self.max_wait!r}")
        if self.jitter is not None and not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter must be from 0 to 1, a share of the wait, got {self.jitter!r}")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the client asked for.

    Attributes:
        query: The query string, still encoded.
        prefer: The ``Prefer`` headers, joined; None without any.
    """

    query: str
    prefer: str | None


def usual_jitter(wait: Wait) -> float:
    """The jitter where none is given: none in virtual time, where a test counts on a wait's end.

    Args:
        wait: A method of something with a `Timer`, which tells its clock; else the running loop does.
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
    wait: Wait,
    args: tuple[object, ...],
) -> Answer:
    """Hold a request until what it waits for is there.

    The wait begins before anything else on the loop can run.

    Args:
        asked: What the client asked for.
        terms: What is granted.
        watching: Makes the context in which the race is told when the client leaves.
        wait: What waits.
        args: Its positional arguments.

    Returns:
        The answer.

    Raises:
        TypeError: JSON cannot carry the value that came, or ``wait`` is no async function.
        BaseException: What else ``wait`` or ``encode`` raised, or the watching of the client.
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
        return _answer.full(terms.draw())
    except (PurgatoryClosed, ServerStops):
        return _answer.closing(terms.draw())
    except ClientLeft:
        return _answer.unread()
    return _answer.with_value(value, *decided.headers, encode=terms.encode)
