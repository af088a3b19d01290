"""What can be asked of the service: each verb as a conversation (see `_talk`)."""

import secrets
from collections.abc import Iterable, Mapping
from math import inf
from typing import Any, Final

from purgatory_async.client._model import KeyState, Lease, Operation
from purgatory_async.client._talk import Policy, Request, Talk, exchange, path

__all__ = ["UNSET", "Verbs"]

UNSET: Final[Any] = object()
_NO_CONTENT: Final = 204
_NOT_MODIFIED: Final = 304
_PAGE: Final = 1000


class Verbs:
    """The verbs, for one policy.

    Args:
        policy: How to wait and to try again.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy: Final = policy

    def submit(
        self,
        keys: Iterable[str],
        *,
        need: object = "any",
        timeout: float | None = None,
        operation_id: str | None = None,
        data: object = UNSET,
    ) -> Talk[Operation]:
        """Submit an operation, once however often it is sent."""
        if isinstance(keys, str):
            raise TypeError(f"keys must be an iterable of keys, got {keys!r}; did you mean [{keys!r}]?")
        body: dict[str, Any] = {"keys": list(keys), "need": need, "timeout": timeout}
        if operation_id is not None:
            body["id"] = operation_id
        if data is not UNSET:
            body["data"] = data
        request = Request(
            "POST",
            path("operations"),
            body=body,
            headers={"Idempotency-Key": secrets.token_urlsafe(16)},
            twice_is_once=True,
        )
        return Operation.of((yield from exchange(request, self.policy)).document)

    def status(self, operation_id: str) -> Talk[Operation]:
        """Show an operation."""
        request = Request("GET", path("operations", operation_id), twice_is_once=True)
        return Operation.of((yield from exchange(request, self.policy)).document)

    def follow(self, operation_id: str, timeout: float | None) -> Talk[Operation]:
        """Poll an operation until it has ended, or the time is up."""
        give_up_at = inf if timeout is None else self.policy.clock() + timeout
        while True:
            held = self._held(give_up_at)
            request = Request(
                "GET",
                path("operations", operation_id),
                query=_wait(held),
                held=held,
                twice_is_once=True,
            )
            operation = Operation.of((yield from exchange(request, self.policy)).document)
            if not operation.pending or self.policy.clock() >= give_up_at:
                return operation

    def complete(self, operation_id: str, result: object = UNSET) -> Talk[Operation]:
        """Force an operation to its end."""
        body = {} if result is UNSET else {"result": result}
        request = Request("POST", path("operations", operation_id, "complete"), body=body)
        return Operation.of((yield from exchange(request, self.policy)).document)

    def cancel(self, operation_id: str) -> Talk[Operation]:
        """Cancel an operation."""
        request = Request("DELETE", path("operations", operation_id), twice_is_once=True)
        return Operation.of((yield from exchange(request, self.policy)).document)

    def page(
        self, key: str | None, cursor: str | None, limit: int = _PAGE
    ) -> Talk[tuple[list[Operation], str | None]]:
        """List pending operations, one page."""
        query = [("limit", str(limit))]
        query += [("key", key)] if key is not None else []
        query += [("cursor", cursor)] if cursor is not None else []
        request = Request("GET", path("operations"), query=tuple(query), twice_is_once=True)
        document = (yield from exchange(request, self.policy)).document
        return [Operation.of(each) for each in document["operations"]], document.get("next")

    def signal(self, key: str, value: object, amount: int | None, voter: str | None) -> Talk[int]:
        """Signal a key."""
        body: dict[str, Any] = {} if value is UNSET else {"value": value}
        body |= {} if amount is None else {"amount": amount}
        body |= {} if voter is None else {"voter": voter}
        answer = yield from exchange(Request("POST", path("keys", key, "signal"), body=body), self.policy)
        return int(answer.document["completed"])

    def read(self, key: str) -> Talk[KeyState]:
        """Read a key's newest signal."""
        request = Request("GET", path("keys", key), twice_is_once=True)
        return _key_state((yield from exchange(request, self.policy)).document)

    def watch(self, key: str, index: int, timeout: float | None) -> Talk[KeyState | None]:
        """Poll a key until it has a signal above an index, or the time is up."""
        give_up_at = inf if timeout is None else self.policy.clock() + timeout
        while True:
            held = self._held(give_up_at)
            query = (("index", str(index)), *_wait(held))
            request = Request("GET", path("keys", key), query=query, held=held, twice_is_once=True)
            answer = yield from exchange(request, self.policy)
            if answer.status != _NOT_MODIFIED:
                return _key_state(answer.document)
            if self.policy.clock() >= give_up_at:
                return None

    def put(self, queue: str, item: object) -> Talk[bool]:
        """Put an item."""
        request = Request("POST", path("queues", queue, "items"), body={"item": item})
        return bool((yield from exchange(request, self.policy)).document["delivered"])

    def take(self, queue: str, lease: float | None, timeout: float | None) -> Talk[Lease | None]:
        """Poll a queue until it gives an item, or the time is up."""
        give_up_at = inf if timeout is None else self.policy.clock() + timeout
        body = {} if lease is None else {"lease": lease}
        while True:
            held = self._held(give_up_at)
            # Sent twice it may take two, one of which nobody has: that one comes back when its lease ends.
            request = Request(
                "POST",
                path("queues", queue, "take"),
                query=_wait(held),
                body=body,
                held=held,
                twice_is_once=True,
            )
            answer = yield from exchange(request, self.policy)
            if answer.status != _NO_CONTENT:
                document = answer.document
                return Lease(document["lease"], document["item"], document["expires_in"])
            if self.policy.clock() >= give_up_at:
                return None

    def end_lease(self, lease_id: str, how: str) -> Talk[None]:
        """Acknowledge a lease (``ack``) or give it back (``return``)."""
        yield from exchange(Request("POST", path("leases", lease_id, how)), self.policy)

    def drain(self) -> Talk[None]:
        """Let the service take nothing new."""
        yield from exchange(Request("POST", path("admin", "drain"), twice_is_once=True), self.policy)

    def stats(self) -> Talk[Mapping[str, Any]]:
        """The service's figures."""
        request = Request("GET", path("admin", "stats"), twice_is_once=True)
        document: Mapping[str, Any] = (yield from exchange(request, self.policy)).document
        return document

    def _held(self, give_up_at: float) -> float:
        return min(self.policy.poll, max(0.0, give_up_at - self.policy.clock()))


def _wait(seconds: float) -> tuple[tuple[str, str], ...]:
    return (("wait", f"{round(seconds * 1000)}ms"),)


def _key_state(document: Mapping[str, Any]) -> KeyState:
    return KeyState(document["key"], document["index"], document["value"])
