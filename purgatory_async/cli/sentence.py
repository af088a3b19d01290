"""Errors as one line on a terminal."""

from contextlib import suppress

import click

__all__ = ["escaped", "one_sentence", "say"]


def escaped(text: str) -> str:
    r"""All of a text, what is not printable escaped, so that no terminal obeys it.

    >>> escaped("two\nlines")
    'two\\nlines'
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def one_sentence(error: Exception) -> str:
    """What an error says, as one line; a wrong option also says where help is."""
    if not isinstance(error, click.ClickException):
        return escaped(str(error))
    sentence = " ".join(error.format_message().split()).removesuffix(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    return escaped(sentence if context is None else f"{sentence}; see {context.command_path} --help")


def say(line: str, *, err: bool = False) -> None:
    """Print a line; drop it where the output is a closed pipe or a full disk.

    Args:
        line: Without a line feed.
        err: Whether to print to standard error.
    """
    with suppress(OSError):
        click.echo(line, err=err)
