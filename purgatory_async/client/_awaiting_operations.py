"""The async verbs for those who make operations and wait for them."""

import datetime as dt
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Protocol

from purgatory_async.client._backend import backend_of, pages
from purgatory_async.client._bodies import asked, question
from purgatory_async.client._model import Operation
from purgatory_async.client.values import UNSET, new_id
from purgatory_async.durations import Duration
from purgatory_async.errors import refuse_number


class OperationCalls(Protocol):
    """Methods of `AsyncVerbs` to make operations, to wait for them, and to move and list them."""

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
        body = asked(keys, need, timeout, data, deadline, since, keep, ask, announce, deliver)
        return await backend_of(self).submit(body, operation_id)

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
        body = asked(keys, need, timeout, data, deadline, since, keep, ask, announce, deliver)
        return await backend_of(self).attach(operation_id, body)

    async def ask(
        self,
        operation_id: str,
        title: str,
        *,
        text: str | None = None,
        choices: Iterable[str] = ("ok",),
        comment: str = "none",
        keys: Iterable[str] | None = None,
        timeout: Duration | None = None,
        deadline: dt.datetime | None = None,
        keep: Duration | None = "7d",
        data: object = None,
        announce: str | None = None,
        deliver: str | None = None,
    ) -> Operation:
        """Ask a person, and wait until the question has ended, whatever the end. See `Client.ask`."""
        body = asked(
            keys,
            timeout=timeout,
            data=UNSET if data is None else data,
            deadline=deadline,
            keep=keep,
            ask=question(title, text, choices, comment),
            announce=announce,
            deliver=deliver,
        )
        return await backend_of(self).ask(operation_id, body)

    async def status(self, operation_id: str, *, full: bool = False) -> Operation:
        """Read an operation. See `Client.status`."""
        return await backend_of(self).status(operation_id, full=full)

    async def follow(self, operation_id: str, *, timeout: Duration | None = None) -> Operation:
        """Wait until an operation ends. See `Client.follow`."""
        return await backend_of(self).follow(operation_id, timeout)

    async def wait(
        self, *keys: str, need: object = "any", timeout: Duration | None = None, data: object = UNSET
    ) -> Operation:
        """Submit an operation and wait until it ends; an exception on the way cancels it. See `Client.wait`."""
        if timeout is None and len(keys) > 1:
            refuse_number(keys)
        # Named here, so that it can be cancelled if its submission gets no answer.
        operation_id = new_id()
        try:
            operation = await self.submit(
                keys, need=need, timeout=timeout, operation_id=operation_id, data=data
            )
            return await self.follow(operation_id) if operation.pending else operation
        except BaseException:
            await backend_of(self).give_up(operation_id)
            raise

    async def cancel(self, operation_id: str) -> Operation:
        """Cancel an operation; an ended one does not change. See `Client.cancel`."""
        return await backend_of(self).cancel(operation_id)

    async def reschedule(
        self, operation_id: str, *, timeout: Duration | None = None, deadline: dt.datetime | None = None
    ) -> Operation:
        """Let a pending operation expire at another time. See `Client.reschedule`."""
        return await backend_of(self).reschedule(operation_id, timeout, deadline)

    async def forget(self, operation_id: str) -> None:
        """Forget an operation that has ended. See `Client.forget`."""
        await backend_of(self).forget(operation_id)

    def operations(
        self, key: str | None = None, *, state: str = "pending", id_prefix: str = ""
    ) -> AsyncIterator[Operation]:
        """List operations in the order of submission, page by page. See `Client.operations`."""
        return pages(lambda cursor: backend_of(self).page(key, cursor, state=state, id_prefix=id_prefix))
