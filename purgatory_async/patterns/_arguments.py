"""Checks of the patterns' arguments: one wording each, with the value and the bound."""

from typing import Final

__all__ = ["LONGEST", "check_exception", "check_function", "check_integer", "check_number"]

LONGEST: Final = 36_525 * 86_400.0
"""The longest delay that a timer takes, in seconds: 100 years."""


def check_number(name: str, value: float, *, least: float, most: float = LONGEST) -> None:
    """Refuse what is no finite number within its bounds.

    Args:
        name: The argument's name.
        value: What was given for it.
        least: The smallest value that will do.
        most: The largest.

    Raises:
        TypeError: It is no number (a ``bool`` is none).
        ValueError: It is NaN or out of bounds.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}")
    if not least <= value <= most:  # NaN neither
        raise ValueError(f"{name} must be from {least:.12g} to {most:.12g}, got {_shown(value)}")


def check_integer(name: str, value: int, *, least: int | None = None, most: int | None = None) -> None:
    """Refuse what is no integer within its bounds.

    Raises:
        TypeError: It is no integer (a ``bool`` is none).
        ValueError: It is out of bounds.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}")
    if least is not None and value < least:
        raise ValueError(f"{name} must be at least {least}, got {_shown(value)}")
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most}, got {_shown(value)}")


def check_function(name: str, function: object) -> None:
    """Refuse what cannot be called.

    Raises:
        TypeError: It is such a thing.
    """
    if not callable(function):
        raise TypeError(f"{name} must be callable, got {function!r}")


def check_exception(exception: object) -> None:
    """Refuse what cannot be raised.

    Raises:
        TypeError: It is not an exception instance.
    """
    if not isinstance(exception, BaseException):
        raise TypeError(f"exception must be an exception instance, got {exception!r}")


def _shown(value: float) -> str:
    """The value for a message; an integer too long to print by its length."""
    if isinstance(value, int) and value.bit_length() > 256:  # noqa: PLR2004 - a line's worth of digits
        return f"an integer of {value.bit_length()} bits"
    return repr(value)
