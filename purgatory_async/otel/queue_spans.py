"""Spans of queues, by the semantic conventions for messaging: a put sends, a take receives, an end of a lease settles.

An item keeps the context of its put, which a take and a settlement have links to. A take is one span however many items
it gets, and one that gets none has no span.
"""

import time
from collections.abc import Iterable, Sequence
from typing import Final

from opentelemetry.trace import Link, Span, SpanContext, SpanKind, StatusCode, Tracer
from opentelemetry.util.types import AttributeValue

from purgatory_async.durable.fold.entries import EndLease, PutItem, PutItems, WantItem
from purgatory_async.durable.fold.items import Item
from purgatory_async.durable.fold.leases import Lease
from purgatory_async.durable.fold.results import Put, PutSome, Refused, Result
from purgatory_async.otel.context import below, parsed
from purgatory_async.otel.spans import ERROR

SYSTEM: Final = "messaging.system"
DESTINATION: Final = "messaging.destination.name"
OPERATION: Final = "messaging.operation.name"
TYPE: Final = "messaging.operation.type"
MESSAGE: Final = "messaging.message.id"
COUNT: Final = "messaging.batch.message_count"

_MOST: Final = 100_000
"""Takers that are remembered: more than may wait in a process, unless they left and nothing said so."""


class QueueSpans:
    """Makes the spans of queues.

    Args:
        tracer: Begins them.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer: Final = tracer
        self._takers: Final[dict[str, tuple[str, SpanContext, int]]] = {}

    def __repr__(self) -> str:
        return f"<QueueSpans takers={len(self._takers)}>"

    def send(self, entry: PutItem | PutItems, caller: SpanContext) -> Span:
        """Begin the span of a put, which `settled` ends. O(1)."""
        more = {} if isinstance(entry, PutItem) else {COUNT: len(entry.items)}
        attributes = {**_attributes("put", "send", entry.queue), **more}
        return self._tracer.start_span(
            f"put {entry.queue}", below(caller), kind=SpanKind.PRODUCER, attributes=attributes
        )

    def settle(self, entry: EndLease, lease: Lease, caller: SpanContext) -> Span:
        """Begin the span of the end of a lease, which `settled` ends. O(1)."""
        verb = "return" if entry.back else "ack"
        return self._tracer.start_span(
            f"{verb} {lease.queue}",
            below(caller),
            kind=SpanKind.CLIENT,
            attributes={**_attributes(verb, "settle", lease.queue), MESSAGE: str(lease.item.number)},
            links=_links([lease.item]),
        )

    @staticmethod
    def settled(span: Span, result: Result) -> None:
        """End a span with the result of its entry. O(1)."""
        if isinstance(result, Put):
            span.set_attribute(MESSAGE, str(result.item))
        elif isinstance(result, PutSome) and len(result.items) == 1:
            span.set_attribute(MESSAGE, str(result.items[0]))
        elif isinstance(result, Refused):
            refuse(span, result.why)
        span.end()

    def stand(self, entry: WantItem, caller: SpanContext) -> None:
        """Note that a taker is about to take, or to stand in line. O(1)."""
        if len(self._takers) >= _MOST:
            self._takers.clear()
        self._takers[entry.lease_id] = entry.queue, caller, time.time_ns()

    def leave(self, taker: str) -> None:
        """Forget a taker that gets nothing. O(1)."""
        self._takers.pop(taker, None)

    def forget(self) -> None:
        """Forget all takers. O(takers)."""
        self._takers.clear()

    def receive(self, leases: Sequence[Lease]) -> None:
        """Make the spans of the takers that stand here and got these leases in one step. O(leases)."""
        by_taker = dict[str, list[Item]]()
        for lease in leases:
            if lease.taker in self._takers:
                by_taker.setdefault(lease.taker, []).append(lease.item)
        for taker, items in by_taker.items():
            queue, caller, began_ns = self._takers.pop(taker)
            one = {MESSAGE: str(items[0].number)} if len(items) == 1 else {COUNT: len(items)}
            self._tracer.start_span(
                f"take {queue}",
                below(caller),
                kind=SpanKind.CLIENT,
                attributes={**_attributes("take", "receive", queue), **one},
                links=_links(items),
                start_time=began_ns,
            ).end()


def refuse(span: Span, why: str) -> None:
    """Let a span be of an error. O(1)."""
    span.set_attribute(ERROR, why)
    span.set_status(StatusCode.ERROR)


def trace_of(item: Item) -> SpanContext:
    """Return the context of an item's put; an invalid one if it has none. O(1)."""
    return parsed(item.trace)


def _links(items: Iterable[Item]) -> list[Link]:
    return [Link(context) for item in items if (context := trace_of(item)).is_valid]


def _attributes(verb: str, kind: str, queue: str) -> dict[str, AttributeValue]:
    return {SYSTEM: "purgatory", DESTINATION: queue, OPERATION: verb, TYPE: kind}
