"""Cancel a coroutine at every point where it is suspended."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any

Scenario = Callable[[], Coroutine[Any, Any, object]]


async def cancel_sweep(
    scenario: Scenario,
    *,
    may_swallow: bool = False,
    check: Scenario | None = None,
) -> int:
    """Run a scenario repeatedly, and cancel each run at another point where it is suspended.

    Each point is cancelled in two runs: while the awaited future is pending, and in the loop pass that completes it,
    before the task resumes. Results get lost in the second. One more run is cancelled before its first step. The
    scenario must check its own promises after a cancellation, in a ``finally``, or ``check`` does.

    Args:
        scenario: An async function without arguments; every call makes a fresh run.
        may_swallow: Whether it may end without `asyncio.CancelledError` after it was cancelled.
        check: An async function without arguments, awaited after each run, as to see that nothing is left.

    Returns:
        The number of points.

    Raises:
        AssertionError: The scenario swallowed a cancellation.
        TypeError: ``scenario`` or ``check`` is no function.
        Exception: Any other exception of the scenario or the check, with a note on where it was cancelled.

    >>> async def scenario():
    ...     await asyncio.sleep(0)
    ...     await asyncio.sleep(0)
    >>> asyncio.run(cancel_sweep(scenario))
    2
    """
    for name, function in (("scenario", scenario), ("check", check)):
        if function is not None and not callable(function):
            raise TypeError(f"{name} must be an async function that is not called yet, got {function!r}")
    run = partial(_run, scenario, may_swallow=may_swallow, check=check)
    points = await run(_Probe(0))
    await run(_Probe(-1))
    point = 1
    while point <= points:
        for as_it_comes in (False, True):
            points = max(points, await run(_Probe(point, as_it_comes=as_it_comes)))
        point += 1
    return points


class _Probe:
    """Counts the suspensions of one run, and cancels it at one of them.

    Args:
        at: Which suspension, from 1; 0 cancels nowhere, -1 before the first step.
        as_it_comes: Cancel when the awaited future completes, not while it is pending.
    """

    def __init__(self, at: int, *, as_it_comes: bool = False) -> None:
        self._at = at
        self._as_it_comes = as_it_comes
        self.points = 0
        self.cancelled = False

    def __repr__(self) -> str:
        when = "as its wait came to an end" if self._as_it_comes else "while it waited"
        return "before its first step" if self._at < 0 else f"at point {self._at}, {when}"

    def watch(self, coroutine: Coroutine[Any, Any, object]) -> Awaitable[object]:
        """Return the coroutine with its suspensions counted."""
        return _Watched(coroutine, self)

    def suspended(self, waits_for: object) -> None:
        """Count a suspension, and schedule the cancellation if this is the one."""
        self.points += 1
        if self.points != self._at:
            return
        task = asyncio.current_task()
        assert task is not None
        if not self._as_it_comes:
            asyncio.get_running_loop().call_soon(self.cancel, task)
        elif isinstance(waits_for, asyncio.Future):
            # Added before the task's own callback, so it runs first.
            waits_for.add_done_callback(lambda _: self.cancel(task))  # pyright: ignore[reportUnknownMemberType, reportUnknownLambdaType]

    def cancel(self, task: asyncio.Task[Any]) -> None:
        """Cancel the run, unless it is over."""
        if not task.done():
            self.cancelled = task.cancel()


class _Watched:
    """Awaits a coroutine step by step, and reports each suspension to the probe."""

    def __init__(self, coroutine: Coroutine[Any, Any, object], probe: _Probe) -> None:
        self._coroutine = coroutine
        self._probe = probe

    def __await__(self) -> Generator[Any, Any, object]:
        step = self._coroutine.send
        value: Any = None
        while True:
            try:
                waits_for = step(value)
            except StopIteration as end:
                return end.value
            self._probe.suspended(waits_for)
            try:
                value = yield waits_for
                step = self._coroutine.send
            except BaseException as exception:  # noqa: BLE001 - the task's, passed on unchanged
                value = exception
                step = self._coroutine.throw


async def _run(scenario: Scenario, probe: _Probe, *, may_swallow: bool, check: Scenario | None) -> int:
    """Run the scenario once, and check; return the number of points it reached."""
    # Not through the loop's task factory: an eager one would take the first step before the cancellation.
    task = asyncio.Task(_watched(scenario, probe), name=f"cancel_sweep: cancelled {probe!r}")
    if probe._at < 0:
        probe.cancel(task)
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    failure: object = outcome if isinstance(outcome, BaseException) else None
    if probe.cancelled and isinstance(failure, asyncio.CancelledError):
        failure = None
    elif probe.cancelled and failure is None and not may_swallow:
        failure = AssertionError(
            f"the scenario swallowed its cancellation {probe!r}: it returned as if nothing had been"
        )
    if failure is None and check is not None:
        (failure,) = await asyncio.gather(check(), return_exceptions=True)
    if isinstance(failure, BaseException):
        if probe.cancelled:
            failure.add_note(f"cancel_sweep: the scenario was cancelled {probe!r}")
        raise failure
    return probe.points


async def _watched(scenario: Scenario, probe: _Probe) -> None:
    await probe.watch(scenario())
