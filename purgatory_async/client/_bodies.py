"""The members of bodies, as the arguments of both clients give them, without what is not given."""

import datetime as dt
from collections.abc import Iterable, Mapping
from math import inf
from numbers import Integral, Real
from typing import Any

from purgatory_async.client._model import Lease
from purgatory_async.client.values import UNSET
from purgatory_async.deadlines import deadline_text
from purgatory_async.durations import Duration, as_seconds, in_body


def given(**members: object) -> dict[str, Any]:
    """Return the members of a body that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def listed(name: str, texts: Iterable[str]) -> list[str]:
    """Return the elements of an iterable of texts.

    Raises:
        TypeError: It is a single text, whose elements are characters.
    """
    if isinstance(texts, str):
        raise TypeError(f"{name} must be an iterable of {name}, got {texts!r}; did you mean [{texts!r}]?")
    return list(texts)


def asked(  # noqa: PLR0917 - in the order of the clients' arguments
    keys: Iterable[str] | None = None,
    need: object = "any",
    timeout: Duration | None = None,
    data: object = UNSET,
    deadline: dt.datetime | None = None,
    since: str | int | None = None,
    keep: Duration | None = None,
    ask: Mapping[str, Any] | None = None,
    announce: str | None = None,
    deliver: str | None = None,
) -> dict[str, Any]:
    """Return the body of a submission, without what is not given.

    Raises:
        TypeError, ValueError: ``keys`` is a string, or ``deadline`` is not aware.
    """
    body = given(
        keys=None if keys is None else listed("keys", keys),
        since=since,
        keep=in_body(keep),
        ask=None if ask is None else dict(ask),
        announce=announce,
        deliver=deliver,
    )
    body |= {"need": need, **due(timeout, deadline)}
    return body if data is UNSET else {**body, "data": data}


def question(title: str, text: str | None, choices: Iterable[str], comment: str) -> dict[str, Any]:
    """Return a question for a person.

    Raises:
        TypeError: ``choices`` is a string.
    """
    return given(title=title, text=text, choices=listed("choices", choices), comment=comment)


def due(timeout: Duration | None, deadline: dt.datetime | None) -> dict[str, Any]:
    """Return the members for a deadline; raises as `deadline_text`. Both are left to the service to refuse."""
    body: dict[str, Any] = {"timeout": in_body(timeout)}
    return body if deadline is None else {**body, "deadline": deadline_text(deadline)}


def lease_id(lease: Lease | str) -> str:
    """Return the id of a lease, or itself."""
    return lease if isinstance(lease, str) else lease.id


def timed(**members: object) -> dict[str, Any]:
    """Return the members of a body that are given; a delay of None is none, and a `timedelta` is seconds."""
    return {
        name: in_body(value) if name in {"delay", "lease"} else value
        for name, value in members.items()
        if value is not UNSET and not (name == "delay" and value is None)
    }


def or_unset(value: Duration | None) -> Duration:
    """Return a time, or that it is not given."""
    return UNSET if value is None else value


def signalled(value: object, amount: int | None, voter: str | None) -> dict[str, Any]:
    """Return the body of a signal."""
    return ({} if value is UNSET else {"value": value}) | given(amount=amount, voter=voter)


def with_plain_numbers(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body whose members are numbers that JSON knows: numpy's and fractions as an integer or a float."""
    return {name: _plain(value) for name, value in body.items()}


def _plain(value: object) -> object:
    if isinstance(value, int | float):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value


def longest_wait(timeout: Duration | None) -> float:
    """Return how many seconds a wait may last; infinite for None.

    Raises:
        TypeError, ValueError: It is no time, or below 0.
    """
    seconds = inf if timeout is None else as_seconds("timeout", timeout)
    if not seconds >= 0:
        raise ValueError(f"timeout must be 0 or more seconds, or None to wait for ever, got {timeout!r}")
    return seconds
