"""The verbs of operations, carried out in this process."""

import datetime as dt
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from purgatory_async import Outcome, PurgatoryFull
from purgatory_async.client._bodies import due, given, listed, longest_wait
from purgatory_async.client._model import Link, Operation
from purgatory_async.client.values import UNSET as ABSENT
from purgatory_async.cluster import LogError, LogUnavailable
from purgatory_async.cluster.connection import Backoff
from purgatory_async.durable.documents import problems
from purgatory_async.durable.documents.messages import (
    Submit,
)
from purgatory_async.durable.documents.names import checked_id, new_id
from purgatory_async.durable.fold.entries import EndOperation
from purgatory_async.durable.fold.operations import Operation as Known
from purgatory_async.durable.later import at_last
from purgatory_async.durable.library.asking import Asking, Caller, convert, plain, read, verb, written
from purgatory_async.durable.library.waits import LocalWaits
from purgatory_async.durable.links.links import Links
from purgatory_async.durable.verbs.answers import (
    Change,
    EntryOf,
    answering,
    as_present,
    attach,
    cancel,
    change,
    completing,
    failing,
    forget,
    rescheduling,
    view_of,
)
from purgatory_async.durable.verbs.keeper import Keeper
from purgatory_async.durable.verbs.links import link_order, make_link
from purgatory_async.durable.verbs.listing import Listed, list_page
from purgatory_async.durable.verbs.pages import MAX_LIMIT
from purgatory_async.durable.verbs.submissions import ATTACH, SUBMIT, entry_of
from purgatory_async.durable.waiting.waiters import end_of
from purgatory_async.durations import Duration, as_seconds, in_body

_PENDING: Final = frozenset({None, Outcome.CLOSED})
"""Outcomes of an operation that has not ended: it is closed with a state that was given up."""


