"""Hooks in a queue: `on_complete` and `on_expiration` run first-in first-out and never inside one another.

A hook may end other operations, whose hooks may end others. Called directly that is recursion, and a chain dies
at depth 997 (CPython's limit); queued it is a loop, and 100 000 are fine. So ending an operation only appends its
hooks, and whoever made the outermost call runs the queue when its own work is done.

Everything on one event loop shares one queue, so a chain may lead through several purgatories. Operations that
were never watched, and purgatories without a loop, use one per thread.
"""

from collections import deque
from collections.abc import Callable
from threading import local
from typing import Final

from purgatory_async._report import report

__all__ = ["HookQueue", "hooks_of_thread"]


class HookQueue:
    """Bound hooks waiting to run.

    While ``held`` is above zero somebody further out will run the queue: a walk over a key's operations, or
    the queue itself. Whoever appends must call `run` if it is not held.

    Args:
        on_error: Told of a hook's exception: ``on_error(message, exception, operation)``.
        run_later: Calls `run` from the event loop, for what an interrupt left behind.
    """

    __slots__ = ("_run_later", "held", "on_error", "queue")

    def __init__(
        self,
        on_error: Callable[[str, BaseException, object], None],
        run_later: Callable[[Callable[[], None]], None],
    ) -> None:
        self.on_error = on_error
        self._run_later = run_later
        self.queue: deque[Callable[[], None]] = deque()
        self.held = 0

    def run(self) -> None:
        """Run everything queued, also what the hooks themselves queue; an exception stops none of the rest.

        Raises:
            KeyboardInterrupt, SystemExit: As a hook raised it. What was queued behind it stays queued and runs
                with the next call or, if there is a loop, in its next turn.
        """
        queue = self.queue
        self.held = 1
        try:
            while queue:
                hook = queue.popleft()
                try:
                    hook()
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as exception:  # noqa: BLE001 - CancelledError and StopIteration too: it has no caller
                    self._tell(hook, exception)
        finally:
            self.held = 0
            if queue:  # an interrupt left them behind
                self._run_later(self._run_rest)

    def let_go(self) -> None:
        """End one hold; if it was the outermost, run what was queued under it."""
        self.held -= 1
        if self.queue and not self.held:
            self.run()

    def _run_rest(self) -> None:
        if self.queue and not self.held:
            self.run()

    def _tell(self, hook: Callable[[], None], exception: BaseException) -> None:
        operation = getattr(hook, "__self__", None)
        name = getattr(hook, "__name__", repr(hook))
        self.on_error(f"{name} of {operation!r} raised", exception, operation)


class _PerThread(local):
    """The queue of what belongs to no loop."""

    def __init__(self) -> None:
        self.hooks = HookQueue(_report_without_loop, _leave_queued)


def _report_without_loop(message: str, exception: BaseException, source: object) -> None:
    report(None, message, exception, source)


def _leave_queued(run: Callable[[], None]) -> None:
    """There is no loop to run it; the next call on this thread will."""


_per_thread: Final = _PerThread()


def hooks_of_thread() -> HookQueue:
    """The queue for operations that belong to no event loop."""
    return _per_thread.hooks
