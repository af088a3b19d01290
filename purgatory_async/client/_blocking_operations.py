"""The methods of the blocking client for those who make operations and wait for them."""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from purgatory_async.client._bodies import asked, question
from purgatory_async.client._calls import Calls
from purgatory_async.client._model import Operation, ServiceError
from purgatory_async.client.values import UNSET, new_id
from purgatory_async.durations import Duration
from purgatory_async.errors import refuse_number


class OperationCalls(Calls):
    """Methods of `Client` to make operations, to wait for them, and to move and list them."""

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
        body = asked(keys, need, timeout, data, deadline, since, keep, ask, announce, deliver)
        return self._run(self._verbs.submit(body, operation_id))

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

        Its arguments are those of `submit`; all but ``since`` must be equal. Call it again after each restart: the
        timeout counts from the first call.

        Returns:
            The operation, whatever its state; ``attached`` says whether it was there already.

        Raises:
            RequestRefused: The service refused the request: 409 ``duplicate-id`` if it differs, or is another owner's;
                410 ``forgotten`` if it was forgotten.
            ServiceUnreachable, TypeError, ValueError: As `submit`.
        """
        body = asked(keys, need, timeout, data, deadline, since, keep, ask, announce, deliver)
        return self._run(self._verbs.attach(operation_id, body))

    def ask(
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
        """Ask a person, and wait until the question has ended, whatever the end.

        The question is an operation: ask it again after a restart, and it is attached to, with its answer if one came.
        Once it stands, the wait outlasts every outage of the service. Leaving the wait leaves the question.

        Args:
            operation_id: Its id.
            title: What a person is asked, in 1 to 200 characters of plain text.
            text: More about it; up to 8 192 characters.
            choices: The answers to choose from, up to 8.
            comment: Whether an answer has a comment: ``none``, ``optional`` or ``required``.
            keys: As for `submit`.
            timeout: Time until it expires, from when it was first asked; None for no deadline.
            deadline: As for `submit`.
            keep: How long the answer is kept for those that ask again.
            data: Any JSON but null, shown with it.
            announce: As for `submit`.
            deliver: As for `submit`.

        Returns:
            The ended operation: ``state`` says how it ended; ``choice``, ``comment`` and ``by`` what a person answered.

        Raises:
            RequestRefused: As `attach`.
            ServiceUnreachable: No answer came, and the question may not stand.
            TypeError, ValueError: As `submit`, or ``choices`` is a string.
        """
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
        return self._run(self._verbs.ask(operation_id, body))

    def status(self, operation_id: str, *, full: bool = False) -> Operation:
        """Read an operation; raises as `submit`.

        Args:
            operation_id: The operation's id.
            full: Whether to read all signals that it shows, also those that an answer of a megabyte has no room for.
        """
        return self._run(self._verbs.status(operation_id, full=full))

    def follow(self, operation_id: str, *, timeout: Duration | None = None) -> Operation:
        """Wait until an operation ends.

        Args:
            operation_id: The operation's id.
            timeout: The longest wait; None for no limit. It does not end the operation. Without an answer the wait
                lasts up to the policy's ``slack`` and ``patience`` longer, because the state is unknown.

        Returns:
            The operation; still pending if the timeout expired.

        Raises:
            RequestRefused, ServiceUnreachable: As `submit`.
        """
        return self._run(self._verbs.follow(operation_id, timeout))

    def wait(
        self, *keys: str, need: object = "any", timeout: Duration | None = None, data: object = UNSET
    ) -> Operation:
        """Submit an operation and wait until it ends; an exception on the way cancels it.

        Args:
            *keys: The keys it watches.
            need: As for `submit`.
            timeout: Time until it expires; None for no deadline.
            data: As for `submit`.

        Returns:
            The ended operation; ``state`` says how it ended.

        Raises:
            RequestRefused, ServiceUnreachable: As `submit`.
            TypeError: A number stands behind the keys, and there is no ``timeout``.
        """
        if timeout is None and len(keys) > 1:
            refuse_number(keys)
        # Named here, so that it can be cancelled if its submission gets no answer.
        operation_id = new_id()
        try:
            operation = self.submit(keys, need=need, timeout=timeout, operation_id=operation_id, data=data)
            return self.follow(operation_id) if operation.pending else operation
        except BaseException:
            with suppress(ServiceError):
                self._run(self._verbs.give_up(operation_id))
            raise

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

    def operations(
        self, key: str | None = None, *, state: str = "pending", id_prefix: str = ""
    ) -> Iterator[Operation]:
        """List operations in the order of submission, page by page.

        Args:
            key: Only operations that watch it; None for all.
            state: ``pending``, ``ended``, ``all``, or one of the states in which they end.
            id_prefix: Only operations whose ids begin so.

        Returns:
            An iterator of operations, each as of the reading of its page.

        Raises:
            RequestRefused, ServiceUnreachable: As `submit`.
        """
        return self._pages(lambda cursor: self._verbs.page(key, cursor, state=state, id_prefix=id_prefix))
