"""Single flight: concurrent calls for one key share one call of a function.

It is what stands before a slow or rate-limited service: a hundred requests for the same page fetch it once. Go has it
as ``golang.org/x/sync/singleflight``. A future in a dict comes close, and fails where callers are cancelled: awaiting
it cancels it for all, and behind `asyncio.shield` it goes on when no caller is left.

Each flight is a watch key of its own, on which its callers wait, so a flight that is forgotten and its successor do not
meet. A context variable holds the flight that code is part of: a call that would wait for itself is refused.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextvars import Context, ContextVar, copy_context
from copy import copy
from functools import partial
from inspect import isawaitable
from typing import Any, Final, Literal, NoReturn, TypeVar, cast, get_args

from purgatory_async import (
    DelayedOperation,
    OperationCancelled,
    Outcome,
    Purgatory,
    PurgatoryClosed,
    PurgatoryError,
    Timer,
)
from purgatory_async.clock import seconds_to_ns
from purgatory_async.errors import refuse_again
from purgatory_async.patterns._arguments import (
    check_function,
    check_integer,
    check_number,
    check_word,
    result_of,
)

__all__ = ["SingleFlight", "WhenLeft"]

T = TypeVar("T")

WhenLeft = Literal["cancel", "finish"]
Make = Callable[[], Awaitable[T]]


class _Flight:
    """One call of a function, and the watch key of those who wait for it."""

    __slots__ = ("awaits", "callers", "ended", "heir", "key", "outer", "owner", "task")

    def __init__(self, owner: "SingleFlight", key: Hashable, outer: "_Flight | None") -> None:
        self.owner = owner
        self.key = key
        self.outer = outer  # the flight whose code called for it
        self.callers = 0
        self.awaits: dict[object, _Flight] = {}  # by the operation that waits
        self.heir: tuple[_Flight, Make[Any], Context] | None = None  # begins when this one ends
        self.task: asyncio.Task[Any] | None = None  # under way, or failed and no caller knows yet
        self.ended = False

    def __repr__(self) -> str:
        return f"<flight of {self.key!r}>"

    def around(self) -> "Iterator[_Flight]":
        """The flights under way that its code is part of, itself first."""
        flight: _Flight | None = self
        while flight is not None:
            if not flight.ended:
                yield flight
            flight = flight.outer

    def leads_to(self, flights: "set[_Flight]") -> bool:
        """Whether it is one of these flights, or waits for one, through others too."""
        seen: set[_Flight] = set()
        left: list[_Flight] = [self]
        while left:
            flight = left.pop()
            if flight in flights:
                return True
            if flight not in seen:
                seen.add(flight)
                left.extend(flight.awaits.values())
        return False


class _Failure:
    """How a flight failed, as its callers' result."""

    __slots__ = ("_exception", "_traceback")

    def __init__(self, exception: BaseException) -> None:
        self._exception = exception
        self._traceback = exception.__traceback__

    def throw(self) -> NoReturn:
        """Raise a copy of the exception, from the original traceback."""
        exception = self._copied()
        try:
            raise exception.with_traceback(self._traceback)
        finally:
            del self, exception  # the traceback refers to this frame: no cycle through it

    def _copied(self) -> BaseException:
        original = self._exception
        try:
            copied = copy(original)
            if type(copied) is not type(original) or copied.args != original.args:
                return original  # its `__init__` made another one of the arguments
            copied.__cause__, copied.__context__ = original.__cause__, original.__context__
            copied.__suppress_context__ = original.__suppress_context__
            if hasattr(original, "__notes__"):
                copied.__notes__ = list(original.__notes__)
        except Exception:  # noqa: BLE001 - one that cannot be copied
            return original
        return copied


class _Kept:
    """Results, each kept for the same time; nothing is on the timer."""

    __slots__ = ("_keep_ns", "_most", "_results", "_timer")

    def __init__(self, timer: Timer, keep: float, most: int) -> None:
        self._timer = timer
        self._keep_ns = seconds_to_ns(keep)
        self._most = most
        self._results: OrderedDict[Hashable, tuple[int, Any]] = OrderedDict()  # until when; oldest first

    def __len__(self) -> int:
        return len(self._results)

    def __contains__(self, key: Hashable) -> bool:
        kept = self._results.get(key)
        if kept is None:
            return False
        if self._timer.time_ns() < kept[0]:
            return True
        del self._results[key]
        return False

    def __getitem__(self, key: Hashable) -> Any:
        return self._results[key][1]

    def add(self, key: Hashable, result: object) -> None:
        """Keep a result, in the place of those that are too old or too many. O(1) amortised."""
        if not self._keep_ns:
            return
        now_ns, results = self._timer.time_ns(), self._results
        while results and (len(results) >= self._most or next(iter(results.values()))[0] <= now_ns):
            results.popitem(last=False)
        results[key] = (now_ns + self._keep_ns, result)

    def forget(self, key: Hashable) -> bool:
        """Drop a result; returns whether it was kept."""
        kept = key in self
        self._results.pop(key, None)
        return kept


_within: Final[ContextVar[_Flight | None]] = ContextVar("_within", default=None)


