"""What is there at once, or comes later: a value, or a coroutine that gives it.

A state in memory answers within the call, and only a log or a long step makes its caller wait. So most changes need
neither a task nor a coroutine.
"""

from collections.abc import Callable, Coroutine
from types import CoroutineType
from typing import Any, TypeAlias, TypeVar

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
    value: Any = there
    return _after(value, then) if value.__class__ is CoroutineType else then(value)


async def _after(coming: Coroutine[Any, Any, T], then: Callable[[T], Later[U]]) -> U:
    return await at_last(then(await coming))


async def at_last(there: Later[T]) -> T:
    """Return a value once it is there."""
    value: Any = there
    result: T = await value if value.__class__ is CoroutineType else value
    return result
