"""The verbs of operations for those who answer, each as a conversation (see `_talk`)."""

from collections.abc import Iterable, Mapping
from typing import Any

from purgatory_async.client._bodies import given, listed
from purgatory_async.client._model import Link, Operation
from purgatory_async.client._talk import Request, Talk, path
from purgatory_async.client._verbs import Verbs, once
from purgatory_async.client.values import UNSET
from purgatory_async.durations import Duration, in_body


class AnswerVerbs(Verbs):
    """Verbs under one policy."""

    def complete(self, operation_id: str, result: object = UNSET, by: str | None = None) -> Talk[Operation]:
        """Complete an operation."""
        return self._end(operation_id, "complete", {} if result is UNSET else {"result": result}, by)

    def fail(self, operation_id: str, error: object, by: str | None) -> Talk[Operation]:
        """Let an operation fail."""
        return self._end(operation_id, "fail", {"error": error}, by)

    def answer(self, operation_id: str, choice: str, comment: str | None, by: str | None) -> Talk[Operation]:
        """Give a person's answer."""
        return self._end(operation_id, "answer", given(choice=choice, comment=comment), by)

    def links(
        self, operation_id: str, by: str | None, choices: Iterable[str] | None, expires_in: Duration | None
    ) -> Talk[Link]:
        """Make a link; the service keeps nothing of it, so another try makes no second one."""
        offered = None if choices is None else listed("choices", choices)
        body = given(by=by, choices=offered, expires_in=in_body(expires_in))
        where = path("operations", operation_id, "links")
        return self._read(Request("POST", where, body=body, twice_is_once=True), _link)

    def _end(self, operation_id: str, verb: str, body: Mapping[str, Any], by: str | None) -> Talk[Operation]:
        """End an operation once, for any number of retries."""
        return self._read(
            once(path("operations", operation_id, verb), {**body, **given(by=by)}), Operation.of
        )


def _link(document: Mapping[str, Any]) -> Link:
    return Link(document["url"], document["expires_at"])
