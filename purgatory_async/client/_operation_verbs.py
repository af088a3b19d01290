"""The verbs of operations for their makers, each as a conversation (see `_talk`)."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Any

from purgatory_async.client._bodies import due, given
from purgatory_async.client._model import Operation
from purgatory_async.client._talk import Request, Response, Talk, exchange, path, understood
from purgatory_async.client._verbs import Verbs, once, wait_for
from purgatory_async.durations import Duration


class OperationVerbs(Verbs):
    """Verbs under one policy; each ``body`` is one of `_bodies.asked`."""

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


def _attaching(operation_id: str, body: Mapping[str, Any], held: float = 0.0) -> Request:
    query = wait_for(held) if held else ()
    return Request(
        "PUT", path("operations", operation_id), query=query, body=body, held=held, twice_is_once=True
    )


def _is_pending(answer: Response) -> bool:
    return understood(answer, Operation.of).pending
