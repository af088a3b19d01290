"""Arguments and results of the patterns: one wording for each error, with the value and the bound."""

from collections.abc import Awaitable, Hashable
from inspect import isasyncgenfunction
from typing import TypeVar, cast

from purgatory_async import DelayedOperation, OperationCancelled, OperationExpired, Outcome, PurgatoryClosed
from purgatory_async.clock import MAX_TIMEOUT, as_number, describe
from purgatory_async.errors import as_integer

T = TypeVar("T")


def check_number(name: str, value: float, *, least: float, most: float = MAX_TIMEOUT) -> float:
    """Validate a finite number and its bounds; returns it as `as_number`.

    Raises:
        TypeError: It is not a number; a ``bool`` is not.
        ValueError: It is NaN or out of bounds.
    """
    value = as_number(name, value)
    if not least <= value <= most:  # False for NaN too
        raise ValueError(f"{name} must be from {least:.12g} to {most:.12g}, got {describe(value)}")
    return value


def check_integer(name: str, value: int, *, least: int | None = None, most: int | None = None) -> int:
    """Validate an integer and its bounds; returns it as `as_integer`.

    Raises:
        TypeError: It is not an integer; a ``bool`` is not.
        ValueError: It is out of bounds.
    """
    value = as_integer(name, value)
    if least is not None and value < least:
        raise ValueError(f"{name} must be at least {least}, got {describe(value)}")
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most}, got {describe(value)}")
    return value


def check_word(name: str, word: str, words: tuple[str, ...]) -> None:
    """Raise `ValueError` unless it is one of the words."""
    if word not in words:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, words))}, got {word!r}")


def check_function(name: str, function: object) -> None:
    """Raise `TypeError` unless a plain or async function is callable; nothing would iterate an async generator."""
    if not callable(function):
        raise TypeError(f"{name} must be callable, got {function!r}")
    if isasyncgenfunction(function):
        raise TypeError(f"{name} must be a plain or async function, got the async generator {function!r}")


def result_of(operation: DelayedOperation[T], awaited: str, key: Hashable) -> T:
    """Return the result of an awaited operation, or raise as it ended; a failed one raised when it was awaited.

    Args:
        operation: It has been awaited.
        awaited: What it waited for, as in ``"the reply to 7"``.
        key: The watch key it waited on.

    Raises:
        OperationExpired, OperationCancelled, PurgatoryClosed: As it ended.
    """
    if operation.outcome is Outcome.EXPIRED:
        raise OperationExpired(
            f"{awaited} did not come within {operation.timeout} s", keys=(key,), timeout=operation.timeout
        )
    if operation.outcome is Outcome.CANCELLED:
        raise OperationCancelled(f"the wait for {awaited} was cancelled", keys=(key,))
    if operation.outcome is Outcome.CLOSED:
        raise PurgatoryClosed(f"the purgatory was closed under the wait for {awaited}", keys=(key,))
    return cast("T", operation.result)


def check_keys(keys: tuple[Hashable, ...]) -> None:
    """Validate keys for a call that does not wait, or not yet.

    Raises:
        ValueError: There are none.
        TypeError: One is not hashable.
    """
    if not keys:
        raise ValueError("keys must be at least one, got ()")
    for key in keys:
        hash(key)


def listed(keys: tuple[Hashable, ...]) -> str:
    """Return keys as the text of an error shows them."""
    return ", ".join(map(repr, keys)) or "all keys"


async def named_by(
    waiting: Awaitable[T], awaited: str, keys: tuple[Hashable, ...], timeout: float | None
) -> T:
    """Await a `Purgatory.wait` on private keys; if it ends without a result, name what the caller knows.

    Args:
        waiting: The wait.
        awaited: What it waits for, as in ``"room for 'k'"``.
        keys: The caller's keys.
        timeout: Seconds, as the caller gave them.

    Raises:
        OperationExpired, OperationCancelled, PurgatoryClosed: As it ended.
    """
    try:
        return await waiting
    except OperationExpired:
        raise not_in_time(awaited, keys, timeout) from None
    except OperationCancelled:
        raise OperationCancelled(f"the wait for {awaited} was cancelled", keys=keys) from None
    except PurgatoryClosed:
        raise PurgatoryClosed(
            f"the purgatory is closed or drains: no wait for {awaited}", keys=keys
        ) from None


def not_in_time(awaited: str, keys: tuple[Hashable, ...], timeout: float | None) -> OperationExpired:
    """The error of a wait that has expired; the arguments are as of `named_by`."""
    return OperationExpired(f"{awaited} did not come within {timeout} s", keys=keys, timeout=timeout)
