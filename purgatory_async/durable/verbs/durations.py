"""Durations of bodies, as microseconds of log time."""

from msgspec import UNSET, UnsetType

from purgatory_async.durable.documents import problems
from purgatory_async.durable.fold.shared import microseconds
from purgatory_async.durations import checked_timeout


def delay_us(value: float | str | UnsetType) -> int:
    """Return a ``delay``; 0 if it is absent.

    Raises:
        Problem: ``invalid`` at ``/delay``.
    """
    return 0 if isinstance(value, UnsetType) else duration_us("/delay", value)


def lease_us(value: float | str | UnsetType) -> int | UnsetType:
    """Return a ``lease``; `UNSET` if it is absent.

    Raises:
        Problem: ``invalid`` at ``/lease``, also for 0.
    """
    if isinstance(value, UnsetType):
        return UNSET
    lease = duration_us("/lease", value)
    if not lease:
        raise problems.invalid("/lease", f"must be above 0 seconds, got {value!r}")
    return lease


def duration_us(pointer: str, value: float | str) -> int:
    """Return the duration at a place of a body.

    Raises:
        Problem: ``invalid`` at that place.
    """
    try:
        seconds = checked_timeout(value, f"a {pointer[1:]}")
    except ValueError as error:
        raise problems.invalid(pointer, str(error)) from None
    assert seconds is not None, "it is not null"
    return microseconds(seconds)
