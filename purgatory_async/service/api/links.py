"""``/v1/operations/{id}/links``: make a link to a question."""

from typing import Final

import msgspec
from msgspec import UnsetType

from purgatory_async.durable.documents import Ask, problems
from purgatory_async.durable.documents.asks import check_by
from purgatory_async.durable.documents.decoding import decoded
from purgatory_async.durable.documents.messages import LinkBody, LinkView
from purgatory_async.durable.fold.shared import SECOND
from purgatory_async.durable.later import after
from purgatory_async.durable.links.link import MAX_BY_BYTES, Link, log_name
from purgatory_async.durable.verbs.durations import duration_us
from purgatory_async.service.api.answering import ask_of, moment
from purgatory_async.service.api.operations import id_of, operation_of, view_of
from purgatory_async.service.api.request import Request
from purgatory_async.service.held.given import Given
from purgatory_async.service.http.answer import JSON, Answer, answer
from purgatory_async.service.http_service import HttpService

_LINK: Final = msgspec.json.Decoder(LinkBody)
_LEAST_US: Final = SECOND
_MOST_US: Final = 366 * 86_400 * SECOND


def make_link(service: HttpService, request: Request) -> Given:
    """``POST /v1/operations/{id}/links``: make a link by which a person answers, without a token."""
    request.check_accept(JSON)
    request.query()
    id_of(request)
    order = decoded(request.body(), _LINK, optional=True)
    by = None if isinstance(order.by, UnsetType) else _checked_by(order.by)
    lasts_us = None if isinstance(order.expires_in, UnsetType) else _checked_time(order.expires_in)
    return after(service.caught_up(), lambda _: _made(service, request, order.choices, by, lasts_us))


def _made(
    service: HttpService,
    request: Request,
    choices: list[str] | UnsetType,
    by: str | None,
    lasts_us: int | None,
) -> Answer:
    operation = operation_of(service, request)
    if not service.links.on:
        raise problems.links_off()
    ask = ask_of(operation)
    if isinstance(ask, UnsetType):
        raise problems.invalid("", f"the operation {problems.shown(operation.id)} must have an ask, got none")
    offered = range(len(ask.choices)) if isinstance(choices, UnsetType) else _some(ask, choices)
    if operation.outcome is not None:
        raise problems.already_ended(view_of(service, operation), "link to")
    expires_us = None if lasts_us is None else service.state.now_us() + lasts_us
    link = Link(
        log_name(service.state.epoch), operation.position, (*offered,), by, request.grant.owner, expires_us
    )
    until_us = operation.deadline_us if expires_us is None else expires_us
    return answer(201, LinkView(service.links.url_of(link), None if until_us is None else moment(until_us)))


def _checked_by(by: str) -> str:
    size = len(by.encode())
    if not 1 <= size <= MAX_BY_BYTES:
        raise problems.invalid("/by", f"must have 1 to {MAX_BY_BYTES} bytes in UTF-8, got {size}")
    check_by(by)
    return by


def _checked_time(expires_in: float | str) -> int:
    """Return how long a link is good, in microseconds."""
    us = duration_us("/expires_in", expires_in)
    if us < _LEAST_US:
        raise problems.invalid("/expires_in", f"must be at least 1 second, got {expires_in!r}")
    return min(us, _MOST_US)


def _some(ask: Ask, choices: list[str]) -> list[int]:
    """Return the indexes of some choices."""
    for number, choice in enumerate(choices):
        if choice not in ask.choices:
            raise problems.invalid(
                f"/choices/{number}",
                f"must be one of {', '.join(map(repr, ask.choices))}, got {problems.shown(choice)}",
            )
    return sorted({ask.choices.index(choice) for choice in choices})