class Operations(Asking):
    """The verbs of makers and answerers; see `Backend`.

    Args:
        keeper, caller, waits: As of `Asking`.
        links: Make links to questions.
    """

    def __init__(self, keeper: Keeper, caller: Caller, waits: LocalWaits, links: Links) -> None:
        super().__init__(keeper, caller, waits)
        self._links: Final = links

    @verb
    async def submit(self, body: Mapping[str, Any], operation_id: str | None = None) -> Operation:
        """Submit an operation."""
        return self._shown(await self._submitted(read({**body, **given(id=operation_id)}, SUBMIT)))

    @verb
    async def wait(self, body: Mapping[str, Any]) -> Operation:
        """Submit an operation, and return it once it has ended; an exception on the way cancels it."""
        usual = isinstance(body["need"], str) and "data" not in body
        order = convert(body, Submit) if usual else read(body, SUBMIT)
        order.id = new_id()
        try:
            ended = await self._ended(await self._submitted(order), inf)
            if ended.outcome is Outcome.CLOSED:
                ended = self._keeper.find(order.id)  # which says that the state has lost it
            return self._shown(ended)
        except BaseException:
            await self.give_up(order.id)
            raise

    @verb
    async def attach(self, operation_id: str, body: Mapping[str, Any]) -> Operation:
        """Submit an operation, or attach to the equal one that has its id."""
        known, attached = await self._attached(operation_id, body)
        return replace(self._shown(known), attached=attached)

    @verb
    async def ask(self, operation_id: str, body: Mapping[str, Any]) -> Operation:
        """Attach to a question until it has ended; no outage is too long for the wait."""
        backoff, first = Backoff(), None
        while True:
            try:
                known, attached = await self._attached(operation_id, body)
            except LogUnavailable:  # to attach again changes nothing
                await self._keeper.timer.sleep(backoff.next_delay())
                continue
            first = attached if first is None else first
            ended = await self._ended(known, inf)
            if ended.outcome not in _PENDING:
                return replace(self._shown(ended), attached=first)
            # The state has lost the question: it is asked again.

    @verb
    async def status(self, operation_id: str, *, full: bool = False) -> Operation:
        """Show an operation."""
        return self._shown(await self._found(operation_id), full=full)

    @verb
    async def follow(self, operation_id: str, timeout: Duration | None) -> Operation:
        """Wait until an operation ends, or the timeout expires."""
        until = self._keeper.timer.time() + longest_wait(timeout)
        while True:
            await self._waits.patiently(until)
            ended = await self._ended(self._keeper.find(operation_id), until)
            if ended.outcome is not Outcome.CLOSED:
                return self._shown(ended)

    @verb
    async def cancel(self, operation_id: str) -> Operation:
        """Cancel an operation; an ended one does not change."""
        known = await self._found(operation_id)
        await at_last(cancel(self._keeper, known, self._caller))
        return self._shown(known)

    async def give_up(self, operation_id: str) -> None:
        """Cancel an operation without a waiter, unless this process leaves: then the store keeps it.

        Nothing is awaited, so nothing can cut it short.
        """
        if not self._waits.closed:
            with suppress(LogError, PurgatoryFull):
                self._keeper.state.post(EndOperation(id=operation_id, how="cancelled"))

    @verb
    async def reschedule(
        self, operation_id: str, timeout: Duration | None, deadline: dt.datetime | None
    ) -> Operation:
        """Move a deadline."""
        text = written(due(timeout, deadline))
        return await self._change(operation_id, rescheduling(self._keeper, text, self._caller))

    @verb
    async def forget(self, operation_id: str) -> None:
        """Forget an operation that has ended."""
        await self._caught_up()
        await at_last(forget(self._keeper, operation_id, self._caller))

    @verb
    async def page(
        self, key: str | None, cursor: str | None, *, state: str = "pending", id_prefix: str = ""
    ) -> tuple[list[Operation], str | None]:
        """List one page of operations."""
        listed = Listed(key, state, id_prefix)
        listed.check()
        await self._caught_up()
        page = await list_page(self._keeper, self._caller, listed, int(cursor or 0), MAX_LIMIT)
        following = None if isinstance(page.next, UnsetType) else page.next
        return [Operation.of(msgspec.json.decode(each)) for each in page.operations], following

    @verb
    async def complete(self, operation_id: str, result: object, by: str | None) -> Operation:
        """Complete an operation."""
        text = written(({} if result is ABSENT else {"result": result}) | given(by=by))
        entry_for = completing(self._keeper, text, self._caller)

        known = await self._found(operation_id)
        entry = entry_for(known)
        if not isinstance(entry, EndOperation):
            return await self._changed(known, entry)
        if known.outcome is not None or not await at_last(self._keeper.end(entry, self._caller)):
            raise problems.already_ended(view_of(self._keeper, known))
        return self._shown(known)

    @verb
    async def fail(self, operation_id: str, error: object, by: str | None) -> Operation:
        """Let an operation fail."""
        text = written({"error": error} | given(by=by))
        return await self._change(operation_id, failing(text, self._caller))

    @verb
    async def answer(self, operation_id: str, choice: str, comment: str | None, by: str | None) -> Operation:
        """Give a person's answer to the question of an operation."""
        text = written({"choice": choice} | given(comment=comment, by=by))
        return await self._change(operation_id, answering(text, self._caller))

    @verb
    async def links(
        self, operation_id: str, by: str | None, choices: Iterable[str] | None, expires_in: Duration | None
    ) -> Link:
        """Make a link by which a person answers the question of an operation."""
        offered = None if choices is None else listed("choices", choices)
        order = link_order(written(given(by=by, choices=offered, expires_in=in_body(expires_in))))
        known = await self._found(operation_id)
        owner = self._caller.grant.owner
        view = plain(make_link(self._keeper.state, self._links, known, order, owner))
        return Link(view["url"], view["expires_at"])

    @verb
    async def caught_up(self, position: int | None, timeout: Duration | None) -> None:
        """Catch up with a position, or with all that was answered anywhere."""
        if position is None:
            await self._caught_up()
        else:
            seconds = None if timeout is None else as_seconds("timeout", timeout)
            await self._waits.positions.reach(position, seconds)

    # How it is done.

    async def _submitted(self, order: Submit) -> Known:
        known_as = checked_id(order.id) if isinstance(order.id, str) else new_id()
        if order.since is not UNSET:  # only the state tells which history a place is of
            await self._caught_up()
        keeper, caller = self._keeper, self._caller
        entry = entry_of(order, known_as, keeper.state, caller)
        return (await at_last(keeper.submit(entry, caller))).operation

    async def _attached(self, operation_id: str, body: Mapping[str, Any]) -> tuple[Known, bool]:
        """Submit an operation, or attach; return it, and whether it was there."""
        order = read(body, ATTACH)
        checked_id(operation_id)
        await self._caught_up()
        keeper, caller = self._keeper, self._caller
        entry = entry_of(order, operation_id, keeper.state, caller)
        made = await at_last(attach(keeper, entry, caller, None))
        return made.operation, made.attached

    async def _found(self, operation_id: str) -> Known:
        await self._caught_up()
        return self._keeper.find(operation_id)

    async def _change(self, operation_id: str, entry_of: EntryOf) -> Operation:
        known = await self._found(operation_id)
        return await self._changed(known, entry_of(known))

    async def _changed(self, known: Known, entry: Change) -> Operation:
        entry.owner = self._caller.grant.owner
        await at_last(change(self._keeper, known, entry, self._caller))
        return self._shown(known)

    async def _ended(self, known: Known, until: float) -> Known:
        """Return an operation once it has ended, or as it is at a time; it may be another object by then.

        It is closed if the state does not have it any more.
        """
        keeper, timer = self._keeper, self._keeper.timer
        while known.outcome in _PENDING and (left := until - timer.time()) > 0:
            if known.outcome is None:
                await self._until_end(known, None if left == inf else left)
            if known.outcome not in _PENDING:
                break
            # The state may have been loaded again: then it shows too little until it has caught up.
            await self._waits.patiently(until)
            present = as_present(keeper, known)
            if present.position != known.position or present.outcome is Outcome.CLOSED:
                break
            known = present
        return known

    async def _until_end(self, known: Known, wait: float | None) -> None:
        """Return once an operation may have ended, after some seconds, or if the state was loaded again."""
        try:
            await self._waits.keys.until(self._caller, end_of(known), wait)
        except problems.Problem as problem:
            if problem.kind is not problems.Kind.GAP:  # which only a loss of other signals can be
                raise

    def _shown(self, known: Known, *, full: bool = False) -> Operation:
        return Operation.of(plain(view_of(self._keeper, known, full=full)))