class SingleFlight:
    """Shares one call of an async function among all that want its result at the same time.

    Args:
        purgatory: Keeps the callers that wait; it may be shared.
        keep: Seconds for which a result is given to later callers at once. Exceptions are not kept.
        max_kept: How many results to keep at most; the oldest make room.
        when_left: What to do with a call that no caller waits for any more. ``"cancel"``: its task is cancelled.
            ``"finish"``: it goes on, and what it raises goes to the loop's exception handler.

    Raises:
        TypeError, ValueError: An argument has the wrong type or is out of bounds.

    >>> import asyncio
    >>> async def fetch():
    ...     print("fetching")
    ...     await asyncio.sleep(0)
    ...     return "a page"
    >>> async def main():
    ...     async with Purgatory("pages") as purgatory:
    ...         pages = SingleFlight(purgatory)
    ...         print(await asyncio.gather(*[pages.run("/", fetch, timeout=5) for _ in range(3)]))
    >>> asyncio.run(main())
    fetching
    ['a page', 'a page', 'a page']
    """

    __slots__ = (
        "__weakref__",
        "_cancels",
        "_flights",
        "_kept",
        "_purgatory",
        "_under_way",
    )

    def __init__(
        self,
        purgatory: Purgatory,
        *,
        keep: float = 0.0,
        max_kept: int = 1024,
        when_left: WhenLeft = "cancel",
    ) -> None:
        refuse_again(self, "_purgatory")
        if not isinstance(purgatory, Purgatory):
            raise TypeError(f"purgatory must be a Purgatory, got {purgatory!r}")
        keep = check_number("keep", keep, least=0.0)
        max_kept = check_integer("max_kept", max_kept, least=1)
        check_word("when_left", when_left, get_args(WhenLeft))
        self._cancels = when_left == "cancel"
        self._purgatory = purgatory
        self._flights: dict[Hashable, _Flight] = {}  # those that newcomers join, or wait out
        self._under_way: set[_Flight] = set()  # forgotten ones too: asyncio refers to tasks only weakly
        self._kept = _Kept(purgatory.timer, keep, max_kept)

    def __repr__(self) -> str:
        return f"<SingleFlight in {self._purgatory.name!r} flights={len(self)} kept={len(self._kept)}>"

    def __len__(self) -> int:
        """How many calls are under way, forgotten ones and those that still clean up included. O(1)."""
        return len(self._under_way)

    def __contains__(self, key: object) -> bool:
        """Whether a call for ``key`` is under way that was not forgotten; it may still clean up. O(1)."""
        return key in self._flights

    async def run(self, key: Hashable, make: Make[T], *, timeout: float | None = None) -> T:
        """Return the result of the call for ``key`` that is under way, or call ``make`` for it.

        ``make`` is called in a task of its own, with the context of the first caller. A caller that is cancelled or
        runs out of time only leaves; the others get the result. While a call that was cancelled because all have left
        still cleans up, a newcomer waits for it before its ``make`` is called: two calls for a key never overlap,
        unless `forget` was called in between.

        Args:
            key: Names the call.
            make: An async function without arguments, or a plain one that returns an awaitable.
            timeout: Seconds to wait, as for any operation.

        Returns:
            The result, the same object for all callers.

        Raises:
            OperationExpired: The result did not come in time.
            OperationCancelled: The call was cancelled, though not because its callers left.
            PurgatoryClosed: The purgatory is closed, or draining and no result is kept.
            PurgatoryError: The call waits for this one itself: it was made inside the call for ``key``, directly,
                through other keys or in a task begun there. Only a task that has outlived that call may make it.
            BaseException: What ``make`` raised: a copy for each caller, with the original traceback; the original if
                it cannot be copied.
            PurgatoryFull, TypeError, ValueError: As `Purgatory.try_complete_else_watch`.

        O(1); inside another call O(calls that wait for one another).
        """
        operation: DelayedOperation[Any] = DelayedOperation(timeout)
        if not callable(make):
            check_function("make", make)
        if self._purgatory.closed:
            raise PurgatoryClosed(f"{self._purgatory!r} is closed: cannot call for {key!r}", keys=(key,))
        if key in self._kept:
            return cast("T", self._kept[key])
        inside = _present_flight()
        flight = self._board(operation, key, make, inside)
        try:
            if await operation is not Outcome.COMPLETED:
                result_of(operation, f"the result of {key!r}", key)
            if type(operation.result) is _Failure:
                flight.task = None
                operation.result.throw()
            return cast("T", operation.result)
        except BaseException:
            operation.cancel()
            raise
        finally:
            self._leave(operation, flight, inside)
            del self, operation, flight, inside  # as in `_Failure.throw`

    def forget(self, key: Hashable) -> bool:
        """Let the next `run` call anew, also while the present call is under way, which goes on for its callers.

        A kept result is dropped; the present call's will not be kept. O(1).

        Returns:
            Whether there was a call or a result to forget.
        """
        kept = self._kept.forget(key)
        return self._flights.pop(key, None) is not None or kept

    # Callers.

    def _board(
        self, operation: DelayedOperation[Any], key: Hashable, make: Make[T], inside: _Flight | None
    ) -> _Flight:
        """Let a caller's operation wait for the flight of a key; begin one unless there is one to join."""
        ahead = self._ahead(key)
        flight = self._joinable(ahead)
        if inside is not None:
            self._refuse_recursion(key, flight or ahead, inside)
        is_new = flight is None
        if flight is None:
            check_function("make", make)
            flight = _Flight(self, key, inside)
        try:
            self._purgatory.try_complete_else_watch(operation, (flight,))
        except PurgatoryClosed as refused:
            refused.keys = (key,)
            raise
        flight.callers += 1
        if is_new:
            self._begin(flight, make, ahead)
        if inside is not None:
            inside.awaits[operation] = flight
        return flight

    def _ahead(self, key: Hashable) -> _Flight | None:
        """The flight that a newcomer joins or waits out."""
        flight = self._flights.get(key)
        if flight is not None and flight.task is not None and flight.task.get_loop().is_closed():
            self._end(flight)  # its loop was closed under it, and the purgatory has another
            return None
        return flight

    def _joinable(self, ahead: _Flight | None) -> _Flight | None:
        """The flight that a newcomer joins: not one that all have left, but the heir that waits for its end."""
        if ahead is None or ahead.callers or not self._cancels:
            return ahead
        return ahead.heir[0] if ahead.heir is not None and ahead.heir[0].callers else None

    def _refuse_recursion(self, key: Hashable, flight: _Flight | None, inside: _Flight) -> None:
        around = set(inside.around())
        if any(each.owner is self and each.key == key for each in around) or (
            flight is not None and flight.leads_to(around)
        ):
            raise PurgatoryError(
                f"the call for {key!r} is waiting for {inside!r}: cannot wait for it there; await the function itself"
            )

    def _leave(self, operation: DelayedOperation[Any], flight: _Flight, inside: _Flight | None) -> None:
        """Cancel a flight that its last caller leaves; if it has failed and no caller knows, report that."""
        if inside is not None:
            del inside.awaits[operation]
        flight.callers -= 1
        task = flight.task
        if flight.callers or task is None:
            return
        if flight.ended:
            flight.task = None
            _report(flight, task)
        elif self._cancels and not task.get_loop().is_closed():
            task.cancel()

    # Flights.

    def _begin(self, flight: _Flight, make: Make[Any], ahead: _Flight | None) -> None:
        """Begin a flight, now or when the one ahead has ended."""
        if ahead is None:
            self._flights[flight.key] = flight
            self._launch(flight, make)
        else:
            flight.awaits[ahead] = ahead
            ahead.heir = (flight, make, copy_context())

    def _launch(self, flight: _Flight, make: Make[Any], context: Context | None = None) -> None:
        self._under_way.add(flight)
        try:
            task = asyncio.get_running_loop().create_task(_fly(flight, make), context=context)
        except BaseException as interrupt:  # in the first step of an eager task
            self._end(flight, _Failure(interrupt))
            raise
        flight.task = task
        task.add_done_callback(partial(self._land, flight))  # also of a task that never began

    def _land(self, flight: _Flight, task: asyncio.Task[Any]) -> None:
        flight.task = None
        result: Any
        if task.cancelled():
            result = _Failure(
                OperationCancelled(f"the call for {flight.key!r} was cancelled", keys=(flight.key,))
            )
        elif (exception := task.exception()) is not None:
            result = _Failure(exception)
            if flight.callers:
                flight.task = task
            else:
                _report(flight, task)
        else:
            result = task.result()
            if self._flights.get(flight.key) is flight and not task.cancelling():
                self._kept.add(flight.key, result)
        self._end(flight, result)

    def _end(self, flight: _Flight, result: object = None) -> None:
        """Give the callers the result, and begin the flight that waits for this one's end."""
        flight.ended = True
        self._under_way.discard(flight)
        is_newest = self._flights.get(flight.key) is flight
        if is_newest:
            del self._flights[flight.key]
        self._purgatory.complete_for_key(flight, result)
        heir, flight.heir = flight.heir, None
        if heir is not None and heir[0].callers:
            heir[0].awaits.clear()
            if is_newest:
                self._flights[flight.key] = heir[0]
            self._launch(*heir)


def _present_flight() -> _Flight | None:
    """The innermost flight under way that the running code is part of."""
    flight = _within.get()
    return None if flight is None else next(flight.around(), None)


async def _fly(flight: _Flight, make: Make[T]) -> T:
    _within.set(flight)
    made = make()
    if not isawaitable(made):
        raise TypeError(f"make must return an awaitable, but {make!r} returned {made!r}")
    return await made


def _report(flight: _Flight, task: asyncio.Task[Any]) -> None:
    """Report what no caller awaits. KeyboardInterrupt and SystemExit already propagated through the loop."""
    exception = task.exception()
    if not isinstance(exception, KeyboardInterrupt | SystemExit):
        task.get_loop().call_exception_handler(
            {"message": f"{flight!r} raised, and all its callers have left", "exception": exception}
        )
