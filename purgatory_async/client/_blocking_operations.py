"""The methods of the blocking client for operations: to submit, attach, answer, move, forget and list them."""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from purgatory_async.client._blocking_queues import QueueCalls
from purgatory_async.client._model import Link, Operation
from purgatory_async.client.values import UNSET
from purgatory_async.durations import Duration


class OperationCalls(QueueCalls):
    """Base of `Client`."""

    def submit(
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
        """Submit an operation exactly once, for any number of retries.

        Args:
            keys: The keys it watches; None for its id.
            need: ``"any"``, ``"all"``, ``{"amount": n}`` or ``{"voters": n}``.
            timeout: Time until it expires; None for no deadline.
            operation_id: Its id; the service makes one if not given.
            data: Any JSON, shown with it.
            deadline: An aware time at which it expires, in place of ``timeout``.
            since: The place after which kept signals on its keys count: 0, an index, or the ``place`` of a signal.
            keep: How long it is kept after its end, whatever the room; None for the service's retention time.
            ask: A question for a person: ``title``, and ``text``, ``choices`` and ``comment``.
            announce: The queue that gets an item with the submission.
            deliver: The queue that gets an item with the end.

        Raises:
            RequestRefused: The service refused the request.
            ServiceUnreachable: No answer came.
            TypeError, ValueError: ``keys`` is a string, or ``deadline`` is not aware.
        """
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
        return self._run(talk)

    def attach(
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
        """Submit an operation, or attach to the equal one that has its id: the service never makes two.

        Call it again after each restart: the timeout counts from the first call.

        Args:
            operation_id: Its id.
            keys: As for `submit`.
            need: As for `submit`.
            timeout: As for `submit`.
            data: As for `submit`.
            deadline: As for `submit`.
            since: As for `submit`; it does not count for what is equal.
            keep: As for `submit`.
            ask: As for `submit`.
            announce: As for `submit`.
            deliver: As for `submit`.

        Returns:
            The operation, whatever its state; ``attached`` says whether it was there already.

        Raises:
            RequestRefused: The service refused the request: 409 ``duplicate-id`` if it differs, or is another owner's;
                410 ``forgotten`` if it was forgotten.
            ServiceUnreachable, TypeError, ValueError: As `submit`.
        """
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
        return self._run(talk)

    def complete(self, operation_id: str, result: object = UNSET, *, by: str | None = None) -> Operation:
        """Complete an operation, once for any number of retries; raises as `submit`.

        Args:
            operation_id: The operation's id.
            result: Any JSON.
            by: Who answers, if the token may say so; the token's owner if not given.
        """
        return self._run(self._verbs.complete(operation_id, result, by))

    def fail(self, operation_id: str, error: object, *, by: str | None = None) -> Operation:
        """Let an operation fail, with any JSON but null as the reason; otherwise as `complete`."""
        return self._run(self._verbs.fail(operation_id, error, by))

    def answer(
        self, operation_id: str, choice: str, *, comment: str | None = None, by: str | None = None
    ) -> Operation:
        """Give a person's answer to the question of an operation; otherwise as `complete`.

        Args:
            operation_id: The operation's id.
            choice: One of its choices.
            comment: A comment, if it takes one.
            by: As for `complete`.
        """
        return self._run(self._verbs.answer(operation_id, choice, comment, by))

    def cancel(self, operation_id: str) -> Operation:
        """Cancel an operation; an ended one does not change. Raises as `submit`."""
        return self._run(self._verbs.cancel(operation_id))

    def reschedule(
        self, operation_id: str, *, timeout: Duration | None = None, deadline: dt.datetime | None = None
    ) -> Operation:
        """Let a pending operation expire at another time; without arguments never. Raises as `submit`.

        Args:
            operation_id: The operation's id.
            timeout: Time from now on.
            deadline: An aware time, in place of ``timeout``.
        """
        return self._run(self._verbs.reschedule(operation_id, timeout, deadline))

    def forget(self, operation_id: str) -> None:
        """Forget an operation that has ended: its maker has what it needs. Raises as `submit`."""
        self._run(self._verbs.forget(operation_id))

    def links(
        self,
        operation_id: str,
        *,
        by: str | None = None,
        choices: Iterable[str] | None = None,
        expires_in: Duration | None = None,
    ) -> Link:
        """Make a link by which a person answers the question of an operation, without a token.

        Args:
            operation_id: The operation's id.
            by: Who answers by the link, which anyone who has it can read; None for no name.
            choices: Which of its choices the link offers; None for all.
            expires_in: How long the link is good, from a second on; None for as long as the question is pending.

        Raises:
            RequestRefused: The service refused the request: 409 ``links-off`` if it makes no links, ``already-ended``
                if the operation is not pending; 422 ``invalid`` if it asks no question.
            ServiceUnreachable: No answer came.
            TypeError: ``choices`` is a string.
        """
        return self._run(self._verbs.links(operation_id, by, choices, expires_in))

    def operations(
        self, key: str | None = None, *, state: str = "pending", id_prefix: str = ""
    ) -> Iterator[Operation]:
        """List operations in the order of submission, page by page.

        Args:
            key: Only operations that watch it; None for all.
            state: ``pending``, ``ended``, ``all``, or one of the states in which they end.
            id_prefix: Only operations whose ids begin so.

        Yields:
            Each operation, as of the reading of its page.

        Raises:
            RequestRefused, ServiceUnreachable: As `submit`.
        """
        cursor = None
        while True:
            page, cursor = self._run(self._verbs.page(key, cursor, state=state, id_prefix=id_prefix))
            yield from page
            if cursor is None:
                return
