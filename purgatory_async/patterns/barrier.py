"""A barrier: members gather until all are there or the time is up, and all that came learn the same.

Kafka's JoinGroup is one. A rebalance waits for every known member, but not longer than the rebalance timeout; and
the first one of a group waits a little for each newcomer, so that ten consumers that start together make one
generation and not ten (``group.initial.rebalance.delay.ms``).
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Any, Generic, TypeVar

from purgatory_async import DelayedOperation, OperationCancelled, Purgatory, TimerHandle
from purgatory_async.clock import check_timeout
from purgatory_async.patterns._answer import answer
from purgatory_async.patterns._arguments import check_integer, check_number

__all__ = ["Barrier", "Generation"]

M = TypeVar("M", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Generation(Generic[M]):
    """Those who came together.

    Attributes:
        number: Counts from 1.
        members: In the order of their arrival; the first may lead.
        complete: Whether all that were expected are among them.
    """

    number: int
    members: tuple[M, ...]
    complete: bool


class _Arrival(DelayedOperation[Generation[Any]]):
    """One member's wait."""

    __slots__ = ("replaced",)

    def __init__(self) -> None:
        super().__init__()
        self.replaced = False

    @property
    def waits(self) -> bool:
        """Whether somebody is there: a member cancelled in this loop pass has left, though its task does not know."""
        return self.outcome is None and not self.abandoned


class Barrier(Generic[M]):
    """Members arrive and wait; they go on together, as one `Generation`. Then it is open for the next.

    The window opens with the first arrival. It closes when all that are expected are there; else after
    ``timeout``, or, with an ``initial_delay``, when nobody new came for so long.

    Args:
        purgatory: Keeps the arrivals.
        key: The watch key that they wait on.
        expect: How many members make it complete; or which (others may come as well).
        timeout: The longest window, in seconds from the first arrival. None for no limit.
        initial_delay: Seconds that the window stays open after each newcomer, ``timeout`` permitting; 0 leaves it
            open for all of the timeout.

    Raises:
        TypeError, ValueError: An argument is not what it should be, or out of its bounds.

    >>> import asyncio
    >>> async def main():
    ...     async with Purgatory("groups") as purgatory:
    ...         group = Barrier(purgatory, "consumers", expect=2, timeout=30)
    ...         return await asyncio.gather(group.arrive("a"), group.arrive("b"))
    >>> one, other = asyncio.run(main())
    >>> one is other, one
    (True, Generation(number=1, members=('a', 'b'), complete=True))
    """

    __slots__ = (
        "_arrivals",
        "_closes_at",
        "_expected",
        "_initial_delay",
        "_key",
        "_number",
        "_purgatory",
        "_timeout",
        "_window",
    )

    def __init__(
        self,
        purgatory: Purgatory,
        key: Hashable,
        *,
        expect: int | Iterable[M],
        timeout: float | None,
        initial_delay: float = 0,
    ) -> None:
        if not isinstance(purgatory, Purgatory):
            raise TypeError(f"purgatory must be a Purgatory, got {purgatory!r}")
        hash(key)
        check_timeout(timeout)
        check_number("initial_delay", initial_delay, least=0.0)
        self._expected = _expectation(expect)
        self._purgatory = purgatory
        self._key = key
        self._timeout = inf if timeout is None else timeout
        self._initial_delay = initial_delay
        self._arrivals: dict[M, _Arrival] = {}
        self._number = 0
        self._closes_at = inf
        self._window: TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Barrier {self._key!r} present={len(self._arrivals)} generation={self._number}>"

    @property
    def expect(self) -> int | frozenset[M]:
        """How many members make a generation complete, or which; to be set when the group grows or shrinks.

        If those who wait are all that are expected now, they go on at once. Setting it raises TypeError or
        ValueError as the constructor does, and then nothing has changed.
        """
        return self._expected

    @expect.setter
    def expect(self, expect: int | Iterable[M]) -> None:
        """Expect others from now on."""
        self._expected = _expectation(expect)
        if self._arrivals and self._all_here():
            self._release()

    @property
    def present(self) -> tuple[M, ...]:
        """Who waits at the moment, in the order of arrival."""
        return tuple(member for member, arrival in self._arrivals.items() if arrival.waits)

    async def arrive(self, member: M) -> Generation[M]:
        """Wait for the others.

        Args:
            member: Who comes. One that is waiting already takes its own place: the earlier wait ends with
                `OperationCancelled`.

        Returns:
            The generation, the same to all that came.

        Raises:
            OperationCancelled: The member has arrived again, or was sent away with `Purgatory.cancel_for_key`.
            PurgatoryClosed, PurgatoryFull, PurgatoryError: As `Purgatory.try_complete_else_watch`.
            TypeError: The member is not hashable.

        A member whose task is cancelled has left. O(1); O(members) for the last to come.
        """
        hash(member)
        arrival = _Arrival()
        self._purgatory.try_complete_else_watch(arrival, (self._key,))
        try:
            self._welcome(member, arrival)
            await arrival
        finally:
            arrival.cancel()
            self._forget(member, arrival)
        if arrival.replaced:
            raise OperationCancelled(
                f"{member!r} has arrived again at {self._key!r}, which ends its earlier wait"
            )
        return answer(arrival, f"the other members at {self._key!r}")

    def _welcome(self, member: M, arrival: _Arrival) -> None:
        former = self._arrivals.get(member)
        if former is not None and former.waits:
            self._arrivals[member] = arrival
            former.replaced = True
            former.cancel()
        else:
            if not any(other.waits for other in self._arrivals.values()):
                self._arrivals.clear()  # who was here has left, though their tasks do not know
                self._close_window()
            self._arrivals.pop(member, None)  # so has its former self: it comes last
            self._arrivals[member] = arrival
            self._keep_window_open()
        if self._all_here():
            self._release()

    def _forget(self, member: M, arrival: _Arrival) -> None:
        if self._arrivals.get(member) is arrival:
            del self._arrivals[member]
            if not self._arrivals:
                self._close_window()

    def _keep_window_open(self) -> None:
        """For as long as a newcomer is worth, but not beyond the timeout."""
        timer = self._purgatory.timer
        if self._window is None:
            self._closes_at = timer.time() + self._timeout
            self._window = timer.call_later(min(self._initial_delay or inf, self._timeout), self._release)
        elif self._initial_delay:
            self._window.reschedule(min(self._initial_delay, self._closes_at - timer.time()))

    def _close_window(self) -> None:
        if self._window is not None:
            self._window.cancel()
            self._window = None

    def _all_here(self) -> bool:
        expected, arrivals = self._expected, self._arrivals
        if isinstance(expected, int):
            return len(arrivals) >= expected and len(self.present) >= expected
        return len(arrivals) >= len(expected) and all(
            member in arrivals and arrivals[member].waits for member in expected
        )

    def _release(self) -> None:
        """Let everybody who is here go on as one generation."""
        complete = self._all_here()
        here = {member: arrival for member, arrival in self._arrivals.items() if arrival.waits}
        self._arrivals.clear()
        self._close_window()
        if here:
            self._number += 1
            generation = Generation(self._number, tuple(here), complete)
            for arrival in here.values():
                arrival.force_complete(generation)


def _expectation(expect: int | Iterable[M]) -> int | frozenset[M]:
    if isinstance(expect, str | bytes):
        raise TypeError(
            f"expect must be a number or an iterable of members, got {expect!r}; did you mean [{expect!r}]?"
        )
    if isinstance(expect, Iterable):
        members = frozenset(expect)
        check_integer("the number of members in expect", len(members), least=1)
        return members
    check_integer("expect", expect, least=1)
    return expect
