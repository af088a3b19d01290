"""What this library raises, and the checks of arguments that its classes share.

    Exception
     +-- PurgatoryError            misuse: wrong state, wrong loop, watching inside a check
          +-- OperationExpired     the timeout passed (also a TimeoutError): keys, timeout
          +-- OperationCancelled   a verb cancelled the wait: keys
          +-- PurgatoryClosed      the purgatory or timer is closed or draining: keys
          +-- PurgatoryFull        max_pending is reached: limit
          +-- JournalError         a journal is unusable (in purgatory_async.journal)
          +-- LogError             a log is unusable (in purgatory_async.cluster)

Bad arguments are plain ``TypeError`` and ``ValueError``. Data is in attributes, outside ``args``, so that the
errors survive pickle and copy.
"""

from collections.abc import AsyncGenerator, Coroutine, Hashable
from contextlib import suppress
from enum import Enum
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, isasyncgenfunction, iscoroutinefunction
from numbers import Number
from operator import index
from typing import Final, NoReturn, cast

__all__ = [
    "OperationCancelled",
    "OperationExpired",
    "PurgatoryClosed",
    "PurgatoryError",
    "PurgatoryFull",
    "as_integer",
    "check_callback",
    "check_exception",
    "check_limit",
    "check_result",
    "is_async",
    "refuse_again",
    "refuse_copy",
    "refuse_number",
    "returned_async",
]

_ASYNC: Final = CO_COROUTINE | CO_ASYNC_GENERATOR


class PurgatoryError(Exception):
    """Base of this library's errors; raised itself for a call that the present state forbids."""


class OperationExpired(PurgatoryError, TimeoutError):
    """A wait on ``keys`` expired after ``timeout`` seconds; ``except TimeoutError`` catches it too."""

    def __init__(self, *args: object, keys: tuple[Hashable, ...] = (), timeout: float | None = None) -> None:
        super().__init__(*args)
        self.keys = keys
        self.timeout = timeout


class OperationCancelled(PurgatoryError):
    """`Purgatory.cancel_for_key` ended a wait on ``keys``.

    This is not `asyncio.CancelledError`: the waiting task itself goes on.
    """

    def __init__(self, *args: object, keys: tuple[Hashable, ...] = ()) -> None:
        super().__init__(*args)
        self.keys = keys


class PurgatoryClosed(PurgatoryError):
    """The purgatory or timer is closed or draining; ``keys`` are those of the refused or ended wait."""

    def __init__(self, *args: object, keys: tuple[Hashable, ...] = ()) -> None:
        super().__init__(*args)
        self.keys = keys


class PurgatoryFull(PurgatoryError):
    """``max_pending``, in ``limit``, operations or callbacks are pending; nothing was registered."""

    def __init__(self, *args: object, limit: int | None = None) -> None:
        super().__init__(*args)
        self.limit = limit


class _InitialisedAgain(PurgatoryError, RuntimeError):
    """Raised by a second ``__init__``; a ``RuntimeError`` too, as asyncio's futures raise."""


def as_integer(name: str, value: object, wanted: str = "an integer") -> int:
    """Return an integer of any type, such as numpy's, as an ``int``.

    Raises:
        TypeError: It is none; a ``bool`` is refused.
    """
    if not isinstance(value, bool):
        with suppress(TypeError):
            return index(value)  # type: ignore[arg-type]  # it raises
    raise TypeError(f"{name} must be {wanted}, got {type(value).__name__}")


def check_limit(name: str, limit: int | None) -> int | None:
    """Validate a limit and return it, an integer as an ``int``.

    Raises:
        TypeError: It is neither ``None`` nor an integer.
        ValueError: It is below 1.
    """
    if limit is None:
        return None
    limit = as_integer(name, limit, "None or an integer")
    if limit < 1:
        raise ValueError(f"{name} must be at least 1, or None for no limit, got {limit}")
    return limit


def is_async(function: object) -> bool:
    """Whether calling it makes a coroutine or an async generator, as far as can be seen.

    Partials, methods and objects with an async ``__call__`` show it; a lambda that returns a coroutine does not.
    """
    while isinstance(function, partial):
        function = function.func
    return any(
        makes(each)
        for each in (function, getattr(type(function), "__call__", None))  # noqa: B004 - not whether it is callable
        for makes in (iscoroutinefunction, isasyncgenfunction)
    )


def check_callback(name: str, callback: object) -> None:
    """Raise `TypeError` unless ``callback`` is callable and not async as `is_async`: it would never be awaited."""
    code = getattr(callback, "__code__", None)  # a bound method forwards its function's
    if code is None:
        if not callable(callback):
            raise TypeError(f"{name} must be callable, got {callback!r}")
        if not is_async(callback):
            return
    elif not code.co_flags & _ASYNC:
        return
    raise TypeError(f"{name} must be a plain function, not async, got {callback!r}; let it start a task")


def check_result(name: str, callback: object, returned: object) -> None:
    """Raise `TypeError` if a plain function has returned a coroutine or an async generator, which nothing awaits."""
    if isinstance(returned, (Coroutine, AsyncGenerator)):
        raise returned_async(name, callback, cast("object", returned))


def returned_async(name: str, callback: object, returned: object) -> TypeError:
    """Close a coroutine that a plain function has returned; returns the error that names the function."""
    error = TypeError(
        f"{name} must be a plain function, not async, but {callback!r} returned {returned!r}; let it start a task"
    )
    if isinstance(returned, Coroutine):
        returned.close()
    return error


def refuse_number(keys: tuple[object, ...]) -> None:
    """Raise `TypeError` if the last of several watch keys looks like a timeout: a number behind a text or a tuple."""
    last = keys[-1]
    if type(last) is str or not isinstance(last, Number) or isinstance(last, bool | Enum):
        return
    if any(isinstance(key, str | bytes | tuple) for key in keys[:-1]):
        raise TypeError(
            f"a number behind other keys must be named, got {', '.join(map(repr, keys))}; write timeout={last}, or "
            f"timeout=inf to wait for the key {last!r} too"
        )


def refuse_copy(self: object, protocol: object) -> NoReturn:  # noqa: ARG001 - a `__reduce_ex__`
    """Raise `TypeError`: the `__reduce_ex__` of what wheels and watch lists link, which a copy would corrupt."""
    raise TypeError(f"cannot copy or pickle a {type(self).__name__}; make a new one")


def refuse_again(made: object, attribute: str) -> None:
    """Raise `PurgatoryError` in a second ``__init__``, which would lose what waits; the first sets ``attribute``."""
    if getattr(made, attribute, None) is not None:
        raise _InitialisedAgain(f"{type(made).__name__} is initialised: cannot do it again; make a new one")


def check_exception(exception: object) -> None:
    """Raise `TypeError` unless ``exception`` is an exception instance."""
    if not isinstance(exception, BaseException):
        raise TypeError(f"exception must be an exception instance, got {exception!r}")
