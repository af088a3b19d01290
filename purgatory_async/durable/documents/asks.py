"""The rules for questions and their answers that lengths do not express: plain text, distinct choices, and comments.

Texts are shown to people by pages, chats and terminals. So no control character is allowed in them, and none that
changes the direction in which others are read.
"""

import re
import unicodedata
from typing import Final

from msgspec import UNSET, UnsetType

from purgatory_async.durable.documents import Ask
from purgatory_async.durable.documents.messages import MAX_BY, MAX_COMMENT, PersonsAnswer
from purgatory_async.durable.documents.problems import invalid, shown

_BIDI: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_CONTROL: Final = "\0-\x1f\x7f-\x9f"
_LINE: Final = re.compile(f"[{_CONTROL}{_BIDI}]")
_TEXT: Final = re.compile(f"(?![\n\t])[{_CONTROL}{_BIDI}]")
_NAME: Final = re.compile(f"[{_CONTROL}]")


def check_ask(ask: Ask) -> None:
    """Check a question, whose lengths are right.

    Raises:
        Problem: ``invalid``.
    """
    _check("/ask/title", ask.title, _LINE)
    if not ask.title.strip():
        raise invalid("/ask/title", f"must not be blank, got {shown(ask.title)}")
    if not isinstance(ask.text, UnsetType):
        _check("/ask/text", ask.text, _TEXT)
    seen = dict[str, str]()
    for number, choice in enumerate(ask.choices):
        _check(f"/ask/choices/{number}", choice, _LINE)
        name = unicodedata.normalize("NFC", choice).strip()
        if not name:
            raise invalid(f"/ask/choices/{number}", f"must not be blank, got {shown(choice)}")
        if name in seen:
            raise invalid(f"/ask/choices/{number}", f"must be distinct, got {shown(choice)} again")
        seen[name] = choice


def check_answer(ask: Ask | UnsetType, answer: PersonsAnswer) -> None:
    """Check a person's answer against the question.

    Raises:
        Problem: ``invalid``: there is no question, it has no such choice, or the comment is missing, not wanted or too
            long.
    """
    comment = answer.comment
    if isinstance(ask, UnsetType):
        raise invalid("", f"the operation has no ask: cannot answer {shown(answer.choice)}; complete it")
    if answer.choice not in ask.choices:
        choices = ", ".join(map(shown, ask.choices))
        raise invalid("/choice", f"must be one of {choices}, got {shown(answer.choice)}")
    if isinstance(comment, UnsetType) or not comment:
        if ask.comment == "required":
            raise invalid("/comment", f"must be given to {shown(ask.title)}, which requires one")
    elif ask.comment == "none":
        raise invalid("/comment", f"must be left out of an answer to {shown(ask.title)}, which takes none")
    elif len(comment) > MAX_COMMENT:
        raise invalid("/comment", f"must have at most {MAX_COMMENT} code points, got {len(comment)}")


def given_comment(answer: PersonsAnswer) -> str | UnsetType:
    """Return the comment of an answer; an empty one is none."""
    return answer.comment or UNSET


def check_by(by: str) -> None:
    """Check a free text that says who answers.

    Raises:
        Problem: ``invalid``.
    """
    if not 1 <= len(by) <= MAX_BY:
        raise invalid("/by", f"must have 1 to {MAX_BY} code points, got {len(by)}")
    _check("/by", by, _NAME)


def _check(pointer: str, text: str, refused: re.Pattern[str]) -> None:
    found = refused.search(text)
    if found is not None:
        raise invalid(
            pointer, f"must have no control character, got U+{ord(found[0]):04X} at {found.start()}"
        )
