"""A barrier: gather members until all are present or the timeout expires, and release them as one generation.

Kafka's JoinGroup is one. A rebalance waits for every known member, at most for the rebalance timeout. The first one
of a group waits a little for each newcomer, so that ten consumers that start together make one generation, not ten
(``group.initial.rebalance.delay.ms``). One barrier serves a group for its whole life: ``on_release`` sets what the
next generation waits for, before any other member can arrive.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from math import inf
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from purgatory_async import (
    DelayedOperation,
    OperationCancelled,
    Outcome,
    Purgatory,
    PurgatoryClosed,
    PurgatoryFull,
    Timer,
)
from purgatory_async.clock import check_timeout
from purgatory_async.errors import check_exception, refuse_again
from purgatory_async.events import Event, OperationEnded
from purgatory_async.patterns._arguments import check_function, check_integer, check_number, result_of
from purgatory_async.patterns._job import Calls

__all__ = ["Barrier", "Generation"]

M = TypeVar("M", bound=Hashable)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Generation(Generic[M]):
    """Members released together.

    Attributes:
        number: Counts from 1.
        members: In the order of their arrival; the first may lead.
        complete: Whether all expected members are present.
        missing: The members expected by name that did not arrive; None if only a number was expected.
    """

    number: int
    members: tuple[M, ...]
    complete: bool
    missing: frozenset[M] | None = field(default=None, compare=False)  # number and members tell two apart


class _Arrival(DelayedOperation[Generation[Any]]):
    """One member's wait."""

    __slots__ = ("generation", "replaced")

    def __init__(self) -> None:
        super().__init__()
        self.generation: Generation[Any] | None = None  # not `result`, which `complete_for_key` sets too
        self.replaced = False

    @property
    def waits(self) -> bool:
        """Whether the member still waits: a cancelled one has left, though its task has not run yet."""
        return self.outcome is None and not self.abandoned


class _End(DelayedOperation[Generation[Any]]):
    """The end of a window. Unlike a timer's handle, an operation ends when its timer closes.

    Args:
        seconds: Until then.
        ended: Called with this when it has expired, completed with a generation, or lost its timer.
    """

    __slots__ = ("ended",)

    def __init__(self, seconds: float, ended: "Callable[[_End], None]") -> None:
        super().__init__(seconds)
        self.ended = ended

    def on_complete(self) -> None:
        """Call ``ended``."""
        self.ended(self)


class _TimerWatch:
    """Reports ends whose timer closes; an operation has no hook for this."""

    def notify(self, event: Event) -> None:
        """Call the event's ``ended``."""
        if (
            isinstance(event, OperationEnded)
            and event.outcome is Outcome.CLOSED
            and isinstance(event.operation, _End)
        ):
            event.operation.ended(event.operation)


_TIMER_WATCH: Final = _TimerWatch()
_WINDOW_KEYS: Final = ("window",)


