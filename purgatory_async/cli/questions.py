"""The commands for questions: ask one, link to it, answer it; complete, fail, reschedule and forget operations."""

import json
from math import inf
from typing import Final

import click

from purgatory_async.cli.arguments import Duration, json_or_text
from purgatory_async.cli.outlast import follow_through_restarts
from purgatory_async.cli.remote import EXIT_CODES, FAILED, with_service
from purgatory_async.cli.sentence import escaped
from purgatory_async.cli.summaries import printable, seconds
from purgatory_async.client import Client, Operation, RequestRefused
from purgatory_async.client.values import UNSET

ASK_CODES: Final = {**EXIT_CODES, "failed": 5}
OTHER_CHOICE: Final = 6
"""What `ask` exits with after an answer that is not its first choice, so that ``ask ... && deploy`` obeys a no."""

_id = click.argument("operation_id", metavar="ID")
_by = click.option("--by", help="Who answers, if the token may say so.  [default: the token's owner]")


@click.command("ask")
@_id
@click.argument("title")
@click.option("--text", help="What else a person should know.")
@click.option("--choice", "choices", multiple=True, help="An answer; may be repeated.  [default: ok]")
@click.option(
    "--comment",
    type=click.Choice(["none", "optional", "required"]),
    default="none",
    show_default=True,
    help="Whether an answer has a comment.",
)
@click.option("--timeout", type=Duration(), help="Time until it expires, such as 24h.  [default: never]")
@click.option("--keep", type=Duration(), default="7d", show_default=True, help="How long the answer is kept.")
@click.option("--announce", metavar="QUEUE", help="Queue that gets an item with the question's ID.")
@click.option("--link", is_flag=True, help="Print a link by which a person answers without a token.")
@click.option("--by", help="Who answers by the link.  [default: not said]")
@with_service
def ask_command(
    client: Client,
    operation_id: str,
    *,
    timeout: float | None,
    keep: float,
    announce: str | None,
    link: bool,
    by: str | None,
    choices: tuple[str, ...],
    **ask: str | None,
) -> None:
    """Ask a person TITLE, wait for the answer, and print it as JSON.

    Each ID is asked once: the same command again waits for the same answer, from anywhere. Its state and
    its link go to standard error. If the service requires a token, it needs the scope wait, for --link also
    answer.

    Exit code 0: the answer is the first choice; 6: another one, or an end without a choice; 3: expired; 4: cancelled;
    5: failed; 1: ended otherwise. Ctrl-C only stops waiting: the question stays. While the service restarts, it
    keeps trying.

    \b
    Example:
      purgatory ask deploy-77 'Deploy 77?' --choice yes --choice no --timeout 24h && ./deploy
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    if by is not None and not link:
        raise click.UsageError(
            f"--by must be given with --link, which names who answers, got --by {by} alone"
        )
    question: dict[str, object] = {name: value for name, value in ask.items() if value is not None}
    if choices:
        question["choices"] = choices

    def _attach(_: float | None) -> Operation:
        """Ask it, or attach to it, and say so."""
        operation = client.attach(operation_id, timeout=timeout, keep=keep, ask=question, announce=announce)
        if operation.pending:
            within = "" if operation.time_left is None else f"; it expires in {seconds(operation.time_left)}"
            click.echo(
                f"{'attached to' if operation.attached else 'asked'} {printable(operation_id)}{within}",
                err=True,
            )
            if link:
                _print_link(client, operation_id, by)
        return operation

    operation = follow_through_restarts(client, _attach)
    if operation.state == "completed":
        click.echo(json.dumps(operation.result))
    who = "" if operation.by is None else f" by {printable(operation.by)}"
    why = "" if operation.error is None else f": {escaped(json.dumps(operation.error, ensure_ascii=False))}"
    click.echo(f"{operation.state}{who} after {seconds(operation.elapsed)}{why}", err=True)
    click.get_current_context().exit(_ask_code(operation, choices))


def _ask_code(operation: Operation, choices: tuple[str, ...]) -> int:
    first = choices[0] if choices else "ok"
    if operation.state == "completed" and operation.choice != first:
        return OTHER_CHOICE
    return ASK_CODES.get(operation.state, FAILED)


def _print_link(client: Client, operation_id: str, by: str | None) -> None:
    """Print a link on standard error, unless the question has ended meanwhile."""
    try:
        click.echo(escaped(client.links(operation_id, by=by).url), err=True)
    except RequestRefused as refused:
        if refused.slug != "already-ended":
            raise


@click.command("link")
@_id
@click.option("--by", help="Who answers by it; anyone who has the link can read it.  [default: not said]")
@click.option(
    "--choice", "choices", multiple=True, help="A choice it offers; may be repeated.  [default: all]"
)
@click.option("--expires-in", type=Duration(1.0), help="How long it is good.  [default: while it is pending]")
@with_service
def link_command(
    client: Client,
    operation_id: str,
    *,
    by: str | None,
    choices: tuple[str, ...],
    expires_in: float | None,
) -> None:
    """Print a link by which a person answers the question ID, without a token.

    When it expires goes to standard error. If the service requires a token, it needs the scope answer.

    \b
    Example:
      purgatory link deploy-77 --by ann --expires-in 2h
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    made = client.links(operation_id, by=by, choices=choices or None, expires_in=expires_in)
    click.echo(escaped(made.url))
    click.echo("never expires" if made.expires_at is None else f"expires at {made.expires_at}", err=True)


