"""The verbs of keys and of the whole service, each as a conversation (see `_talk`), and what all verbs share."""

from collections.abc import Callable, Iterable, Mapping
from math import ceil
from typing import Any, Final, TypeVar

from purgatory_async.client import _documents as documents
from purgatory_async.client._bodies import longest_wait, signalled
from purgatory_async.client._model import KeyState
from purgatory_async.client._talk import Policy, Request, Response, Talk, exchange, path, understood
from purgatory_async.client.values import new_id
from purgatory_async.durations import Duration

_NOT_MODIFIED: Final = 304
_PAGE: Final = (("limit", "1000"),)

T = TypeVar("T")


class Verbs:
    """Verbs under one policy."""

    def __init__(self, policy: Policy) -> None:
        self.policy: Final = policy

    def signal(self, key: str, value: object, amount: int | None, voter: str | None) -> Talk[int]:
        """Signal a key."""
        body = signalled(value, amount, voter)
        return self._read(Request("POST", path("keys", key, "signal"), body=body), documents.completed)

    def signal_batch(self, signals: Iterable[Mapping[str, Any]]) -> Talk[int]:
        """Signal keys in one step, once, for any number of retries."""
        return self._read(
            once(path("signals"), {"signals": [dict(signal) for signal in signals]}), documents.completed
        )

    def read(self, key: str) -> Talk[KeyState]:
        """Read a key's newest signal."""
        return self._read(Request("GET", path("keys", key), twice_is_once=True), documents.key_state)

    def watch(self, key: str, index: int, timeout: Duration | None) -> Talk[KeyState | None]:
        """Poll a key until it has a signal above an index or the timeout expires."""

        def ask(held: float) -> Request:
            """Request a newer one once."""
            query = (("index", str(index)), *wait_for(held))
            return Request("GET", path("keys", key), query=query, held=held, twice_is_once=True)

        answer = yield from self.poll(ask, lambda answer: answer.status == _NOT_MODIFIED, timeout)
        return None if answer.status == _NOT_MODIFIED else understood(answer, documents.key_state)

    def drain(self) -> Talk[None]:
        """Make the service refuse new waits."""
        yield from exchange(Request("POST", path("admin", "drain"), twice_is_once=True), self.policy)

    def stats(self) -> Talk[Mapping[str, Any]]:
        """Read the service's figures."""
        return self._read(Request("GET", path("admin", "stats"), twice_is_once=True), _figures)

    def _page(
        self,
        where: str,
        query: tuple[tuple[str, str], ...],
        cursor: str | None,
        member: str,
        read: Callable[[Mapping[str, Any]], T],
    ) -> Talk[tuple[list[T], str | None]]:
        """List one page."""
        query += _PAGE if cursor is None else (*_PAGE, ("cursor", cursor))
        return self._read(
            Request("GET", where, query=query, twice_is_once=True),
            lambda document: (list(map(read, document[member])), document.get("next")),
        )

    def _read(self, request: Request, read: Callable[[Any], T]) -> Talk[T]:
        """Send a request, and read the document that answers it."""
        return understood((yield from exchange(request, self.policy)), read)

    def poll(
        self, ask: Callable[[float], Request], empty: Callable[[Response], bool], timeout: Duration | None
    ) -> Talk[Response]:
        """Send held requests until an answer is not empty or the timeout expires; return the last answer."""
        policy = self.policy
        give_up_at = policy.clock() + longest_wait(timeout)
        longest = policy.poll

        def again(lasted: float) -> Request:
            """Request a hold for the time left, at most half as long as a proxy allowed before."""
            nonlocal longest
            if lasted:
                longest = max(policy.first_delay, min(longest, lasted / 2))
            return ask(min(longest, max(0.0, give_up_at - policy.clock())))

        while True:
            answer = yield from exchange(again, policy)
            if not empty(answer) or policy.clock() >= give_up_at:
                return answer
            # A restarted service, not a proxy, may have cut it.
            longest = min(policy.poll, longest * 2)


def once(where: str, body: Mapping[str, Any], key: str | None = None) -> Request:
    """Return a request to POST what happens once, however often it is sent; with a key that is not given, a new one."""
    return Request("POST", where, body=body, headers={"Idempotency-Key": key or new_id()}, twice_is_once=True)


def wait_for(seconds: float) -> tuple[tuple[str, str], ...]:
    """Return the query of a held request."""
    # Rounded up: a wait below a millisecond would else be 0, and repeat without a pause.
    return (("wait", f"{ceil(seconds * 1000)}ms"),)


def _figures(document: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(document, dict):
        raise TypeError(f"the figures must be an object, got {type(document).__name__}")
    return document
