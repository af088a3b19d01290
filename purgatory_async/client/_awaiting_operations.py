"""The methods of the async client for operations: to submit, attach, answer, move, forget and list them."""

import datetime as dt
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from purgatory_async.client._awaiting_queues import QueueCalls
from purgatory_async.client._model import Link, Operation
from purgatory_async.client.values import UNSET
from purgatory_async.durations import Duration


class OperationCalls(QueueCalls):
    """Base of `AsyncClient`."""

    async def submit(
        self,
        keys: Iterable[str] | None = None,
        *,
        need: object = "any",
        timeout: Duration | None = None,
        operation_id: str | None = None,
        data: object = UNSET,
        deadline: dt.datetime | None = None,
        since: str | int | None = None,
        keep: Duration | None = None,
        ask: Mapping[str, Any] | None = None,
        announce: str | None = None,
        deliver: str | None = None,
    ) -> Operation:
        """Submit an operation exactly once, for any number of retries. See `Client.submit`."""
        talk = self._verbs.submit(
            keys,
            operation_id=operation_id,
            need=need,
            timeout=timeout,
            deadline=deadline,
            since=since,
            keep=keep,
            ask=ask,
            announce=announce,
            deliver=deliver,
            data=data,
        )
        return await self._run(talk)

    async def attach(
        self,
        operation_id: str,
        keys: Iterable[str] | None = None,
        *,
        need: object = "any",
        timeout: Duration | None = None,
        data: object = UNSET,
        deadline: dt.datetime | None = None,
        since: str | int | None = None,
        keep: Duration | None = None,
        ask: Mapping[str, Any] | None = None,
        announce: str | None = None,
        deliver: str | None = None,
    ) -> Operation:
        """Submit an operation, or attach to the equal one that has its id. See `Client.attach`."""
        talk = self._verbs.attach(
            operation_id,
            keys,
            need=need,
            timeout=timeout,
            deadline=deadline,
            since=since,
            keep=keep,
            ask=ask,
            announce=announce,
            deliver=deliver,
            data=data,
        )
        return await self._run(talk)

    async def complete(
        self, operation_id: str, result: object = UNSET, *, by: str | None = None
    ) -> Operation:
        """Complete an operation, once for any number of retries. See `Client.complete`."""
        return await self._run(self._verbs.complete(operation_id, result, by))

    async def fail(self, operation_id: str, error: object, *, by: str | None = None) -> Operation:
        """Let an operation fail. See `Client.fail`."""
        return await self._run(self._verbs.fail(operation_id, error, by))

    async def answer(
        self, operation_id: str, choice: str, *, comment: str | None = None, by: str | None = None
    ) -> Operation:
        """Give a person's answer to the question of an operation. See `Client.answer`."""
        return await self._run(self._verbs.answer(operation_id, choice, comment, by))

    async def cancel(self, operation_id: str) -> Operation:
        """Cancel an operation; an ended one does not change. See `Client.cancel`."""
        return await self._run(self._verbs.cancel(operation_id))

    async def reschedule(
        self, operation_id: str, *, timeout: Duration | None = None, deadline: dt.datetime | None = None
    ) -> Operation:
        """Let a pending operation expire at another time. See `Client.reschedule`."""
        return await self._run(self._verbs.reschedule(operation_id, timeout, deadline))

    async def forget(self, operation_id: str) -> None:
        """Forget an operation that has ended. See `Client.forget`."""
        await self._run(self._verbs.forget(operation_id))

    async def links(
        self,
        operation_id: str,
        *,
        by: str | None = None,
        choices: Iterable[str] | None = None,
        expires_in: Duration | None = None,
    ) -> Link:
        """Make a link by which a person answers the question of an operation. See `Client.links`."""
        return await self._run(self._verbs.links(operation_id, by, choices, expires_in))

    async def operations(
        self, key: str | None = None, *, state: str = "pending", id_prefix: str = ""
    ) -> AsyncIterator[Operation]:
        """List operations in the order of submission, page by page. See `Client.operations`."""
        cursor = None
        while True:
            page, cursor = await self._run(self._verbs.page(key, cursor, state=state, id_prefix=id_prefix))
            for operation in page:
                yield operation
            if cursor is None:
                return