@click.command("answer")
@_id
@click.argument("choice")
@click.option("--comment", help="A comment, if the question takes one.")
@_by
@with_service
def answer_command(
    client: Client,
    operation_id: str,
    choice: str,
    *,
    comment: str | None,
    by: str | None,
) -> None:
    """Give a person's answer to the question ID: one of its choices.

    The same answer again changes nothing; another one is refused. If the service requires a token, it needs the
    scope answer.

    \b
    Example:
      purgatory answer deploy-77 yes --by ann
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    click.echo(client.answer(operation_id, choice, comment=comment, by=by).state)


@click.command("complete")
@_id
@click.argument("result", required=False)
@_by
@with_service
def complete_command(client: Client, operation_id: str, result: str | None, by: str | None) -> None:
    """Complete an operation, with an optional RESULT: JSON, or otherwise text.

    If the service requires a token, it needs the scope answer.

    \b
    Example:
      purgatory complete report-7 '{"rows": 1200}'
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    click.echo(client.complete(operation_id, UNSET if result is None else json_or_text(result), by=by).state)


@click.command("fail")
@_id
@click.argument("error")
@_by
@with_service
def fail_command(client: Client, operation_id: str, error: str, by: str | None) -> None:
    """Let an operation fail, with the reason ERROR: JSON, or otherwise text.

    If the service requires a token, it needs the scope answer.

    \b
    Example:
      purgatory fail report-7 'the disk is full'
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    click.echo(client.fail(operation_id, json_or_text(error), by=by).state)


@click.command("reschedule")
@_id
@click.argument("timeout", type=Duration(endless=True))
@with_service
def reschedule_command(client: Client, operation_id: str, timeout: float) -> None:
    """Let a pending operation expire TIMEOUT from now, such as 2h; inf for never.

    \b
    Example:
      purgatory reschedule deploy-77 2h
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    operation = client.reschedule(operation_id, timeout=None if timeout == inf else timeout)
    left = operation.time_left
    click.echo("never expires" if left is None else f"expires in {seconds(left)}")


@click.command("forget")
@_id
@with_service
def forget_command(client: Client, operation_id: str) -> None:
    """Forget an operation that has ended, whatever its --keep.

    \b
    Example:
      purgatory forget deploy-77
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    client.forget(operation_id)
    click.echo("forgotten")


QUESTIONS: Final = (
    ask_command,
    link_command,
    answer_command,
    complete_command,
    fail_command,
    reschedule_command,
    forget_command,
)
