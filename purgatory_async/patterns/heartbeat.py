"""A heartbeat: ping an idle link, give up a dead one.

Dubbo's heartbeat and reconnect tasks do this from one wheel for all connections. As in Dubbo, a busy link is not
pinged, and time is monotonic. Silence is counted in checks, not in clock time: a loop that was blocked for a minute
finds due timers and unread sockets, and by the clock every peer would be dead, although its answer is in the buffer.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from math import inf
from typing import Final, Self

from purgatory_async import (
    DelayedOperation,
    OperationExpired,
    Outcome,
    Purgatory,
    PurgatoryClosed,
    Timer,
    TimerHandle,
)
from purgatory_async.clock import MAX_TIMEOUT, check_timeout
from purgatory_async.errors import refuse_again
from purgatory_async.patterns._arguments import check_function, check_number
from purgatory_async.patterns._job import Job
from purgatory_async.patterns.periodic import Periodic

__all__ = ["Heartbeat"]

_CHECKS: Final = 3  # an interval
_SHORTEST: Final = 3e-6  # a check every microsecond, the shortest tick
_DEAD: Final = ("dead",)


class Heartbeat:
    """Pings an idle link, and reports a dead one. It starts when it is constructed.

    Three times an interval it checks for reads and writes since the last check. It pings, once an interval, a link with
    no read, or no write, for an interval. A link with no read for ``idle_timeout`` is dead; it is found at most a third
    of an interval late, and never early. (If the timeout is not a whole number of thirds, one more check comes at its
    end.) As an async context manager it closes itself.

    Args:
        timer: For the checks; one for all links.
        interval: Seconds, at least 3 microseconds.
        idle_timeout: Seconds, at least twice the interval; three times if not given.
        send: Sends a ping; plain or async. Not called again during a call. Its exceptions go to the loop's exception
            handler.
        on_dead: Called once, when the link is dead, the heartbeat has ended and the tasks in `dead` have gone on;
            plain or async.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: ``interval`` or ``idle_timeout`` is out of bounds.
        PurgatoryClosed, PurgatoryFull, PurgatoryError: As `Timer.call_later`.

    >>> from purgatory_async.testing import ManualClock
    >>> clock = ManualClock()
    >>> def say(what):
    ...     return lambda: print(f"{clock.time():g} s: {what}")
    >>> link = Heartbeat(Timer(clock=clock), interval=60, send=say("ping"), on_dead=say("dead"))
    >>> clock.advance(70)
    60 s: ping
    >>> link.saw_read()
    >>> clock.advance(600)
    120 s: ping
    180 s: ping
    240 s: ping
    260 s: dead
    """

    __slots__ = (
        "__weakref__",
        "_checks",
        "_checks_to_death",
        "_dying",
        "_idle_timeout",
        "_last_look",
        "_last_words",
        "_ping",
        "_read",
        "_read_by",
        "_since_ping",
        "_third",
        "_timer",
        "_unread",
        "_unwritten",
        "_waiting",
        "_waits",
        "_written",
        "alive",
    )

    alive: bool
    """False once the link is found dead."""

    def __init__(
        self,
        timer: Timer,
        *,
        interval: float = 60.0,
        idle_timeout: float | None = None,
        send: Callable[[], object],
        on_dead: Callable[[], object],
    ) -> None:
        refuse_again(self, "_timer")
        interval = check_number("interval", interval, least=_SHORTEST)
        if idle_timeout is None:
            idle_timeout = 3 * interval
        idle_timeout = check_number("idle_timeout, with this interval,", idle_timeout, least=2 * interval)
        check_function("send", send)
        check_function("on_dead", on_dead)
        self.alive = True
        self._timer = timer
        self._ping = Job()
        self._dying = Job()
        self._third = interval / _CHECKS
        self._checks_to_death = round(idle_timeout * _CHECKS / interval, 12)  # without the dust of floats
        self._idle_timeout = idle_timeout
        self._read = self._written = False
        # In checks: how long nothing was read, nothing written, nothing pinged.
        self._unread = self._unwritten = self._since_ping = 0
        self._last_look: TimerHandle | None = None
        self._waits: Purgatory | None = None  # for its death, once a task has waited
        self._waiting = 0
        self._last_words: tuple[Callable[[], object], Context] | None = None  # until these tasks have gone on
        # What is missed is put off: after a block, a peer has a whole third to be heard before the next check. And
        # the functions are referred to from the checks alone, so that nothing is kept when these are closed.
        check = partial(self._check, send, on_dead)
        self._checks = Periodic(timer, self._third, check, mode="fixed_rate", missed="delay")
        self._read_by = timer.time()  # the check that saw the last read, which was no later

    def __repr__(self) -> str:
        state = "dead" if not self.alive else "closed" if self._checks.closed else "alive"
        silence = f"unread={self._unread} unwritten={self._unwritten}"
        return f"<Heartbeat {state} {silence} of {self._checks_to_death:g} checks>"

    def saw_read(self) -> None:
        """Note a read from the link. One attribute store."""
        self._read = True

    def saw_write(self) -> None:
        """Note a write to the link. One attribute store."""
        self._written = True

    async def dead(self, *, timeout: float | None = None) -> None:
        """Wait until the link is dead; return before ``on_dead`` is called, or at once if the link was found dead.

        Args:
            timeout: Seconds; None for no limit.

        Raises:
            OperationExpired: It was not dead within the timeout.
            PurgatoryClosed: The heartbeat or its timer is closed, or was closed during the wait.
            TypeError, ValueError, PurgatoryFull, PurgatoryError: As `Purgatory.wait`.
        """
        timeout = check_timeout(timeout)
        if not self.alive:
            return
        if self._checks.closed:
            raise PurgatoryClosed(f"{self!r} is closed: cannot wait for its death", keys=_DEAD)
        if self._waits is None:
            self._waits = Purgatory("heartbeat", timer=self._timer)
        # With a deadline in any case: only then the end of the timer ends it.
        death = DelayedOperation[None](MAX_TIMEOUT if timeout is None or timeout == inf else timeout)
        self._waits.try_complete_else_watch(death, _DEAD)
        self._waiting += 1
        try:
            outcome = await death
        finally:
            death.cancel()
            self._waiting -= 1
            if self._last_words is not None and not self._waiting:
                asyncio.get_running_loop().call_soon(self._speak, context=self._last_words[1])
        if outcome is Outcome.EXPIRED:
            raise OperationExpired(f"{self!r} was not dead within {timeout} s", keys=_DEAD, timeout=timeout)
        if outcome is not Outcome.COMPLETED:
            raise PurgatoryClosed(
                f"{self!r} or its timer was closed under the wait for its death", keys=_DEAD
            )

    def close(self) -> None:
        """Stop checking, as when the link is closed; a ping in progress continues to its end.

        Tasks that wait in `dead` raise `PurgatoryClosed`.
        """
        self._stop_checks()
        if self._waits is not None:
            for death in self._waits.operations():
                death.cancel()

    async def aclose(self) -> None:
        """Stop checking as `close`, cancel a ping in progress and wait for its end."""
        self.close()
        while self._last_words is not None:  # noqa: ASYNC110 - a few passes, in which the tasks in `dead` go on
            await asyncio.sleep(0)
        await self._ping.stop()
        await self._dying.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    def _check(self, send: Callable[[], object], on_dead: Callable[[], object]) -> None:
        if self._read:
            self._unread, self._read_by = 0, self._timer.time()
        else:
            self._unread += 1
        self._unwritten = 0 if self._written else self._unwritten + 1
        self._since_ping += 1
        self._read = self._written = False
        left = self._checks_to_death - self._unread
        if left < 1:
            # Checks fall on ticks, so some are nearer to each other than a third.
            early = round(self._read_by + self._idle_timeout - self._timer.time(), 9)
            rest = max(left * self._third, early)
            if rest <= 0:
                self._die(on_dead)
                return
            if self._last_look is not None:
                self._last_look.cancel()
            self._last_look = self._timer.call_later(rest, self._look, on_dead)
        if self._quiet and self._since_ping >= _CHECKS and not self._ping.running:
            self._since_ping = self._unwritten = 0  # a ping is a write
            self._ping.run(send, self)

    def _look(self, on_dead: Callable[[], object]) -> None:
        if not self._read:
            self._die(on_dead)

    def _die(self, on_dead: Callable[[], object]) -> None:
        self.alive = False
        self._stop_checks()
        if not self._waiting or self._waits is None:
            self._dying.run(on_dead, self)
        else:
            self._last_words = on_dead, copy_context()
            for death in self._waits.operations():
                death.force_complete()

    def _speak(self) -> None:
        if self._last_words is not None:
            (on_dead, _), self._last_words = self._last_words, None
            self._dying.run(on_dead, self)

    def _stop_checks(self) -> None:
        self._checks.close()
        if self._last_look is not None:
            self._last_look.cancel()

    @property
    def _quiet(self) -> bool:
        return self._unread >= _CHECKS or self._unwritten >= _CHECKS
