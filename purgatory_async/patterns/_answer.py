"""What a task gets from the operation that it awaited: the result, or an exception that says what was in vain."""

from typing import TypeVar, cast

from purgatory_async import DelayedOperation, OperationCancelled, OperationExpired, Outcome, PurgatoryClosed

__all__ = ["answer"]

T = TypeVar("T")


def answer(operation: DelayedOperation[T], awaited: str) -> T:
    """Turn the end of an operation into what a coroutine returns or raises.

    Args:
        operation: It has been awaited.
        awaited: What was waited for, for the messages: ``"the reply to 7"``.

    Returns:
        The result of a completed operation.

    Raises:
        OperationExpired, OperationCancelled, PurgatoryClosed: As it ended. (One that failed has raised already
            when it was awaited.)
    """
    if operation.outcome is Outcome.EXPIRED:
        raise OperationExpired(f"{awaited} did not come within {operation.timeout} s")
    if operation.outcome is Outcome.CANCELLED:
        raise OperationCancelled(f"the wait for {awaited} was cancelled")
    if operation.outcome is Outcome.CLOSED:
        raise PurgatoryClosed(f"the purgatory was closed under the wait for {awaited}")
    return cast("T", operation.result)
