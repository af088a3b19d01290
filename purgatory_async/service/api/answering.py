"""``/a/{token}``: the page of a link, on which a person answers a question.

The token is all that a request needs, so the path is open. Only a POST with a choice decides: what reads the page, as
scanners of mail do, changes nothing. The page works by a form, without script; a program may send JSON.
"""

from contextlib import suppress
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from purgatory_async.durable.documents import Ask, OperationView, problems
from purgatory_async.durable.documents.asks import check_answer, given_comment
from purgatory_async.durable.documents.decoding import decoded
from purgatory_async.durable.documents.messages import LinkAnswer, LinkAnswered, PersonsAnswer
from purgatory_async.durable.documents.problems import Kind, Problem
from purgatory_async.durable.fold.entries import AnswerOperation
from purgatory_async.durable.fold.operations import Operation
from purgatory_async.durable.later import after
from purgatory_async.durable.links.link import Link, log_name
from purgatory_async.durable.verbs.answers import as_present, change
from purgatory_async.durable.verbs.links import ask_of, moment
from purgatory_async.service.api import answer_page
from purgatory_async.service.api.answer_page import End, Question
from purgatory_async.service.api.page import STATIC
from purgatory_async.service.api.request import BodyAwaited, BodyType, Request
from purgatory_async.service.contract import http_problems
from purgatory_async.service.contract.percent import percent_decoded
from purgatory_async.service.held.given import Given
from purgatory_async.service.http.answer import JSON, REPLAYED, Answer, answer, refusal
from purgatory_async.service.http_service import HttpService
from purgatory_async.service.records import Headers

MAX_FORM: Final = 1 << 16  # bytes of an answer
HTML: Final = "text/html"
FORM: Final = "application/x-www-form-urlencoded"