class _Window:
    """The time in which members gather; open while it has an end.

    Args:
        timer: Runs it.
        timeout: As for `Barrier`.
        initial_delay: As for `Barrier`.
    """

    __slots__ = ("_ends", "_newest", "_opened", "_timer", "end", "initial_delay", "timeout")

    def __init__(self, timer: Timer, timeout: float | None, initial_delay: float) -> None:
        self.timeout = timeout
        self.initial_delay = initial_delay
        self.end: _End | None = None
        self._opened = self._newest = 0.0  # when it opened, and when its last newcomer arrived
        self._timer = timer
        self._ends = Purgatory("barrier", timer=timer, observer=_TIMER_WATCH)

    def arrived(self, ended: Callable[[_End], None]) -> None:
        """Open with the first newcomer; with an ``initial_delay`` each one moves the end. See `_End` for ``ended``."""
        self._newest = self._timer.time()
        if self.end is None:
            self._opened = self._newest
        if self.end is None or self.initial_delay:
            self._set_end(self.timeout, self.initial_delay, ended)

    def set_times(self, timeout: float | None, initial_delay: float) -> None:
        """Take other times, and move the end if it is open; an error leaves them as they were."""
        if self.end is not None:
            self._set_end(timeout, initial_delay, self.end.ended)
        self.timeout, self.initial_delay = timeout, initial_delay

    def close(self) -> None:
        """Close without a generation."""
        if self.end is not None:
            self.end.cancel()
            self.end = None

    def _set_end(self, timeout: float | None, initial_delay: float, ended: Callable[[_End], None]) -> None:
        """End after the time left, in place of the present end."""
        now = self._timer.time()
        longest = self._opened - now + (inf if timeout is None else timeout)
        end = _End(min(longest, self._newest - now + (initial_delay or inf)), ended)
        former = self.end
        try:
            self._ends.try_complete_else_watch(end, _WINDOW_KEYS)
        except PurgatoryFull:
            if former is None or former.timeout == inf:
                raise
            former.cancel()  # frees the one place in the timer that the new one needs
            self._ends.try_complete_else_watch(end, _WINDOW_KEYS)
        if former is not None:
            former.cancel()
        self.end = end


class _Gathering(Generic[M]):
    """The members that wait in a window, and their release."""

    __slots__ = ("_arrivals", "_calls", "_expected", "_key", "_number", "_window", "on_release")

    on_release: Callable[[Generation[M]], object] | None
    _expected: int | frozenset[M]

    def __init__(self, key: Hashable, window: _Window) -> None:
        self._key = key
        self._window = window
        self._arrivals: dict[M, _Arrival] = {}
        self._calls = Calls()
        self._number = 0

    @property
    def present(self) -> tuple[M, ...]:
        """The waiting members, in the order of arrival."""
        return tuple(member for member, arrival in self._arrivals.items() if arrival.waits)

    def _welcome(self, member: M, arrival: _Arrival) -> None:
        former = self._arrivals.get(member)
        if former is not None and former.waits:
            self._arrivals[member] = arrival
            former.replaced = True
            former.cancel()
        else:
            if not any(other.waits for other in self._arrivals.values()):
                self._arrivals.clear()  # all waiting members were cancelled
                self._window.close()
            self._arrivals.pop(member, None)  # cancelled too: it comes last
            self._arrivals[member] = arrival
            self._window.arrived(self._window_ended)
        if self._all_here():
            self._release()

    def _forget(self, member: M, arrival: _Arrival) -> None:
        if self._arrivals.get(member) is arrival:
            del self._arrivals[member]
            if not self._arrivals:
                self._window.close()

    def _window_ended(self, end: _End) -> None:
        if end.outcome is Outcome.CLOSED:
            self._lose_timer()
            return
        if end.outcome is Outcome.EXPIRED and end is self._window.end:
            self._release()
        if end.result is not None and self.on_release is not None:
            self._calls.run(self.on_release, self, end.result)

    def _lose_timer(self) -> None:
        why = f"the timer was closed under the wait for the other members at {self._key!r}"
        for arrival in self._dissolve():
            arrival.fail(PurgatoryClosed(why, keys=(self._key,)))

    def _dissolve(self) -> list[_Arrival]:
        """Close the window without a generation; returns the arrivals, to be ended."""
        arrivals = list(self._arrivals.values())
        self._arrivals.clear()
        self._window.close()
        return arrivals

    def _all_here(self) -> bool:
        expected, arrivals = self._expected, self._arrivals
        if isinstance(expected, int):
            return len(arrivals) >= expected and len(self.present) >= expected
        return 0 < len(expected) <= len(arrivals) and all(
            member in arrivals and arrivals[member].waits for member in expected
        )

    def _release(self) -> None:
        """Release all waiting members as one generation, unless all have left."""
        here = {member: arrival for member, arrival in self._arrivals.items() if arrival.waits}
        end, self._window.end = self._window.end, None
        self._arrivals.clear()
        if not here:
            return
        self._number += 1
        expected = self._expected
        if isinstance(expected, int):
            generation = Generation(self._number, tuple(here), len(here) >= expected)
        else:
            missing = expected.difference(here)
            generation = Generation(self._number, tuple(here), not missing, missing)
        for arrival in here.values():
            arrival.generation = generation
            arrival.force_complete(generation)
        if end is not None:
            end.result = generation
            end.force_complete()  # if not expired; its hook calls `on_release` either way


