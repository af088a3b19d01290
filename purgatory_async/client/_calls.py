"""What the groups of a client's methods share: they carry out conversations, whole or page by page."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

from purgatory_async.client._answer_verbs import AnswerVerbs
from purgatory_async.client._operation_verbs import OperationVerbs
from purgatory_async.client._queue_verbs import QueueVerbs
from purgatory_async.client._sessions import AsyncSession, Session
from purgatory_async.client._talk import Talk

T = TypeVar("T")


class ServiceVerbs(OperationVerbs, AnswerVerbs, QueueVerbs):
    """All verbs under one policy."""


class Calls:
    """Base of each group of methods of `Client`."""

    _verbs: ServiceVerbs
    _session: Session

    def _pages(self, ask: Callable[[str | None], Talk[tuple[list[T], str | None]]]) -> Iterator[T]:
        """Iterate over the elements of all pages."""
        cursor = None
        while True:
            page, cursor = self._run(ask(cursor))
            yield from page
            if cursor is None:
                return

    def _run(self, talk: Talk[T]) -> T:
        """Carry out a conversation."""
        return self._session.run(talk)


class AsyncCalls:
    """Base of each group of methods of `AsyncClient`."""

    _verbs: ServiceVerbs
    _session: AsyncSession

    async def _pages(self, ask: Callable[[str | None], Talk[tuple[list[T], str | None]]]) -> AsyncIterator[T]:
        """Iterate over the elements of all pages."""
        cursor = None
        while True:
            page, cursor = await self._run(ask(cursor))
            for each in page:
                yield each
            if cursor is None:
                return

    async def _run(self, talk: Talk[T]) -> T:
        """Carry out a conversation."""
        return await self._session.run(talk)
