"""The bodies of submissions as entries of the log."""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from purgatory_async.deadlines import due_us
from purgatory_async.durable.documents import kept, problems
from purgatory_async.durable.documents.asks import check_ask
from purgatory_async.durable.documents.messages import MAX_KEEP, MAX_LISTED, Attach, Submit
from purgatory_async.durable.documents.names import checked_key, distinct_keys
from purgatory_async.durable.fold.entries import SubmitOperation, Text
from purgatory_async.durable.fold.shared import microseconds
from purgatory_async.durable.grants import Permission
from purgatory_async.durable.history import SINCE_GRAMMAR, continues, parse_since
from purgatory_async.durable.state import Guard, State
from purgatory_async.durations import checked_timeout

SUBMIT: Final = msgspec.json.Decoder(Submit)
ATTACH: Final = msgspec.json.Decoder(Attach)


def entry_of(order: Attach, operation_id: str, state: State, by: Guard) -> SubmitOperation:
    """Check a decoded body, and return its entry; its ``since`` is looked up in the state, which has caught up.

    Raises:
        Problem: ``invalid``, ``bad-key`` or ``too-many-keys``; ``forbidden`` for a key or a queue that the token may
            not use.
    """
    keys, grant = _keys_of(order, operation_id), by.grant
    entry = SubmitOperation(
        id=operation_id,
        keys=keys,
        need=order.need,
        timeout_us=_timeout_us(order.timeout),
        data=kept(order.data),
        owner=grant.owner,
        quota=grant.quota,
    )
    used = keys
    # In one look, as most have none of these.
    if order.deadline is not None or not (
        order.since is order.keep is order.ask is order.announce is order.deliver is UNSET
    ):
        used += _promise(entry, order, state, by)
    by.use(*used)
    return entry


def _promise(entry: SubmitOperation, order: Attach, state: State, by: Guard) -> tuple[str, ...]:
    """Let an entry have what a body has besides the usual; return the queues that it uses."""
    entry.timeout_us, entry.until_us = deadline_of(order.timeout, order.deadline, state.now_us)
    if not isinstance(order.ask, UnsetType):
        check_ask(order.ask)
    entry.ask = order.ask
    entry.keep_us = _keep_us(order.keep)
    entry.announce = _queue("/announce", order.announce)
    entry.deliver = _queue("/deliver", order.deliver)
    if not isinstance(order.since, UnsetType):
        _begin_at(entry, order.since, state)
    queues = tuple(queue for queue in (entry.announce, entry.deliver) if not isinstance(queue, UnsetType))
    if queues:
        by.need(Permission.SIGNAL)
    return queues


def deadline_of(
    timeout: float | str | UnsetType | None, deadline: str | UnsetType | None, now_us: Callable[[], int]
) -> tuple[int | None, int | UnsetType]:
    """Return a timeout in microseconds, None for none, and a deadline as a log time; one of the two at most.

    Raises:
        Problem: ``invalid``.
    """
    if isinstance(timeout, UnsetType):
        timeout = None
    if not isinstance(deadline, str):
        return _timeout_us(timeout), UNSET
    if timeout is not None:
        raise problems.invalid(
            "/deadline", f"must be left out beside the timeout {timeout!r}, got {deadline!r}"
        )
    try:
        return None, due_us(deadline, now_us())
    except ValueError as error:
        raise problems.invalid("/deadline", str(error)) from None


def _timeout_us(timeout: float | str | None) -> int | None:
    try:
        seconds = checked_timeout(timeout)
    except ValueError as error:
        raise problems.invalid("/timeout", str(error)) from None
    return None if seconds is None else microseconds(seconds)


def _keys_of(order: Attach, operation_id: str) -> tuple[str, ...]:
    if isinstance(order.keys, UnsetType):
        return (checked_key(operation_id),)
    if not order.keys:
        raise problems.invalid("/keys", f"must name at least one key, got {order.keys!r}")
    if len(order.keys) > MAX_LISTED:  # repeated ones included
        raise problems.invalid("/keys", f"Expected `array` of length <= {MAX_LISTED}")
    return distinct_keys(order.keys)


def _keep_us(keep: float | str | UnsetType) -> int | UnsetType:
    if isinstance(keep, UnsetType):
        return UNSET
    try:
        seconds = checked_timeout(keep, "a keep")
    except ValueError as error:
        raise problems.invalid("/keep", str(error)) from None
    if seconds is None or seconds > MAX_KEEP:
        raise problems.invalid("/keep", f"a keep must be at most {MAX_KEEP} seconds (366 days), got {keep!r}")
    return microseconds(seconds)


def _queue(pointer: str, name: Text) -> Text:
    if isinstance(name, UnsetType):
        return UNSET
    try:
        return checked_key(name)
    except problems.Problem as problem:
        raise problems.invalid(pointer, problem.document.detail) from None


def _begin_at(entry: SubmitOperation, since: int | str, state: State) -> None:
    """Let signals after a place count; one of another history is a gap."""
    place = parse_since(str(since))
    if place is None:
        raise problems.invalid("/since", f"must be {SINCE_GRAMMAR}, got {problems.shown(since)}")
    if place.index is None:
        return
    if place.history is None or continues(state, place.history, place.index):
        entry.since = place.index
    else:
        entry.gap = True