class Barrier(_Gathering[M]):
    """Releases waiting members together as one `Generation`, then gathers the next.

    The window opens with the first arrival. It closes when all expected members are present; else after ``timeout``,
    or, with an ``initial_delay``, when no new member arrived for that long.

    Args:
        purgatory: Keeps the arrivals.
        key: The watch key that they wait on.
        expect: How many members make a generation complete, or which ones (others may arrive too). If empty, only
            time closes the window.
        timeout: The longest window, in seconds from the first arrival. None for no limit.
        initial_delay: Seconds that the window stays open after each newcomer, at most for ``timeout``; 0 leaves it
            open for all of the timeout.
        on_release: Called with each generation, before any of its members resumes. An async function runs in a task
            of its own beside them, which `aclose` and the end of ``async with`` wait for. What it raises goes to the
            loop's exception handler.

    Raises:
        TypeError, ValueError: An argument has the wrong type or is out of bounds.

    >>> import asyncio
    >>> async def main():
    ...     async with Purgatory("groups") as purgatory:
    ...         group = Barrier(purgatory, "consumers", expect=2, timeout=30)
    ...         return await asyncio.gather(group.arrive("a"), group.arrive("b"))
    >>> one, other = asyncio.run(main())
    >>> one is other, one
    (True, Generation(number=1, members=('a', 'b'), complete=True, missing=None))
    """

    __slots__ = ("__weakref__", "_broken", "_purgatory")

    def __init__(
        self,
        purgatory: Purgatory,
        key: Hashable,
        *,
        expect: int | Iterable[M],
        timeout: float | None,
        initial_delay: float = 0,
        on_release: Callable[[Generation[M]], object] | None = None,
    ) -> None:
        refuse_again(self, "_purgatory")
        if not isinstance(purgatory, Purgatory):
            raise TypeError(f"purgatory must be a Purgatory, got {purgatory!r}")
        hash(key)
        timeout = check_timeout(timeout)
        initial_delay = check_number("initial_delay", initial_delay, least=0.0)
        if on_release is not None:
            check_function("on_release", on_release)
        self.on_release = on_release
        self._expected = _expectation(expect)
        self._purgatory = purgatory
        self._broken: tuple[BaseException, TracebackType | None] | None = None
        super().__init__(key, _Window(purgatory.timer, timeout, initial_delay))

    def __repr__(self) -> str:
        state = "broken " if self.broken else ""
        return f"<Barrier {self._key!r} {state}present={len(self._arrivals)} generation={self._number}>"

    @property
    def expect(self) -> int | frozenset[M]:
        """How many members make a generation complete, or which; set it when the group grows or shrinks.

        If all members now expected wait, setting it releases them at once; if it is empty, the end of the window does.
        Setting it raises TypeError or ValueError as the constructor does, and then changes nothing.
        """
        return self._expected

    @expect.setter
    def expect(self, expect: int | Iterable[M]) -> None:
        """Release the members if all now expected wait."""
        self._expected = _expectation(expect)
        if self._arrivals and self._all_here():
            self._release()

    @property
    def timeout(self) -> float | None:
        """The longest window in seconds; setting it also moves the end of an open one.

        An end already past comes on the next loop turn. Setting it raises as the constructor does, and `PurgatoryFull`
        or `PurgatoryClosed` if the timer refuses; then it changes nothing.
        """
        return self._window.timeout

    @timeout.setter
    def timeout(self, timeout: float | None) -> None:
        """Move the end of an open window."""
        self._window.set_times(check_timeout(timeout), self.initial_delay)

    @property
    def initial_delay(self) -> float:
        """How many seconds each newcomer keeps the window open; set like `timeout`."""
        return self._window.initial_delay

    @initial_delay.setter
    def initial_delay(self, initial_delay: float) -> None:
        """Move the end of an open window."""
        self._window.set_times(self.timeout, check_number("initial_delay", initial_delay, least=0.0))

    @property
    def n_waiting(self) -> int:
        """How many members wait. O(members)."""
        return len(self.present)

    @property
    def broken(self) -> bool:
        """Whether it was aborted, and not reset since."""
        return self._broken is not None

    async def arrive(self, member: M) -> Generation[M]:
        """Wait for the other members.

        Args:
            member: If it waits already, it keeps its place, and the earlier wait ends with `OperationCancelled`.

        Returns:
            The generation, the same object for all its members.

        Raises:
            OperationCancelled: The member arrived again, `reset` or another call ended its wait.
            PurgatoryClosed, PurgatoryFull, PurgatoryError: As `Purgatory.try_complete_else_watch`. The first also
                when the timer closes before the end of a window that has one.
            BaseException: The exception given to `abort`, until `reset`.
            TypeError: The member is not hashable.

        A member whose task is cancelled has left. O(1); O(members) for the last to arrive.
        """
        hash(member)
        if self._broken is not None and not self._purgatory.closed:
            exception, traceback = self._broken
            raise exception.with_traceback(traceback)  # else the traceback grows with each call
        arrival = _Arrival()
        self._purgatory.try_complete_else_watch(arrival, (self._key,))
        try:
            self._welcome(member, arrival)
            await arrival
        except BaseException:
            arrival.cancel()
            self._forget(member, arrival)
            del arrival  # the traceback refers to this frame: no cycle through it
            raise
        self._forget(member, arrival)
        if arrival.replaced:
            raise OperationCancelled(
                f"{member!r} has arrived again at {self._key!r}, which ends its earlier wait",
                keys=(self._key,),
            )
        if arrival.generation is not None:
            return arrival.generation
        if arrival.outcome is Outcome.COMPLETED:
            raise OperationCancelled(
                f"the wait of {member!r} at {self._key!r} was ended without a generation",
                keys=(self._key,),
            )
        return result_of(arrival, f"the other members at {self._key!r}", self._key)

    def dismiss(self, member: M) -> bool:
        """End the wait of a member that has left, with `OperationCancelled`. O(1).

        The others go on waiting; set `expect` if fewer are expected now.

        Returns:
            Whether it waited.
        """
        arrival = self._arrivals.get(member)
        if arrival is None or not arrival.waits:
            return False
        self._forget(member, arrival)
        return arrival.cancel()

    def reset(self) -> None:
        """End the wait of all members with `OperationCancelled`, and mend what `abort` broke. O(members).

        The number of the next generation is as if they had not come.
        """
        self._broken = None
        for arrival in self._dissolve():
            arrival.cancel()

    def abort(self, exception: BaseException) -> None:
        """Break it: all that wait, and all that arrive before `reset`, raise the exception. O(members).

        So a member that fails need not leave the others to wait for it. All raise the same object, as in
        `Correlator.fail_all`.

        Raises:
            TypeError: ``exception`` is not an exception instance.
        """
        check_exception(exception)
        self._broken = exception, exception.__traceback__
        for arrival in self._dissolve():
            arrival.fail(exception)

    async def aclose(self) -> None:
        """Wait until every async ``on_release`` has ended. Only closing the purgatory ends the barrier's waits."""
        await self._calls.finished()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()


def _expectation(expect: int | Iterable[M]) -> int | frozenset[M]:
    if isinstance(expect, str | bytes):
        raise TypeError(
            f"expect must be a number or an iterable of members, got {expect!r}; did you mean [{expect!r}]?"
        )
    if isinstance(expect, Iterable):
        return frozenset(expect)
    return check_integer("expect", expect, least=1)
