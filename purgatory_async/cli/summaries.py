"""Summaries of operations and queues for a terminal, and the ``--need`` grammar; pure functions.

Keys and ids come from clients, so each is shown as printable text that no terminal obeys.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from purgatory_async.cli.sentence import escaped
from purgatory_async.client import Operation, Queue

_COUNT: Final = re.compile(r"(amount|voters):([0-9]{1,16})")
_LONGEST: Final = 60  # characters of a key or id that a line shows
_MINUTE: Final = 60
_HOUR: Final = 3600


def printable(text: str) -> str:
    r"""Text that is safe for a terminal: unprintable characters escaped, cut to 60 characters.

    >>> printable("order:42"), printable("a\x1b[2J")
    ('order:42', 'a\\x1b[2J')
    """
    whole = escaped(text)
    return whole if len(whole) <= _LONGEST else whole[: _LONGEST - 3] + "..."


def seconds(duration: float | None) -> str:
    """A duration in readable units; ``-`` for None.

    >>> seconds(0.25), seconds(12.3), seconds(90), seconds(7322), seconds(None)
    ('0.25 s', '12.3 s', '1 m 30 s', '2 h 2 m', '-')
    """
    if duration is None:
        return "-"
    if round(duration, 1) < _MINUTE:
        return f"{duration:.2f} s" if round(duration, 2) < 10 else f"{duration:.1f} s"  # noqa: PLR2004 - digits
    whole = round(duration)
    if whole < _HOUR:
        return f"{whole // _MINUTE} m {whole % _MINUTE} s"
    return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} m"


def missing(operation: Operation) -> str:
    """What an operation still needs, in a few words."""
    waiting_for = operation.waiting_for or {}
    if "any" in waiting_for:
        return "any of its keys"
    if "all" in waiting_for:
        return "all of " + ", ".join(map(printable, waiting_for["all"]))
    if "amount" in waiting_for:
        return f"an amount of {waiting_for['amount']}"
    if "voters" in waiting_for:
        voters = waiting_for["voters"]
        return f"{voters} more voter{'' if voters == 1 else 's'}"
    return "-"


def answered(operation: Operation) -> str:
    """What ended an operation brought, in a few words: a choice and its comment, or JSON; ``-`` for nothing."""
    if operation.choice is not None:
        comment = "" if operation.comment is None else f": {operation.comment}"
        return printable(f"{operation.choice}{comment}")
    found = operation.result if operation.error is None else operation.error
    return "-" if found is None else printable(json.dumps(found, ensure_ascii=False))


def explain(operation: Operation) -> Iterator[str]:
    """Describe an operation, one fact per line."""
    yield f"operation {printable(operation.id)} is {operation.state}"
    if operation.pending:
        yield f"  waits for    {missing(operation)}, for {seconds(operation.elapsed)} now"
        until = "" if operation.deadline is None else f", at {operation.deadline}"
        yield f"  expires in   {seconds(operation.time_left)}{until}"
    else:
        yield f"  after        {seconds(operation.elapsed)}"
    yield f"  keys         {', '.join(map(printable, operation.keys))}"
    by = "" if operation.owner is None else f" by {printable(operation.owner)}"
    yield f"  submitted    {operation.submitted_at}{by}"
    if operation.ask is not None:
        yield from _question(operation, operation.ask)
    for title, queue in (("announced to", operation.announce), ("delivers to ", operation.deliver)):
        if queue is not None:
            yield f"  {title} {printable(queue)}"
    if not operation.pending:
        yield from _ending(operation)
    for signal in operation.signals:
        voter = f" by {printable(signal['voter'])}" if "voter" in signal else ""
        yield f"  signal       {signal['index']} on {printable(signal['key'])}{voter}"
    if not operation.signals:
        yield "  signals      none since it was submitted"


def _question(operation: Operation, ask: Mapping[str, Any]) -> Iterator[str]:
    choices = ", ".join(map(printable, ask["choices"]))
    comment = "" if ask.get("comment", "none") == "none" else f", comment {ask['comment']}"
    yield f"  asks         {printable(ask['title'])} ({choices}{comment})"
    if operation.pending:
        yield "  links        purgatory link makes one; those that were made are signed, and kept nowhere"


def _ending(operation: Operation) -> Iterator[str]:
    if operation.by or operation.via:
        via = "" if operation.via is None else f", by a link of {printable(operation.via)}"
        yield f"  ended by     {printable(operation.by or '-')}{via}"
    if (answer := answered(operation)) != "-":
        yield f"  answer       {answer}"
    if operation.keep is not None:
        yield f"  kept until   {operation.kept_until}"


def describe_queue(queue: Queue) -> Iterator[str]:
    """Describe a queue and its settings, one fact per line."""
    oldest = "" if queue.oldest is None else f", the oldest for {seconds(queue.oldest)}"
    attempts = "without a limit"
    if queue.max_attempts is not None and queue.dead is not None:
        attempts = f"{queue.max_attempts}, then to {printable(queue.dead)}"
    items, size = (
        f"{noun} without a limit" if most is None else f"{most} {noun}"
        for noun, most in (("items", queue.max_items), ("bytes", queue.max_bytes))
    )
    yield f"queue {printable(queue.queue)}"
    yield f"  ready        {queue.items}{oldest}"
    yield f"  delayed      {queue.delayed}"
    yield f"  leased       {queue.leased}, each for {seconds(queue.lease)}"
    yield f"  takers       {queue.takers}"
    yield f"  attempts     {attempts}"
    yield f"  most         {items}, {size}; it has {queue.bytes} bytes"


def need_of(text: str) -> object:
    """Parse ``--need``.

    Raises:
        click.ClickException: It is not any, all, amount:N or voters:N.

    >>> need_of("voters:2")
    {'voters': 2}
    """
    if text in {"any", "all"}:
        return text
    match = _COUNT.fullmatch(text)
    if match is None:
        raise click.ClickException(f"--need must be any, all, amount:N or voters:N, got {text!r}")
    return {match[1]: int(match[2])}
