"""The verbs of queues and leases, each as a conversation (see `_talk`)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from purgatory_async.client import _documents as documents
from purgatory_async.client._bodies import or_unset, timed
from purgatory_async.client._model import Lease, Loan, Queue, QueuedItem, RequestRefused
from purgatory_async.client._talk import Request, Response, Talk, exchange, path, understood
from purgatory_async.client._verbs import Verbs, once, wait_for
from purgatory_async.durations import Duration

T = TypeVar("T")

_NO_CONTENT: Final = 204
_WITHOUT_KEYS: Final = frozenset({"bad-header", "upgrade-pending"})
"""How an older service, or one on an older store, refuses a take with an Idempotency-Key."""


class QueueVerbs(Verbs):
    """Verbs under one policy."""

    takes_have_keys = True

    def put(self, queue: str, item: object, delay: Duration | None = None) -> Talk[bool]:
        """Put an item."""
        request = Request("POST", path("queues", queue, "items"), body=timed(item=item, delay=delay))
        return self._read(request, documents.delivered)

    def put_batch(self, queue: str, items: Iterable[Mapping[str, Any]]) -> Talk[list[bool]]:
        """Put items in one step, once, for any number of retries."""
        request = once(path("queues", queue, "items"), {"items": [timed(**item) for item in items]})
        return self._read(request, lambda document: [documents.delivered(each) for each in document["items"]])

    def take(
        self, queue: str, lease: Duration | None, timeout: Duration | None, key: str | None = None
    ) -> Talk[Lease | None]:
        """Poll a queue until it gives an item or the timeout expires."""
        answer = yield from self._taken(queue, timed(lease=or_unset(lease)), timeout, key)
        return None if answer.status == _NO_CONTENT else understood(answer, documents.lease)

    def take_batch(
        self,
        queue: str,
        most: int,
        lease: Duration | None,
        timeout: Duration | None,
        key: str | None = None,
    ) -> Talk[list[Lease]]:
        """Poll a queue until it gives items or the timeout expires."""
        answer = yield from self._taken(queue, timed(max=most, lease=or_unset(lease)), timeout, key)
        if answer.status == _NO_CONTENT:
            return []
        return understood(answer, lambda document: [documents.lease(each) for each in document["leases"]])

    def put_back(self, take: Talk[Lease | None] | Talk[list[Lease]]) -> Talk[None]:
        """Give back what a take leases."""
        taken = yield from take
        leases = taken if isinstance(taken, list) else [taken] if taken is not None else []
        if leases:
            yield from self.end_leases([each.id for each in leases], "return")

    def end_lease(self, lease: str, how: str, delay: Duration | None = None) -> Talk[None]:
        """Acknowledge a lease (``ack``) or give it back (``return``)."""
        body = None if delay is None else timed(delay=delay)
        yield from exchange(Request("POST", path("leases", lease, how), body=body), self.policy)

    def end_leases(self, leases: Sequence[str], how: str) -> Talk[list[str]]:
        """End leases, each for itself; return those that had ended before."""
        request = Request("POST", path("leases", how), body={"leases": leases})
        return self._read(request, lambda document: documents.missed(document, leases))

    def extend(self, lease: str, seconds: Duration | None) -> Talk[float]:
        """Count a lease again from now on."""
        # Sent twice it lasts a little longer.
        request = Request(
            "POST",
            path("leases", lease, "extend"),
            body=timed(lease=or_unset(seconds)),
            twice_is_once=True,
        )
        return self._read(request, lambda document: float(document["expires_in"]))

    def leases(self, queue: str | None, cursor: str | None) -> Talk[tuple[list[Loan], str | None]]:
        """List one page of leases."""
        query = () if queue is None else (("queue", queue),)
        return self._page(path("leases"), query, cursor, "leases", documents.listed_lease)

    def queue(self, name: str) -> Talk[Queue]:
        """Show a queue."""
        return self._read(Request("GET", path("queues", name), twice_is_once=True), documents.queue)

    def queues(self, prefix: str | None, cursor: str | None) -> Talk[tuple[list[Queue], str | None]]:
        """List one page of queues."""
        query = () if prefix is None else (("prefix", prefix),)
        return self._page(path("queues"), query, cursor, "queues", documents.queue)

    def items(
        self, queue: str, delayed: bool, cursor: str | None
    ) -> Talk[tuple[list[QueuedItem], str | None]]:
        """Peek at one page of items."""
        query = (("delayed", str(int(delayed))),)
        return self._page(path("queues", queue, "items"), query, cursor, "items", documents.queued_item)

    def set_queue(self, name: str, settings: Mapping[str, object]) -> Talk[Queue]:
        """Set a queue."""
        request = Request("PUT", path("queues", name), body=timed(**settings), twice_is_once=True)
        return self._read(request, documents.queue)

    def forget_queue(self, name: str) -> Talk[None]:
        """Forget a queue's settings."""
        yield from exchange(Request("DELETE", path("queues", name), twice_is_once=True), self.policy)

    def purge(self, queue: str) -> Talk[int]:
        """Drop a queue's items."""
        return self._read(
            Request("POST", path("queues", queue, "purge")), lambda document: int(document["purged"])
        )

    def redrive(self, queue: str, most: int | None) -> Talk[int]:
        """Put dead items back."""
        request = Request(
            "POST", path("queues", queue, "redrive"), body={} if most is None else {"max": most}
        )
        return self._read(request, lambda document: int(document["moved"]))

    def _taken(
        self, queue: str, body: Mapping[str, Any], timeout: Duration | None, key: str | None
    ) -> Talk[Response]:
        request = once(path("queues", queue, "take"), body, key)

        def ask(held: float) -> Request:
            """Request items once: sent again it gets the leases whose answer was lost."""
            # Without a key it may take twice as many; those without a holder come back when their leases end.
            headers = request.headers if self.takes_have_keys else dict[str, str]()
            return replace(request, query=wait_for(held), headers=headers, held=held)

        while True:
            keyed = self.takes_have_keys
            try:
                return (yield from self.poll(ask, lambda answer: answer.status == _NO_CONTENT, timeout))
            except RequestRefused as refused:
                if not keyed or refused.slug not in _WITHOUT_KEYS:
                    raise
            self.takes_have_keys = False
