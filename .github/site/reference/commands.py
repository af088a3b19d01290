"""Every command of ``purgatory``: its help, and its options, as click has them."""

import inspect
import re
from collections.abc import Iterator
from typing import Final

import click

from purgatory_async.cli.commands import purgatory
from reference.markdown import code, prose, table

_INTRODUCTION: Final = """# Commands

`purgatory COMMAND --help` prints what this page shows. Exit codes: 0 done, 2 refused with one sentence on standard
error, 3 the store's log is damaged, 130 interrupted; where a command has more, its text names them.
"""
# Their flags are on a page of their own.
_WITH_SETTINGS: Final = frozenset({"purgatory serve", "purgatory config"})


def markdown() -> str:
    """Return the page."""
    rows = [
        (f"[{code(path)}](#{path.replace(' ', '-')})", prose(command.get_short_help_str(200)))
        for path, command in commands()
    ]
    parts = [_INTRODUCTION, table(("command", "what it does"), rows)]
    for path, command in commands():
        parts += [f"## {code(path)}", *_command(path, command)]
    return "\n\n".join(part for part in parts if part)


def commands(
    group: click.Group = purgatory, prefix: str = "purgatory"
) -> Iterator[tuple[str, click.Command]]:
    """Return every command that is no group, by the words to call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command, path = group.get_command(context, name), f"{prefix} {name}"
        if isinstance(command, click.Group):
            yield from commands(command, path)
        elif command is not None and not command.hidden:
            yield path, command


def _command(path: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=path)
    yield f"```text\n{path} {' '.join(command.collect_usage_pieces(context))}\n```"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        lines = paragraph.splitlines()
        if lines[:1] == ["\b"]:  # click keeps such lines: an example
            example = "\n".join(line.strip() for line in lines[2:])
            yield f"{lines[1]}\n\n```sh\n{example}\n```"
        else:
            yield prose(paragraph)
    if path in _WITH_SETTINGS:
        yield "All [settings](settings.md) are options, too."
    yield _options(path, command, context)


def _options(path: str, command: click.Command, context: click.Context) -> str:
    rows = []
    for option in command.params:
        record = option.get_help_record(context)
        if record is not None and not (path in _WITH_SETTINGS and option.name != "config"):
            said, _, default = record[1].partition("[default: ")
            rows.append((code(record[0]), prose(re.sub(r"\s+", " ", said)), code(default.rstrip("]"))))
    return table(("option", "what it does", "default"), rows) if rows else ""
