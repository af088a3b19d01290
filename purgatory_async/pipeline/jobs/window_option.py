"""The option ``--window``."""

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeVar

import click

__all__ = ["window_option"]

_NS: Final = 1_000_000_000
_LONGEST_S: Final = 1000 * 366 * 24 * 3600

C = TypeVar("C", bound=Callable[..., Any])


def window_option(command: C) -> C:
    """Give a command ``window_ns``, from ``--window`` in seconds."""
    return click.option(
        "--window",
        "window_ns",
        required=True,
        metavar="S",
        callback=_width_ns,
        help="The width of a window in seconds, such as 60 or 0.5.",
    )(command)


def _width_ns(_: click.Context, __: click.Parameter, value: str) -> int:
    try:
        seconds = Decimal(value)
    except InvalidOperation:
        seconds = Decimal("NaN")
    if not (seconds.is_finite() and 0 < seconds <= _LONGEST_S) or seconds * _NS % 1:
        raise click.BadParameter(
            f"must be a positive number of seconds, at most {_LONGEST_S} and in whole nanoseconds, got {value!r}"
        )
    return int(seconds * _NS)
