"""Makes links to questions."""

import datetime as dt
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from purgatory_async.durable.documents import Ask, problems
from purgatory_async.durable.documents.asks import check_by
from purgatory_async.durable.documents.decoding import decoded
from purgatory_async.durable.documents.fitting import fitting
from purgatory_async.durable.documents.messages import LinkBody, LinkView
from purgatory_async.durable.fold.operations import Operation
from purgatory_async.durable.fold.shared import SECOND
from purgatory_async.durable.links.link import MAX_BY_BYTES, Link, log_name
from purgatory_async.durable.links.links import Links
from purgatory_async.durable.state import State
from purgatory_async.durable.verbs.durations import duration_us

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LINK: Final = msgspec.json.Decoder(LinkBody)
_LEAST_US: Final = SECOND
_MOST_US: Final = 366 * 86_400 * SECOND


class LinkOrder(NamedTuple):
    """What a link is to say: who answers by it, its choices (`UNSET`: all), how long it is good (None: for ever)."""

    by: str | None
    choices: list[str] | UnsetType
    lasts_us: int | None


def link_order(text: bytes) -> LinkOrder:
    """Read what a link is to say.

    Raises:
        Problem: ``malformed`` or ``invalid``.
    """
    body = decoded(text, _LINK, optional=True)
    by = None if isinstance(body.by, UnsetType) else _checked_by(body.by)
    lasts_us = None if isinstance(body.expires_in, UnsetType) else _checked_time(body.expires_in)
    return LinkOrder(by, body.choices, lasts_us)


def make_link(
    state: State, links: Links, operation: Operation, order: LinkOrder, via: str | None
) -> LinkView:
    """Make a link by which a person answers a question, without a token. O(choices).

    Args:
        state: Has the question.
        links: Sign it.
        operation: The question.
        order: What the link is to say.
        via: Whose link it is; None without owners.

    Raises:
        Problem: ``links-off``, ``already-ended``, or ``invalid``: it asks no person, or has no such choice.
    """
    if not links.on:
        raise problems.links_off()
    ask = ask_of(operation)
    if isinstance(ask, UnsetType):
        raise problems.invalid("", f"the operation {problems.shown(operation.id)} must have an ask, got none")
    offered = range(len(ask.choices)) if isinstance(order.choices, UnsetType) else _some(ask, order.choices)
    if operation.outcome is not None:
        raise problems.already_ended(fitting(operation.view(state.now_us())), "link to")
    expires_us = None if order.lasts_us is None else state.now_us() + order.lasts_us
    link = Link(log_name(state.epoch), operation.position, (*offered,), order.by, via, expires_us)
    until_us = operation.deadline_us if expires_us is None else expires_us
    return LinkView(links.url_of(link), None if until_us is None else moment(until_us))


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


def ask_of(operation: Operation) -> Ask | UnsetType:
    """Return what an operation asks a person, if anything."""
    return UNSET if operation.promise is None else operation.promise.ask


def moment(us: int) -> dt.datetime:
    """Return a log time."""
    return _EPOCH + dt.timedelta(microseconds=us)