_FORM_OR_JSON: Final = BodyType(FORM, JSON)
_FORM: Final = BodyType(FORM)
_ANSWER: Final = msgspec.json.Decoder(LinkAnswer)
_CHOSEN: Final = msgspec.json.Decoder(PersonsAnswer)
_FIELDS: Final = frozenset({"choice", "comment"})
_STYLE: Final = (STATIC / "answer.css").read_bytes()
_SAFE: Final = (
    (
        "Content-Security-Policy",
        "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    # With no-referrer browsers send ``Origin: null`` from the page's own form.
    ("Referrer-Policy", "same-origin"),
    ("X-Robots-Tag", "noindex"),
)
# Refusals of an answer that its sender may mend, or wants to see the reason of.
_EXPLAINED: Final = frozenset({Kind.ALREADY_ENDED, Kind.INVALID})


class _Asked(NamedTuple):
    """A link and its question, with the choices that the link offers."""

    link: Link
    operation: Operation
    ask: Ask


# The page.


def read_link_style(service: HttpService, request: Request) -> Answer:  # noqa: ARG001 - an endpoint takes both
    """``GET /a/style.css``: the style of the page of a link."""
    request.check_accept("text/css")
    return Answer(200, _STYLE, "text/css; charset=utf-8", _SAFE)


def read_question(service: HttpService, request: Request) -> Given:
    """``GET /a/{token}``: show the question of a link as a page, or what became of it."""
    request.check_accept(HTML)
    link = _link_of(service, request)
    return after(service.caught_up(), lambda _: _page(200, _shown(_find(service, link))))


def answer_question(service: HttpService, request: Request) -> Given:
    """``POST /a/{token}``: answer the question of a link, from the form of its page or as JSON."""
    by_form = _is_form(request)
    request.check_accept(HTML if by_form else JSON)
    link = _link_of(service, request)
    body = request.body(_FORM_OR_JSON, MAX_FORM)
    sent = _of_form(body) if by_form else decoded(body, _ANSWER)
    comment = UNSET if isinstance(sent.comment, UnsetType) else sent.comment.replace("\r\n", "\n")
    chosen = PersonsAnswer(sent.choice, comment)
    return after(service.caught_up(), lambda _: _answer(service, request, link, chosen))


def show_refusal(service: HttpService, request: Request, problem: Problem, more: Headers) -> Answer:
    """Show a refusal: to a program as a problem, to a person as a page, with the question where that helps."""
    problem = _of_link(problem)
    if request.method == "POST" and not _is_form(request):
        return refusal(problem, *more)
    page = answer_page.refusal_page(problem)
    if problem.kind in _EXPLAINED:
        with suppress(Problem):  # it is gone meanwhile
            page = _shown(_find(service, _link_of(service, request)), _reason(problem), _typed(request))
    return _page(
        problem.kind.status, page, (*problem.headers, *more), close=problem.kind in http_problems.CLOSING
    )


def _of_link(problem: Problem) -> Problem:
    """Return a problem as a link shows it: without the operation, of which its holder sees no more than the end."""
    if problem.kind in {Kind.FORGOTTEN, Kind.UNKNOWN_OPERATION}:
        return http_problems.link_forgotten()
    operation = problem.document.operation
    if problem.kind is Kind.ALREADY_ENDED and isinstance(operation, OperationView):
        return http_problems.answered(operation.state, operation.result, operation.by)
    return problem


def _link_of(service: HttpService, request: Request) -> Link:
    """Return what the token of a request says. It asks no store: anyone can make up tokens."""
    link = service.links.open(request.parameters["token"])
    if link is None:
        raise http_problems.unknown_link()
    return link


def _find(service: HttpService, link: Link) -> _Asked:
    """Return the question of a link, pending or ended."""
    if link.log != log_name(service.state.epoch):
        raise http_problems.unknown_link()
    if link.expires_us is not None and link.expires_us <= service.state.now_us():
        raise http_problems.link_expired(moment(link.expires_us))
    operation = service.fold.operations.questions.get(link.position)
    if operation is None:
        raise http_problems.link_forgotten()
    ask = ask_of(operation)
    assert isinstance(ask, Ask), "a question is asked"
    return _Asked(link, operation, replace(ask, choices=tuple(ask.choices[each] for each in link.choices)))


def _answer(service: HttpService, request: Request, link: Link, chosen: PersonsAnswer) -> Given:
    _, operation, ask = _find(service, link)
    check_answer(ask, chosen)
    entry = AnswerOperation(
        id=operation.id,
        submitted=link.position,
        by=link.by,
        via=link.via,
        choice=chosen.choice,
        comment=given_comment(chosen),
    )
    return after(
        change(service, operation, entry, request),
        lambda repeated: after(
            service.records.settle(),
            lambda headers: _answered(
                request, as_present(service, operation), ((REPLAYED,) if repeated else ()) + headers
            ),
        ),
    )


def _answered(request: Request, operation: Operation, headers: Headers) -> Answer:
    if _is_form(request):
        # Relative, so that it leads to the page below any path; base64url needs no escapes.
        location = ("Location", request.parameters["token"].decode())
        return _page(303, b"", (location, *headers))
    result, ending = operation.result, operation.ending
    return answer(
        200,
        LinkAnswered(
            operation.state, UNSET if result is None else result, None if ending is None else ending.by
        ),
        *headers,
    )


# What the page shows.


def _shown(asked: _Asked, refused: str = "", typed: str = "") -> bytes:
    link, operation, ask = asked
    if operation.outcome is not None:
        return answer_page.end_page(_end_of(operation), refused)
    times = [each for each in (link.expires_us, operation.deadline_us) if each is not None]
    question = Question(
        ask.title,
        "" if isinstance(ask.text, UnsetType) else ask.text,
        ask.choices,
        ask.comment,
        link.by,
        moment(min(times)) if times else None,
    )
    return answer_page.question_page(question, refused, typed)


def _end_of(operation: Operation) -> End:
    """Return what became of a question; what a program or a signal brought is not shown."""
    ending, result, chosen = operation.ending, operation.result, None
    if ending is not None and ending.how == "answer" and isinstance(result, Raw):
        chosen = _CHOSEN.decode(result)
    return End(
        operation.state,
        None if chosen is None else chosen.choice,
        "" if chosen is None else given_comment(chosen) or "",
        None if ending is None else ending.by,
        moment(operation.ended_us),
    )


def _page(status: int, page: bytes, headers: Headers = (), *, close: bool = False) -> Answer:
    return Answer(status, page, answer_page.MEDIA_TYPE, (*_SAFE, *headers), close)


def _reason(problem: Problem) -> str:
    """Return a refusal as its page says it."""
    if problem.kind is Kind.ALREADY_ENDED:
        return "It had ended before your answer came, which does not count."
    return " ".join(
        f"The {fault.pointer.removeprefix('/') or 'answer'} {fault.detail}."
        for fault in problem.document.errors or ()
    )


def _typed(request: Request) -> str:
    """Return the comment of a form that was refused, so that it need not be typed again."""
    try:
        comment = _of_form(request.body(_FORM_OR_JSON, MAX_FORM)).comment
    except (Problem, BodyAwaited):
        return ""
    return "" if isinstance(comment, UnsetType) else comment


# The body.


def _is_form(request: Request) -> bool:
    media_type = request.header("content-type")
    return media_type is not None and _FORM.fits(media_type)


def _of_form(body: bytes) -> LinkAnswer:
    """Read a form: its fields ``choice`` and ``comment``, each once. O(bytes)."""
    found: dict[str, str] = {}
    for piece in body.replace(b"+", b" ").split(b"&"):
        raw_name, _, raw_value = piece.partition(b"=")
        try:
            name, value = percent_decoded(raw_name), percent_decoded(raw_value)
        except ValueError as error:
            raise problems.invalid("", f"a form must be percent-encoded UTF-8: {error}") from None
        if name in _FIELDS:
            if name in found:
                raise problems.invalid(f"/{name}", "must be given once, got another one")
            found[name] = value
    return LinkAnswer(found.get("choice", ""), found.get("comment", UNSET))  # an empty text is no choice
