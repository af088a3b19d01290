"""What the groups of the blocking client's methods share: they carry out conversations, whole or page by page."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from purgatory_async.client._answer_verbs import AnswerVerbs
from purgatory_async.client._operation_verbs import OperationVerbs
from purgatory_async.client._queue_verbs import QueueVerbs
from purgatory_async.client._sessions import Session
from purgatory_async.client._signal_verbs import SignalVerbs
from purgatory_async.client._talk import Talk

T = TypeVar("T")


class ServiceVerbs(OperationVerbs, AnswerVerbs, SignalVerbs, QueueVerbs):
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
