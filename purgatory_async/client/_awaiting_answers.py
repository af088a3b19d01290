"""The async verbs for those who answer operations."""

from collections.abc import Iterable
from typing import Protocol

from purgatory_async.client._backend import backend_of
from purgatory_async.client._model import Link, Operation
from purgatory_async.client.values import UNSET
from purgatory_async.durations import Duration


class AnswerCalls(Protocol):
    """Methods of `AsyncVerbs` to answer operations; the service asks for the scope ``answer``."""

    async def complete(
        self, operation_id: str, result: object = UNSET, *, by: str | None = None
    ) -> Operation:
        """Complete an operation, once for any number of retries. See `Client.complete`."""
        return await backend_of(self).complete(operation_id, result, by)

    async def fail(self, operation_id: str, error: object, *, by: str | None = None) -> Operation:
        """Let an operation fail. See `Client.fail`."""
        return await backend_of(self).fail(operation_id, error, by)

    async def answer(
        self, operation_id: str, choice: str, *, comment: str | None = None, by: str | None = None
    ) -> Operation:
        """Give a person's answer to the question of an operation. See `Client.answer`."""
        return await backend_of(self).answer(operation_id, choice, comment, by)

    async def links(
        self,
        operation_id: str,
        *,
        by: str | None = None,
        choices: Iterable[str] | None = None,
        expires_in: Duration | None = None,
    ) -> Link:
        """Make a link by which a person answers the question of an operation. See `Client.links`."""
        return await backend_of(self).links(operation_id, by, choices, expires_in)
