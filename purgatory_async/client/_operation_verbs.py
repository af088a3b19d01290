"""The verbs of operations for their makers, each as a conversation (see `_talk`)."""

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf
from typing import Any

from purgatory_async.client._model import Operation
from purgatory_async.client._talk import Request, Response, Talk, exchange, path, understood
from purgatory_async.client._verbs import Verbs, given, listed, once, wait_for
from purgatory_async.client.values import UNSET
from purgatory_async.deadlines import deadline_text
from purgatory_async.durations import Duration, in_body


class OperationVerbs(Verbs):
    """Verbs under one policy; each ``body`` is one of `asked`."""

    def submit(self, body: Mapping[str, Any], operation_id: str | None = None) -> Talk[Operation]:
        """Submit an operation once, for any number of retries."""
        return self._read(once(path("operations"), {**body, **given(id=operation_id)}), Operation.of)

    def attach(self, operation_id: str, body: Mapping[str, Any]) -> Talk[Operation]:
        """Submit an operation, or attach to the equal one."""
        answer = yield from exchange(_attaching(operation_id, body), self.policy)
        attached = answer.headers.get("x-purgatory-attached") == "true"
        return replace(understood(answer, Operation.of), attached=attached)

    def ask(self, operation_id: str, body: Mapping[str, Any]) -> Talk[Operation]:
        """Attach until the operation has ended; once it stands, no outage is too long for the wait."""
        first = yield from self.attach(operation_id, body)
        if not first.pending:
            return first
        patient = OperationVerbs(replace(self.policy, patience=inf))
        # Not read: a service that restarts without a store has lost the question, and is asked again so.
        answer = yield from patient.poll(lambda held: _attaching(operation_id, body, held), _is_pending, None)
        return replace(understood(answer, Operation.of), attached=first.attached)

    def status(self, operation_id: str, *, full: bool = False) -> Talk[Operation]:
        """Show an operation."""
        query = (("full", "1"),) if full else ()
        request = Request("GET", path("operations", operation_id), query=query, twice_is_once=True)
        return self._read(request, Operation.of)

    def follow(self, operation_id: str, timeout: Duration | None) -> Talk[Operation]:
        """Poll an operation until it ends or the timeout expires."""

        def ask(held: float) -> Request:
            """Request it once."""
            return Request(
                "GET", path("operations", operation_id), query=wait_for(held), held=held, twice_is_once=True
            )

        answer = yield from self.poll(ask, _is_pending, timeout)
        return understood(answer, Operation.of)

    def cancel(self, operation_id: str) -> Talk[Operation]:
        """Cancel an operation."""
        return self._read(
            Request("DELETE", path("operations", operation_id), twice_is_once=True), Operation.of
        )

    def give_up(self, operation_id: str) -> Talk[Operation]:
        """Cancel an operation without a waiter; tried once, because the caller waits for it."""
        return OperationVerbs(replace(self.policy, patience=0.0)).cancel(operation_id)

    def reschedule(
        self, operation_id: str, timeout: Duration | None, deadline: dt.datetime | None
    ) -> Talk[Operation]:
        """Move a deadline."""
        return self._read(
            once(path("operations", operation_id, "reschedule"), due(timeout, deadline)), Operation.of
        )

    def forget(self, operation_id: str) -> Talk[None]:
        """Forget an operation that has ended."""
        request = Request("POST", path("operations", operation_id, "forget"), body={}, twice_is_once=True)
        yield from exchange(request, self.policy)

    def page(
        self, key: str | None, cursor: str | None, *, state: str = "pending", id_prefix: str = ""
    ) -> Talk[tuple[list[Operation], str | None]]:
        """List one page of operations."""
        query: tuple[tuple[str, str], ...] = () if key is None else (("key", key),)
        # Left out as long as it can be: an older service does not know them.
        query += (("state", state),) if state != "pending" else ()
        query += (("id_prefix", id_prefix),) if id_prefix else ()
        return self._page(path("operations"), query, cursor, "operations", Operation.of)


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


def _attaching(operation_id: str, body: Mapping[str, Any], held: float = 0.0) -> Request:
    query = wait_for(held) if held else ()
    return Request(
        "PUT", path("operations", operation_id), query=query, body=body, held=held, twice_is_once=True
    )


def _is_pending(answer: Response) -> bool:
    return understood(answer, Operation.of).pending
