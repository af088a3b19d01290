"""The methods of the blocking client for those who answer operations."""

from collections.abc import Iterable

from purgatory_async.client._calls import Calls
from purgatory_async.client._model import Link, Operation
from purgatory_async.client.values import UNSET
from purgatory_async.durations import Duration


class AnswerCalls(Calls):
    """Methods of `Client` to answer operations; the service asks for the scope ``answer``."""

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
