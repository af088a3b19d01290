"""Errors as one line on a terminal."""

import click

__all__ = ["escaped", "one_sentence"]


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
