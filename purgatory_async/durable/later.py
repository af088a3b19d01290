"""What is there at once, or comes later: a value, or a coroutine that gives it.

A state in memory answers within the call, and only a log or a long step makes its caller wait. So most changes need
neither a task nor a coroutine.
"""

from collections.abc import Callable, Coroutine
from types import CoroutineType
from typing import Any, TypeAlias, TypeVar, cast

T = TypeVar("T")
U = TypeVar("U")

Later: TypeAlias = T | Coroutine[Any, Any, T]
"""A value, or a coroutine that gives it."""


def after(there: Later[T], then: Callable[[T], Later[U]]) -> Later[U]:
    """Go on with a value, now if it is there.

    Example:
        >>> after(2, lambda number: number + 1)
        3
    """
    if type(there) is CoroutineType:
        return _after(cast("Coroutine[Any, Any, T]", there), then)
    return then(cast("T", there))


async def _after(coming: Coroutine[Any, Any, T], then: Callable[[T], Later[U]]) -> U:
    return await at_last(then(await coming))


async def at_last(there: Later[T]) -> T:
    """Return a value once it is there."""
    if type(there) is CoroutineType:
        return await cast("Coroutine[Any, Any, T]", there)
    return cast("T", there)
