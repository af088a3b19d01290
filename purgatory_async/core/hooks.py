"""Hooks in a queue: `on_complete` and `on_expiration` run first-in first-out and never inside one another.

A hook may end other operations, whose hooks may end others. Called directly that is recursion, and a chain dies
at depth 997 (CPython's limit); queued it is a loop, and 100 000 are fine. So ending an operation only queues it,
and whoever made the outermost call runs the queue when its own work is done.

There is one queue per thread, and so one per event loop: a chain may lead through several purgatories, and
through operations that were never watched.
"""

from collections import deque
from threading import local
from typing import Final, Protocol

from purgatory_async.core.outcome import Outcome
from purgatory_async.core.reports import call_soon, report

__all__ = ["HookQueue", "KeyRaised", "hooks_of_thread"]

_EXPIRED: Final = Outcome.EXPIRED


class Hooked(Protocol):
    """An operation that has completed or expired."""

    @property
    def _state(self) -> object: ...

    def on_complete(self) -> None:
        """Called first."""

    def on_expiration(self) -> None:
        """Called second, if it expired."""


class HookQueue:
    """Ended operations whose hooks have yet to run.

    While ``held``, somebody further out will run the queue: a walk over a key's operations, or the queue itself.
    Whoever appends must call `run` if it is not held.
    """

    __slots__ = ("held", "queue")

    def __init__(self) -> None:
        self.queue: deque[Hooked] = deque()
        self.held = False

    def run(self) -> None:
        """Run the hooks of everything queued, also of what they queue; an exception stops none of the rest.

        Raises:
            KeyboardInterrupt, SystemExit: As a hook raised it. What was queued behind it stays queued and runs
                with the next call or, if there is a loop, in its next turn.
        """
        queue = self.queue
        self.held = True
        try:
            while queue:
                ended = queue.popleft()
                try:
                    ended.on_complete()
                except BaseException as exception:  # noqa: BLE001 - whatever it was, it has no other caller
                    self._raised("on_complete", ended, exception)
                if ended._state is _EXPIRED:
                    try:
                        ended.on_expiration()
                    except BaseException as exception:  # noqa: BLE001 - as above
                        self._raised("on_expiration", ended, exception)
        finally:
            self.held = False
            if queue:  # an interrupt left them behind
                call_soon(self._run_rest)

    def _run_rest(self) -> None:
        if self.queue and not self.held:
            self.run()

    def _raised(self, hook: str, ended: Hooked, exception: BaseException) -> None:
        """Tell what a hook raised; an interrupt goes on, after the operation's other hook is queued again."""
        if isinstance(exception, (KeyboardInterrupt, SystemExit)):
            if hook == "on_complete" and ended._state is _EXPIRED:
                self.queue.appendleft(_OnlyExpiration(ended))
            raise exception
        report(f"{hook} of {ended!r} raised", exception, ended)


class _OnlyExpiration:
    """What is left of an expired operation whose first hook was interrupted."""

    __slots__ = ("_state", "on_complete")

    def __init__(self, ended: Hooked) -> None:
        self.on_complete = ended.on_expiration
        self._state: object = None

    def on_expiration(self) -> None:
        """Not called: it has not expired, as far as the queue can see."""


class KeyRaised:
    """Stands in the queue for what a watch key raised while its operation left: it has no caller.

    Args:
        exception: An interrupt propagates, anything else is reported.
        operation: Whose key it was.
    """

    __slots__ = ("_exception", "_operation", "_state")

    def __init__(self, exception: BaseException, operation: object) -> None:
        self._exception = exception
        self._operation = operation
        self._state: object = None

    def on_complete(self) -> None:
        """Report the exception, or raise it."""
        if isinstance(self._exception, (KeyboardInterrupt, SystemExit)):
            raise self._exception
        report(f"a watch key of {self._operation!r} raised", self._exception, self._operation)

    def on_expiration(self) -> None:
        """Not called: it has not expired."""


class _PerThread(local):
    """Each thread sees a queue of its own."""

    def __init__(self) -> None:
        self.hooks = HookQueue()


_per_thread: Final = _PerThread()


def hooks_of_thread() -> HookQueue:
    """The queue of the calling thread."""
    return _per_thread.hooks
