"""The purgatory's verbs for other threads."""

import asyncio
import concurrent.futures
from collections.abc import Callable, Hashable
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from purgatory_async.core.operation import DelayedOperation
from purgatory_async.errors import check_callback, check_result, refuse_again

P = ParamSpec("P")
T = TypeVar("T")


class Verbs(Protocol):
    """A purgatory's four verbs for keys; the portal calls them on the loop."""

    name: str

    def check_and_complete(self, key: Hashable) -> int:
        """Check the operations of a key."""
        ...

    def complete_for_key(self, key: Hashable, result: object = None) -> int:
        """Complete the operations of a key."""
        ...

    def fail_for_key(self, key: Hashable, exception: BaseException) -> int:
        """Fail the operations of a key."""
        ...

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation[Any]]:
        """Cancel the operations of a key."""
        ...


class PurgatoryPortal:
    """Signals a purgatory from any thread; made by `Purgatory.portal`.

    The four verbs are fire-and-forget: they hand the call to the purgatory's loop, FIFO per thread, and return at
    once. Change the condition first, then signal: so no waiter misses it.
    """

    __slots__ = ("__weakref__", "_loop", "_purgatory")

    def __init__(self, purgatory: Verbs, loop: asyncio.AbstractEventLoop) -> None:
        refuse_again(self, "_purgatory")
        self._purgatory = purgatory
        self._loop = loop

    def __repr__(self) -> str:
        return f"<PurgatoryPortal of {self._purgatory.name!r}>"

    def check_and_complete(self, key: Hashable) -> bool:
        """Hand `Purgatory.check_and_complete` to the loop; False if the loop has closed."""
        return self._hand_over(self._purgatory.check_and_complete, key)

    def complete_for_key(self, key: Hashable, result: object = None) -> bool:
        """Hand `Purgatory.complete_for_key` to the loop; False if the loop has closed."""
        return self._hand_over(self._purgatory.complete_for_key, key, result)

    def fail_for_key(self, key: Hashable, exception: BaseException) -> bool:
        """Hand `Purgatory.fail_for_key` to the loop; False if the loop has closed."""
        return self._hand_over(self._purgatory.fail_for_key, key, exception)

    def cancel_for_key(self, key: Hashable) -> bool:
        """Hand `Purgatory.cancel_for_key` to the loop; False if the loop has closed."""
        return self._hand_over(self._purgatory.cancel_for_key, key)

    def call(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> concurrent.futures.Future[T]:
        """Run ``fn(*args)`` on the loop.

        Returns:
            A future with its result or exception. It ends cancelled if the loop has closed, or closes before the
            call runs. Calling ``result()`` on the loop's own thread would deadlock.

        Raises:
            TypeError: ``fn`` is not callable, or async; `asyncio.run_coroutine_threadsafe` runs a coroutine.
        """
        check_callback("fn", fn)
        call = _Call(fn, lambda: fn(*args, **kwargs))
        future = call.future
        self._hand_over(call)
        return future

    def _hand_over(self, callback: Callable[..., object], *args: object) -> bool:
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:  # the loop has closed; a check beforehand would race
            return False
        return True


class _Call(Generic[T]):
    """A call on its way to the loop.

    Only the loop holds it. A loop that closes drops its queue without an event; so the finalizer of a call that has
    not run cancels the future, and no thread waits for ever.
    """

    __slots__ = ("_fn", "_name", "future")

    def __init__(self, name: object, fn: Callable[[], T]) -> None:
        self._name = name
        self._fn: Callable[[], T] | None = fn  # None once it has run
        self.future: concurrent.futures.Future[T] = concurrent.futures.Future()

    def __call__(self) -> None:
        fn, self._fn = self._fn, None
        if fn is None or not self.future.set_running_or_notify_cancel():
            return
        try:
            result = fn()
            check_result("fn", self._name, result)
        except (KeyboardInterrupt, SystemExit) as interrupt:
            self.future.set_exception(interrupt)
            raise
        except BaseException as exception:  # noqa: BLE001 - it belongs to the future
            self.future.set_exception(exception)
        else:
            self.future.set_result(result)

    def __del__(self) -> None:
        if self._fn is not None and self.future.cancel():
            self.future.set_running_or_notify_cancel()
