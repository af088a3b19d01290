"""Errors as one line on a terminal."""

from contextlib import suppress

import click

__all__ = ["escaped", "one_sentence", "say"]


def escaped(text: str) -> str:
    r"""The whole text with unprintable characters escaped, so that no terminal obeys them.

    >>> escaped("two\nlines")
    'two\\nlines'
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def one_sentence(error: Exception) -> str:
    """An error's message as one line; a usage error's also names the command's --help."""
    if not isinstance(error, click.ClickException):
        return escaped(str(error))
    sentence = " ".join(error.format_message().split()).removesuffix(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    return escaped(sentence if context is None else f"{sentence}; see {context.command_path} --help")


def say(line: str, *, err: bool = False) -> None:
    """Print a line, to standard error if ``err``; drop it if the output is a closed pipe or a full disk."""
    with suppress(OSError):
        click.echo(line, err=err)
