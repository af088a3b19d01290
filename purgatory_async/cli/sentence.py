"""Errors as one line on a terminal."""

import re
from contextlib import suppress
from typing import Final

import click

_PASSWORD: Final = re.compile(r"(://[^\s:/@]*:)\S*@")


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
    sentence = _PASSWORD.sub(r"\1***@", sentence)  # of a URL in the wrong place, which click quotes
    context = error.ctx if isinstance(error, click.UsageError) else None
    return escaped(sentence if context is None else f"{sentence}; see {context.command_path} --help")


def say(line: str, *, err: bool = False) -> None:
    """Print a line, to standard error if ``err``; drop it if the output is a closed pipe or a full disk."""
    with suppress(OSError):
        click.echo(line, err=err)
