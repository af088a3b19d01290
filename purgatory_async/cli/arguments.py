"""Arguments that several commands take: durations, and values that are JSON or otherwise text."""

import json

import click

from purgatory_async.web.durations import parse_duration

__all__ = ["duration", "json_or_text"]


def duration(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Parse an option such as ``30s`` into seconds; None stays None.

    Raises:
        click.BadParameter: It is no duration.
    """
    try:
        return None if text is None else parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from None


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
