"""Arguments that several commands take: durations, sizes, and values that are JSON or otherwise text."""

import json
from math import inf
from typing import Any

import click

from purgatory_async.durations import MAX_TIMEOUT, parse_duration
from purgatory_async.service.settings.sizes import parse_size


class Duration(click.ParamType):  # type: ignore[type-arg]  # older versions of click know none
    """A time such as ``30s``, ``0.2s`` or ``5m``, as seconds; plain numbers are seconds.

    Args:
        least: In seconds.
        endless: Whether ``inf`` is one.
    """

    name = "duration"

    def __init__(self, least: float = 0.0, *, endless: bool = False) -> None:
        self._least = least
        self._endless = endless

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read it.

        Raises:
            click.BadParameter: It is no duration, or out of bounds.
        """
        if not isinstance(value, str):  # a default
            return float(value)
        if self._endless and value == "inf":
            return inf
        try:
            seconds = parse_duration(value, fractions=True)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if not self._least <= seconds <= MAX_TIMEOUT:
            self.fail(f"must be from {self._least:g} to {MAX_TIMEOUT:.0f} seconds, got {value}", param, ctx)
        return seconds


class Size(click.ParamType):  # type: ignore[type-arg]  # as for `Duration`
    """A size such as ``64MiB``, in bytes; plain numbers are bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it.

        Raises:
            click.BadParameter: It is no size.
        """
        try:
            return parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def json_or_text(text: str) -> object:
    """Return the JSON that a text is, or the text.

    >>> json_or_text('{"a": 1}'), json_or_text("a")
    ({'a': 1}, 'a')
    """
    try:
        value = json.loads(text)
        json.dumps(value, allow_nan=False)  # Python reads NaN and Infinity, which are no JSON
    except (ValueError, RecursionError):
        return text
    return value
