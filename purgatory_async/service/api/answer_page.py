"""The page of a link, as HTML without script: a question with its choices, what became of it, or why it is refused.

Its texts come from clients: each is escaped, here and nowhere else.
"""

import datetime as dt
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final, NamedTuple

from purgatory_async.durable.documents.messages import MAX_COMMENT
from purgatory_async.durable.documents.problems import Kind, Problem, ProblemKind
from purgatory_async.service.contract.http_problems import HttpKind

MEDIA_TYPE: Final = "text/html; charset=utf-8"

_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>{title}</title>
<link rel="stylesheet" href="style.css">
</head>
<body>
<main>
{content}
</main>
</body>
</html>
"""
_COMMENT: Final = """\
<label for="comment">{label}</label>
<textarea id="comment" name="comment" rows="4" maxlength="{most}" dir="auto"{required}>
{text}</textarea>
"""
_ENDS: Final = {
    "answered": ("Answered", "The question has its answer."),
    "completed": ("Completed", "The question ended without a choice."),
    "expired": ("Expired", "The time ran out before an answer came."),
    "cancelled": ("Cancelled", "The question was withdrawn."),
    "failed": ("Failed", "The question could not be answered."),
    "closed": ("Closed", "The service has stopped."),
}
_NEITHER: Final = "Go back and try again."
# What a person can do about it; of other problems the page shows the title.
_REFUSALS: Final[dict[ProblemKind, tuple[str, str]]] = {
    HttpKind.UNKNOWN_LINK: (
        "No such link",
        "The link is not whole, or not of this service. Copy all of it, or ask for another one.",
    ),
    HttpKind.LINK_EXPIRED: ("The link has expired", "Ask for another one, if the question is still open."),
    Kind.FORGOTTEN: ("The question is gone", "It has ended, and what became of it is no longer kept."),
    HttpKind.CROSS_ORIGIN: ("Not sent from this page", "Open the link itself, and answer there."),
    HttpKind.TOO_LARGE: ("The comment is too long", f"It may have {MAX_COMMENT} characters. {_NEITHER}"),
}


class Question(NamedTuple):
    """A question as its page shows it.

    Attributes:
        title: One line.
        text: Several lines; empty for none.
        choices: The choices that the link offers.
        comment: ``none``, ``optional`` or ``required``.
        by: Who answers through the link; None for no name.
        until: When it can no longer be answered; None for no such time.
    """

    title: str
    text: str
    choices: Sequence[str]
    comment: str
    by: str | None
    until: dt.datetime | None


class End(NamedTuple):
    """What became of a question.

    Attributes:
        state: How it ended.
        choice: The answer of a person; None if it ended otherwise.
        comment: The comment on it; empty for none.
        by: Who ended it, as far as is known.
        at: When.
    """

    state: str
    choice: str | None
    comment: str
    by: str | None
    at: dt.datetime


def question_page(question: Question, refused: str = "", typed: str = "") -> bytes:
    """Return the page of a question that is pending. O(characters).

    Args:
        question: The question.
        refused: Why the last attempt to answer it was refused; empty for none.
        typed: The comment of that attempt.
    """
    rows = [("For", _text(question.by))] if question.by else []
    if question.until is not None:
        rows.append(("Until", _time(question.until)))
    buttons = "\n".join(
        f'<button name="choice" value="{_text(choice)}" dir="auto">{_text(choice)}</button>'
        for choice in question.choices
    )
    content = [
        _heading(question.title),
        f'<p class="refused" role="alert">{_text(refused)}</p>' if refused else "",
        f'<p class="text" dir="auto">{_text(question.text)}</p>' if question.text else "",
        _list(rows),
        f'<form method="post">\n{_field(question.comment, typed)}<div class="choices">\n{buttons}\n</div>\n</form>',
    ]
    return _page(question.title, content)


def end_page(end: End, refused: str = "") -> bytes:
    """Return the page of a question that has ended: what became of it, and nothing that was asked. O(characters).

    Args:
        end: What became of it.
        refused: Why an attempt to answer it was refused; empty for none.
    """
    title, text = _ENDS["answered" if end.choice is not None else end.state]
    rows = [] if end.choice is None else [("Answer", _text(end.choice))]
    rows += [("Comment", _text(end.comment))] if end.comment else []
    rows += [("By", _text(end.by))] if end.by else []
    content = [
        _heading(title),
        f'<p class="refused" role="alert">{_text(refused)}</p>' if refused else "",
        f'<p class="text">{text}</p>',
        _list([*rows, ("At", _time(end.at))]),
    ]
    return _page(title, content)


def refusal_page(problem: Problem) -> bytes:
    """Return the page of a refusal, which shows nothing of a question."""
    title, text = _REFUSALS.get(problem.kind, (problem.kind.title, _NEITHER))
    return _page(title, [_heading(title), f'<p class="text">{text}</p>'])


def _page(title: str, content: Iterable[str]) -> bytes:
    return _PAGE.format(title=_text(title), content="\n".join(filter(None, content))).encode()


def _heading(title: str) -> str:
    return f'<h1 dir="auto">{_text(title)}</h1>'


def _list(rows: Iterable[tuple[str, str]]) -> str:
    shown = "\n".join(f'<dt>{name}</dt><dd dir="auto">{value}</dd>' for name, value in rows)
    return f"<dl>\n{shown}\n</dl>" if shown else ""


def _field(comment: str, typed: str) -> str:
    if comment == "none":
        return ""
    required = comment == "required"
    # A parser drops the line break that the field begins with.
    return _COMMENT.format(
        label="Comment" if required else "Comment (optional)",
        most=MAX_COMMENT,
        required=" required" if required else "",
        text=_text(typed),
    )


def _time(moment: dt.datetime) -> str:
    """Show a time to the minute; machines read the rest."""
    return f'<time datetime="{moment.isoformat()}">{moment:%Y-%m-%d %H:%M} UTC</time>'


def _text(text: str | None) -> str:
    return escape(text or "", quote=True)
