"""The verbs of operations that are promises, each as a conversation (see `_talk`)."""

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from purgatory_async.client._model import Link, Operation
from purgatory_async.client._talk import Request, Talk, exchange, path, understood
from purgatory_async.client._verbs import Verbs, asked, due, listed, once
from purgatory_async.client.values import UNSET
from purgatory_async.durations import Duration, in_body


class AnswerVerbs(Verbs):
    """The verbs under one policy."""

    def attach(self, operation_id: str, keys: Iterable[str] | None, **terms: Any) -> Talk[Operation]:
        """Submit an operation, or attach to the equal one; ``terms`` are those of `asked`."""
        body = asked(keys, **terms)
        request = Request("PUT", path("operations", operation_id), body=body, twice_is_once=True)
        answer = yield from exchange(request, self.policy)
        attached = answer.headers.get("x-purgatory-attached") == "true"
        return replace(understood(answer, Operation.of), attached=attached)

    def complete(self, operation_id: str, result: object = UNSET, by: str | None = None) -> Talk[Operation]:
        """Complete an operation."""
        return self._change(operation_id, "complete", {} if result is UNSET else {"result": result}, by)

    def fail(self, operation_id: str, error: object, by: str | None) -> Talk[Operation]:
        """Let an operation fail."""
        return self._change(operation_id, "fail", {"error": error}, by)

    def answer(self, operation_id: str, choice: str, comment: str | None, by: str | None) -> Talk[Operation]:
        """Give a person's answer."""
        body = {"choice": choice} if comment is None else {"choice": choice, "comment": comment}
        return self._change(operation_id, "answer", body, by)

    def reschedule(
        self, operation_id: str, timeout: Duration | None, deadline: dt.datetime | None
    ) -> Talk[Operation]:
        """Move a deadline."""
        return self._change(operation_id, "reschedule", due(timeout, deadline), None)

    def forget(self, operation_id: str) -> Talk[None]:
        """Forget an operation that has ended."""
        request = Request("POST", path("operations", operation_id, "forget"), body={}, twice_is_once=True)
        yield from exchange(request, self.policy)

    def links(
        self, operation_id: str, by: str | None, choices: Iterable[str] | None, expires_in: Duration | None
    ) -> Talk[Link]:
        """Make a link; the service keeps nothing of it, so another try makes no second one."""
        members: dict[str, Any] = {
            "by": by,
            "choices": None if choices is None else listed("choices", choices),
            "expires_in": in_body(expires_in),
        }
        body = {name: value for name, value in members.items() if value is not None}
        return self._read(
            Request("POST", path("operations", operation_id, "links"), body=body, twice_is_once=True), _link
        )

    def _change(
        self, operation_id: str, verb: str, body: Mapping[str, Any], by: str | None
    ) -> Talk[Operation]:
        """Change an operation once, for any number of retries."""
        given = body if by is None else {**body, "by": by}
        return self._read(once(path("operations", operation_id, verb), given), Operation.of)


def _link(document: Mapping[str, Any]) -> Link:
    return Link(document["url"], document["expires_at"])
